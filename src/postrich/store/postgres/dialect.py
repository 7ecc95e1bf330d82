"""The PostgreSQL `.sql` files made ready: named values become numbered parameters.

`:name` is a value, `:rows.2` the third column of a list of rows. A file may hold several
statements; each is sent by itself, since a prepared statement is one.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import msgspec

from postrich.store.postgres.texts import storable
from postrich.store.queries import queries

_PLACE = re.compile(r"(?<![:\w]):([a-z_]+)(?:\.(\d+))?")
_END = re.compile(r";\s*$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)

Place = tuple[str, int | None]


class Statement(msgspec.Struct, frozen=True):
    """One statement and where its parameters come from."""

    text: str
    places: tuple[Place, ...]

    def arguments(self, values: dict[str, Any]) -> list[Any]:
        columns: dict[str, list[tuple[Any, ...]]] = {}
        found: list[Any] = []
        for name, column in self.places:
            value = values[name]
            if column is None:
                found.append(storable(list(value) if isinstance(value, set) else value))
                continue
            if name not in columns:
                columns[name] = list(zip(*value, strict=True))
            found.append(storable(columns[name][column]) if value else ())
        return found


@functools.cache
def statements(verb: str) -> tuple[Statement, ...]:
    """What a verb consists of."""
    text = _COMMENT.sub("", queries("postgres")[verb])
    return tuple(_statement(part.strip()) for part in _END.split(text) if part.strip())


def _statement(text: str) -> Statement:
    places: list[Place] = []

    def number(match: re.Match[str]) -> str:
        place = (match[1], None if match[2] is None else int(match[2]))
        if place not in places:
            places.append(place)
        return f"${places.index(place) + 1}"

    return Statement(_PLACE.sub(number, text), tuple(places))
