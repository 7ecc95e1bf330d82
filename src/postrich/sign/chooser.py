"""Which of an account's signers signs (A4): a pure choice from what is available now."""

from __future__ import annotations

import enum
from collections.abc import Collection


class Means(enum.StrEnum):
    """The ways to sign, named as in the settings of accounts."""

    SECRET = "secret"  # noqa: S105 - a name, not a secret
    NIP46 = "nip46"
    NIP07 = "nip07"


#: A key at hand needs nobody; a bunker needs a network; a page needs a person.
ORDER = (Means.SECRET, Means.NIP46, Means.NIP07)

#: How a signer is called when one speaks to people.
SPOKEN = {
    Means.SECRET: "your key",
    Means.NIP46: "your bunker",
    Means.NIP07: "your browser",
}


def choose_signer(available: Collection[Means]) -> Means | None:
    """The first in order that is available; None where nobody is."""
    return next((means for means in ORDER if means in available), None)
