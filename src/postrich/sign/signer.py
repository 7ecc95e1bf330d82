"""The seam for signers: whoever can turn a draft of its account into an event.

A signer never changes a draft: what comes back has the draft's own id, or is refused here.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from postrich.errors import SignerError, SignerTimeout, SignerUnavailable
from postrich.model.event import Draft, Event, is_signed
from postrich.rules.redact import redact


class Signer(Protocol):
    """One way to sign for one account."""

    @property
    def pubkey(self) -> str: ...

    async def sign(self, draft: Draft) -> Event:
        """The signed draft; raises a `SignerError` with its code (A5)."""
        ...


class Signers:
    """The signers at hand, by account."""

    def __init__(self, patience: float = 20.0) -> None:
        self.patience = patience
        self._by_pubkey: dict[str, Signer] = {}

    def add(self, signer: Signer) -> None:
        self._by_pubkey[signer.pubkey] = signer

    def __contains__(self, pubkey: str) -> bool:
        return pubkey in self._by_pubkey

    @property
    def default(self) -> Signer | None:
        """The account that posts when none is named."""
        return next(iter(self._by_pubkey.values()), None)

    async def sign(self, draft: Draft) -> Event:
        """Sign within the time allowed; what comes back is checked against the draft."""
        signer = self._by_pubkey.get(draft.pubkey)
        if signer is None:
            raise SignerUnavailable(f"no signer for {draft.pubkey[:8]}… is at hand")
        try:
            async with asyncio.timeout(self.patience):
                event = await signer.sign(draft)
        except TimeoutError:
            raise SignerTimeout(f"the signer did not answer in {self.patience:g} s") from None
        except SignerError:
            raise
        except Exception as problem:
            raise SignerUnavailable(f"the signer failed: {redact(str(problem))}") from problem
        if event.id != draft.id or not is_signed(event):
            raise SignerError("the signer returned another event than the one it was given")
        return event
