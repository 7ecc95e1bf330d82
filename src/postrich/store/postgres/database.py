"""One connection as the verbs see it, within the transaction that is open on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from postrich.store.postgres.bridge import wait
from postrich.store.postgres.dialect import Statement, statements
from postrich.store.verbs.moving import KnownUrls

T = TypeVar("T")
#: Jobs, their route as (destination, reason, mine), band, due time.
Group = tuple[Sequence[int], Sequence[tuple[int, str, int]], int, int]
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    if kind not in _decoders:
        _decoders[kind] = msgspec.json.Decoder(kind)
    return _decoders[kind]


class Database:
    """Lives as long as its transaction. Use it within `bridge.carry` only.

    `first`: the job numbers from there on were taken for this transaction.
    """

    def __init__(self, connection: Any, known_urls: KnownUrls, first: int | None = None) -> None:
        self.known_urls = known_urls
        self._connection = connection
        self._first = first
        self._changes = 0
        self._locked: set[int] = set()

    def run(self, verb: str, /, **values: Any) -> None:
        """Carry a verb out."""
        if verb == "route_deliveries":
            self._route(**values)
            return
        for statement in statements(verb):
            self._execute(statement, values)

    def _route(self, groups: Sequence[Group]) -> None:
        """One group is crossed by the database; of several each delivery is written out."""
        if len(groups) == 1:
            [(jobs, routes, band, next_at)] = groups
            self.run("route_same", jobs=jobs, routes=routes, band=band, next_at=next_at)
            return
        rows = [
            (job, *step, band, next_at)
            for jobs, routes, band, next_at in groups
            for job in jobs
            for step in routes
        ]
        self.run("route_each", rows=rows)

    def _execute(self, statement: Statement, values: dict[str, Any]) -> None:
        status = wait(self._connection.execute(statement.text, *statement.arguments(values)))
        count = str(status).rpartition(" ")[2]
        self._changes = int(count) if count.isdigit() else 0

    def _fetch(self, verb: str, values: dict[str, Any]) -> list[Any]:
        [statement] = statements(verb)
        rows = wait(self._connection.fetch(statement.text, *statement.arguments(values)))
        return list(rows)

    def scalar(self, verb: str, /, **values: Any) -> Any:
        """The verb's single value, a tuple where it has several; None where there is no row."""
        if verb == "accept_numbers":
            assert self._first is not None, "no job numbers were taken for this transaction"
            return self._first
        rows = self._fetch(verb, values)
        if not rows:
            return None
        return rows[0][0] if len(rows[0]) == 1 else tuple(rows[0])

    def read(self, kind: type[T], verb: str, /, **values: Any) -> T:
        """The verb's whole answer as `kind`: its rows, or the one value that is called json."""
        rows = self._fetch(verb, values)
        if rows and next(iter(rows[0].keys())) == "json":
            found: T = _decoder(kind).decode(rows[0][0])
            return found
        width = len(rows[0]) if rows else 0
        plain = [row[0] for row in rows] if width == 1 else [tuple(row) for row in rows]
        return msgspec.convert(plain, kind)

    def changes(self) -> int:
        return self._changes

    def lock(self, what: str, /, **values: Any) -> bool:
        """Hold rows until the commit; jobs that this transaction holds already cost nothing."""
        if what in ("jobs", "live_jobs"):
            missing = self._not_locked(values["jobs"])
            if not missing:
                return True
            values["jobs"] = missing
        self.run(f"lock_{what}", **values)
        return True

    def _not_locked(self, jobs: Iterable[int]) -> list[int]:
        missing = sorted(set(jobs) - self._locked)
        self._locked.update(missing)
        return missing
