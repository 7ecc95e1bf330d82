"""What really happened, kept by the database itself and by the relays, and whether it was right.

Triggers note every move of a delivery and every change of a lease, by the database's clock. The
checks compute everything from these records; what they allow for is how late a relay may read.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from postrich.model.delivery import DeliveryState
from postrich.model.job import Job, JobState
from postrich.rules.lifecycle import DELIVERY_MOVES
from postrich.store.postgres import migrating
from postrich.store.postgres.address import parse_address
from tests.journeys.crew import Crew, Feeder, Given, Heard, WatchedRelay
from tests.journeys.test_kills import check_attempts, stories
from tests.store.servers import Admin

#: So much later than it was sent may a relay read what lies in its socket.
READING_MS = 1000
#: Clocks that differ by less count as the same, for two workers on both sides of the database's.
SKEW_MS = 100
#: How soon somebody must go on with what a dead worker left.
RESUMED_MS = 30_000

WATCH = """
CREATE TABLE lease_log (number bigserial, at bigint, name text, owner text, until bigint);
CREATE TABLE move_log (number bigserial, at bigint, job bigint, destination integer, was text,
  became text, by text);
CREATE FUNCTION note_lease() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  INSERT INTO lease_log (at, name, owner, until)
  VALUES (extract(epoch FROM clock_timestamp()) * 1000, NEW.name, NEW.owner, NEW.lease_until);
  RETURN NULL;
END $$;
CREATE FUNCTION note_move() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  INSERT INTO move_log (at, job, destination, was, became, by)
  VALUES (extract(epoch FROM clock_timestamp()) * 1000, NEW.job, NEW.destination, OLD.state,
    NEW.state, current_setting('application_name'));
  RETURN NULL;
END $$;
CREATE TRIGGER note_lease AFTER INSERT OR UPDATE ON leases
  FOR EACH ROW EXECUTE FUNCTION note_lease();
CREATE TRIGGER note_move AFTER UPDATE ON deliveries
  FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION note_move();
"""


class LeaseChange(NamedTuple):
    """From then on `owner` holds it until `until`; nobody, where that is 0."""

    at: int
    owner: str
    until: int


class Holding(NamedTuple):
    """A worker held a lease from `since` to `end`."""

    owner: str
    since: int
    end: int


class Move(NamedTuple):
    """A delivery became another, by the hand of a process."""

    at: int
    job: int
    relay: str
    was: str
    became: str
    by: str


class History(NamedTuple):
    """Everything that was recorded. Leases and what relays heard are by the relay's URL."""

    jobs: dict[int, Job]
    moves: list[Move]
    leases: dict[str, list[LeaseChange]]
    heard: dict[str, list[Heard]]


async def watch(dsn: str) -> None:
    """Record from now on what happens in this schema, in which nobody works yet."""
    await migrating.prepare(parse_address(dsn))
    async with Admin(dsn) as admin:
        await admin.link.execute(WATCH)


async def lease_changes(dsn: str) -> dict[str, list[LeaseChange]]:
    """What became of each relay's lane."""
    async with Admin(dsn) as admin:
        rows = await admin.link.fetch(
            "SELECT d.url, l.at, l.owner, l.until FROM lease_log AS l"
            " JOIN destinations AS d ON l.name = 'relay:' || d.id ORDER BY l.number"
        )
    found: dict[str, list[LeaseChange]] = defaultdict(list)
    for url, *change in rows:
        found[url].append(LeaseChange(*change))
    return found


async def holders(dsn: str) -> Counter[str]:
    """How many lanes each worker holds now."""
    changes = await lease_changes(dsn)
    last = [found[-1] for found in changes.values()]
    return Counter(change.owner for change in last if change.until)


async def read_history(dsn: str, relays: Sequence[WatchedRelay]) -> History:
    async with Admin(dsn) as admin:
        rows = await admin.link.fetch(
            "SELECT m.at, m.job, d.url, m.was, m.became, m.by FROM move_log AS m"
            " JOIN destinations AS d ON d.id = m.destination ORDER BY m.number"
        )
    jobs, told = await stories(dsn)
    for number, job in jobs.items():
        check_attempts(job, told[number])
    heard = {relay.name: relay.heard for relay in relays}
    moves = [Move(*row) for row in rows]
    return History(jobs, moves, await lease_changes(dsn), heard)


def holdings(changes: Sequence[LeaseChange]) -> list[Holding]:
    """Who held a lease when: renewed, until it was given up, lapsed or taken by another."""
    found: list[Holding] = []
    for change in changes:
        if found and found[-1].end > change.at:
            found[-1] = found[-1]._replace(end=change.at)  # whatever is new begins now
        if not change.until:
            continue
        if found and found[-1].owner == change.owner and found[-1].end == change.at:
            found[-1] = found[-1]._replace(end=change.until)
        else:
            found.append(Holding(change.owner, change.at, change.until))
    return found


async def check_history(
    crew: Crew, relays: Sequence[WatchedRelay], feeder: Feeder, kills: Iterable[int] = ()
) -> History:
    """All that must be true whatever was done to the workers."""
    history = await read_history(crew.dsn, relays)
    check_nothing_lost(history, feeder.given)
    check_moves(history)
    check_fences(history, crew)
    check_times(history, feeder.given)
    for url, heard in history.heard.items():
        check_one_speaker(url, heard, holdings(history.leases[url]))
        check_no_theft(url, history.leases[url])
        for kill in kills:
            check_resumed(url, heard, kill)
    return history


def check_nothing_lost(history: History, given: dict[int, Given]) -> None:
    """Every accepted item is one job, published, delivered everywhere, and the relays have it."""
    assert {n: job.content for n, job in history.jobs.items()} == {
        n: item.content for n, item in given.items()
    }
    ids = {job.event_id for job in history.jobs.values()}
    assert len(ids) == len(given), "an item has two jobs"
    for job in history.jobs.values():
        assert job.state is JobState.PUBLISHED, job
        assert {d.relay for d in job.deliveries} == set(history.heard)
        assert {d.state for d in job.deliveries} == {DeliveryState.DELIVERED}, job
    for url, heard in history.heard.items():
        assert {one.event_id for one in heard} == ids, url


def check_moves(history: History) -> None:
    """Every delivery is settled exactly once: nothing leaves `delivered`, each gets there once."""
    arrived: Counter[tuple[int, str]] = Counter()
    for move in history.moves:
        assert DeliveryState(move.became) in DELIVERY_MOVES[DeliveryState(move.was)], move
        arrived[move.job, move.relay] += move.became == DeliveryState.DELIVERED
    assert set(arrived.values()) == {1}
    assert len(arrived) == sum(len(job.deliveries) for job in history.jobs.values())


def check_fences(history: History, crew: Crew) -> None:
    """Who writes what became of a delivery was the last to take its lane."""
    names = {worker.name: worker.owner for worker in crew.everybody if worker.owner}
    for move in history.moves:
        changes = history.leases[move.relay]
        holder = changes[bisect_right(changes, move.at, key=lambda change: change.at) - 1].owner
        if move.by in names:
            assert holder == names[move.by], f"{move}: {holder} had the lane"


def check_times(history: History, given: dict[int, Given]) -> None:
    """Nothing is sent before its hour, nor before that which it waits for was taken somewhere."""
    first: dict[str, int] = {}
    for heard in history.heard.values():
        for one in heard:
            first[one.event_id] = min(one.at, first.get(one.event_id, one.at))
    for number, item in given.items():
        at = first[history.jobs[number].event_id]
        if item.due_at is not None:
            assert at >= item.due_at - SKEW_MS, f"job {number}: {item.due_at - at} ms early"
        if item.after is not None:
            assert at >= first[history.jobs[item.after].event_id], f"job {number} did not wait"


def check_one_speaker(url: str, heard: Sequence[Heard], held: Sequence[Holding]) -> None:
    """Who speaks to a relay holds its lane; nobody else speaks at that time."""
    for one in heard:
        mine = [h for h in held if h.owner == one.owner]
        assert any(h.since <= one.at <= h.end + READING_MS for h in mine), (
            f"{url} heard {one.owner[:8]} at {one.at}, who held its lane {mine}; others: "
            f"{[h for h in held if h.since - 5000 < one.at < h.end + 5000]}"
        )


def check_no_theft(url: str, changes: Sequence[LeaseChange]) -> None:
    """A lease changes hands only when it was given up or has lapsed, by the database's clock."""
    for before, after in itertools.pairwise(changes):
        if before.owner != after.owner:
            assert before.until <= after.at + SKEW_MS, f"{url}: {before}, then {after}"


def check_resumed(url: str, heard: Sequence[Heard], kill: int) -> None:
    """After a worker's death at `kill` the relay is soon spoken to again, by whomever."""
    after = [one.at for one in heard if one.at > kill + READING_MS]
    assert after, f"{url} heard nothing after a worker's death"
    assert after[0] - kill <= RESUMED_MS, f"{url} waited for {after[0] - kill} ms"
