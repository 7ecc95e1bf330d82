"""`migrate`: which schema the store has, and bringing it up to date (F10).

Promises: `status` changes nothing; `up` alone adds only, so that older workers go on; what takes
away waits for `--contract`, and for the last older worker to be gone.
"""

from __future__ import annotations

from typing import Any

import msgspec

from postrich.deliver.fleet import is_dead
from postrich.doors.cli.home import Home
from postrich.doors.cli.outset import FAILED
from postrich.doors.cli.showing import say, write_json
from postrich.doors.cli.words import count, plain
from postrich.errors import StoreUnusable
from postrich.store.places import Place
from postrich.store.port import WorkerInfo
from postrich.store.schema import SchemaStatus, bring_up, older_workers, schema_status


async def show(home: Home, as_json: bool) -> int:
    """Answer `postrich migrate status`: 1 where this software cannot work with the store."""
    place = home.place()
    found = await schema_status(place)
    if as_json:
        write_json(_document(place, found))
    else:
        for line in _lines(place, found):
            say(line)
    return FAILED if found.is_newer else 0


async def bring_up_to_date(home: Home, contract: bool, as_json: bool) -> int:
    """Answer `postrich migrate up`."""
    home.make()
    place = home.place()
    before = await schema_status(place)
    if before.is_newer:
        raise StoreUnusable(_newer(place, before))
    if contract and before.contracting:
        await _check_crew(place, max(before.contracting))
    after = await bring_up(place, contract=contract)
    applied = [number for number in before.pending if number <= after.version]
    if as_json:
        write_json(_document(place, after) | {"applied": applied})
        return 0
    say(_done(place, before, applied))
    for line in _to_do(after):
        say(line)
    return 0


async def _check_crew(place: Place, schema: int) -> None:
    """Older workers would fail in the middle of their work."""
    older = [worker for worker in await older_workers(place, schema) if not is_dead(worker)]
    if older:
        raise StoreUnusable(
            f"older workers are still at work on {place.shown}: {names_of(older)}; "
            "stop or upgrade them first, nothing was changed"
        )


def names_of(workers: list[WorkerInfo]) -> str:
    """`worker 4711 on alpha, serve 12 on beta`."""
    return ", ".join(plain(w.whereabouts) for w in workers)


# -- in words ----------------------------------------------------------------------------------


def _document(place: Place, found: SchemaStatus) -> dict[str, Any]:
    figures: dict[str, Any] = msgspec.to_builtins(found)
    return {"store": place.shown} | figures


def _lines(place: Place, found: SchemaStatus) -> list[str]:
    if found.version == 0:
        return [f"There is no outbox at {place.shown} yet.", "Next: postrich migrate up"]
    if found.is_newer:
        return [_newer(place, found)]
    first = f"{place.shown} has schema {found.version}; the newest that is known is {found.newest}."
    oldest = f"Software that knows schema {found.min_version} or newer works with it."
    return [first, oldest, *(_to_do(found) or ["Nothing is pending."])]


def _to_do(found: SchemaStatus) -> list[str]:
    """What is pending, and how it is applied."""
    lines = []
    if adding := [number for number in found.pending if number not in found.contracting]:
        what = count(len(adding), "migration")
        lines.append(f"{what} pending ({_numbers(adding)}); next: postrich migrate up")
    if found.contracting:
        what = count(len(found.contracting), "migration")
        lines.append(
            f"{what} pending that older versions cannot work with ({_numbers(found.contracting)}); "
            "once all workers are upgraded: postrich migrate up --contract"
        )
    return lines


def _numbers(numbers: list[int] | tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def _done(place: Place, before: SchemaStatus, applied: list[int]) -> str:
    if not applied:
        return f"Nothing was to be applied: {place.shown} has schema {before.version}."
    if before.version == 0:
        return f"Made an outbox at {place.shown}, schema {applied[-1]}."
    return f"Applied {_numbers(applied)}: {place.shown} has schema {applied[-1]} now."


def _newer(place: Place, found: SchemaStatus) -> str:
    return (
        f"{place.shown} was made by a newer Postrich (schema {found.version}, this one knows "
        f"{found.newest}); upgrade Postrich"
    )
