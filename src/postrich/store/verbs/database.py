"""A database as the verbs see it: SQL by name within the transaction that is open.

Each dialect has a `.sql` file of the same name for every verb, with the same values and the same
answer. Lists may be handed in as they are; how a dialect binds them is its own affair.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import msgspec

T = TypeVar("T")
_encode = msgspec.json.Encoder().encode


def to_json(value: Any) -> str:
    """Text that is kept as JSON in a column."""
    return _encode(value).decode()


class Database(Protocol):
    """One connection, used by one verb at a time."""

    def run(self, verb: str, /, **values: Any) -> None:
        """Carry a verb out."""

    def scalar(self, verb: str, /, **values: Any) -> Any:
        """The verb's single value, a tuple where it has several; None where there is no row."""

    def read(self, kind: type[T], verb: str, /, **values: Any) -> T:
        """The verb's whole answer as `kind`."""

    def changes(self) -> int:
        """How many rows the last verb that was carried out touched."""

    def lock(self, what: str, /, **values: Any) -> bool:
        """Nobody else touches these before the commit: whatever is read from now on stays true.

        False where a transaction has the database to itself, so that nothing has to be locked.
        """
