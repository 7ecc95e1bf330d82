"""The alarm with a million posts ahead: `python -m bench alarm`, or `bench.alarm TASK STORE URL`.

How late posts are when a hundred are due every second, from their hour to the null relay's OK on
disk; and how long a thousand take that are due in the same moment, to the last OK on disk. Rows
of the million are made by SQL, as the adapter would leave them; the posts that come due go
through `ScheduleDesk.put`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from typing import Any

import apsw
import msgspec
import uvloop

from bench.figures import Figure
from bench.partners import CACHE, null_relays, run
from postrich.config import Settings
from postrich.doors.cli.outset import tune
from postrich.model.delivery import DeliveryState, Target
from postrich.model.event import make_draft
from postrich.model.post import Kept
from postrich.observe.notices import DeliveryChanged
from postrich.outbox import Outbox
from postrich.schedule import Wish
from postrich.sign.secret import SecretSigner

AHEAD = 1_000_000
RATE = 100
SECONDS = 8
BURST = 1000
LEAD_MS = 3000
SETTINGS = Settings(autopilot=False, relay_info=False)

#: Posts of a thousand authors, due from next week on, a second apart.
MAKE_AHEAD = """
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)
INSERT INTO jobs (id, event_id, pubkey, kind, created_at, signed, state, priority, goal, policy,
  targets, accepted_at, due_at, expires_at, stage_at, size)
SELECT 1000000 + i, unhex(printf('%064x', i)), unhex(printf('%064x', i % 1000)), 1, :now / 1000, 1,
  'scheduled', 1, 1, 'scheduled', :targets, :now, :first + 1000 * i, :first + 1000 * i + 259200000,
  :first + 1000 * i, 400
FROM n
"""
OTHER_ROWS = (
    "INSERT INTO payloads SELECT id, :body FROM jobs WHERE id > 1000000",
    "INSERT INTO identities SELECT event_id, id, NULL FROM jobs WHERE id > 1000000",
    "INSERT INTO posts SELECT lower(hex(event_id)), pubkey, id, '' FROM jobs WHERE id > 1000000",
    "UPDATE sequences SET next = 3000000 WHERE name = 'job'",
)


def measure_alarm() -> list[Figure]:
    """What a post's hour is worth with a million others ahead."""
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder, null_relays(1) as [url]:
        store = f"{folder}/outbox.db"
        fill(store, url)
        steady = _task("steady", store, url)
        burst = _task("burst", store, url)
    name = f"{AHEAD:,} ahead, {RATE} due a second"
    return [
        Figure(f"{name}: lateness, median", steady["p50"], "ms", {}),
        Figure(f"{name}: lateness, p99", steady["p99"], "ms", {}, "< 100"),
        Figure(f"{BURST:,} due at once: last OK on disk", burst["seconds"], "s", {}, "< 2"),
    ]


def _task(name: str, store: str, url: str) -> dict[str, Any]:
    return run(sys.executable, "-m", "bench.alarm", name, store, url)


def fill(store: str, url: str) -> None:
    """An outbox in which a million posts wait for hours that no bench lives to see."""
    uvloop.run(_make(store))
    now = time.time_ns() // 1_000_000
    database = apsw.Connection(store)
    body = msgspec.json.encode({"content": "x" * 200, "tags": []})
    values = {"count": AHEAD, "now": now, "first": now + 7 * 86_400_000, "body": body}
    values["targets"] = msgspec.json.encode([Target(url, "your relay")]).decode()
    with database:
        for statement in (MAKE_AHEAD, *OTHER_ROWS):
            database.execute(statement, values)
    database.execute("ANALYZE")
    database.close()


async def _make(store: str) -> None:
    async with Outbox.open(store, settings=SETTINGS, deliver=False):
        pass


async def _put(outbox: Outbox, hours: list[int], name: str) -> dict[int, int]:
    """Signed posts for these hours; when each job is due."""
    signer = SecretSigner(b"\x07" * 32)
    now = outbox.now() // 1000
    drafts = [make_draft(signer.pubkey, now, 1, (), f"{name} {n} {now}") for n in range(len(hours))]
    wishes = [
        Wish(item=await signer.sign(draft), at=at) for draft, at in zip(drafts, hours, strict=True)
    ]
    answers = await outbox.schedule.put(wishes)
    assert all(isinstance(answer, Kept) for answer in answers), answers[0]
    return {
        answer.accepted.job: at
        for answer, at in zip(answers, hours, strict=True)
        if isinstance(answer, Kept)
    }


async def steady(store: str, url: str) -> dict[str, Any]:
    """A hundred due in every second, evenly: how late is each?"""
    async with Outbox.open(store, relays=[url], settings=SETTINGS) as outbox:
        first = outbox.now() + LEAD_MS
        hours = [first + 1000 * n // RATE for n in range(RATE * SECONDS)]
        due = await _put(outbox, hours, "steady")
        assert outbox.now() < first, "this machine is too slow to hand them in before their hour"
        late = sorted(await _lateness(outbox, due))
    assert late[0] >= 0, f"{-late[0]} ms early"
    return {"p50": late[len(late) // 2], "p99": late[len(late) * 99 // 100], "most": late[-1]}


async def _lateness(outbox: Outbox, due: dict[int, int]) -> list[int]:
    """By how many milliseconds each was late, by the time at which its OK is on disk."""
    left, late = set(due), []
    with outbox.watch(100_000) as notices:
        async for notice in notices:
            if not isinstance(notice, DeliveryChanged) or notice.job not in left:
                continue
            if notice.state is DeliveryState.DELIVERED:
                left.discard(notice.job)
                late.append(outbox.now() - due[notice.job])
            if not left:
                break
    return late


async def burst(store: str, url: str) -> dict[str, Any]:
    """A thousand due at the same moment: how long until the last has its OK on disk?"""
    async with Outbox.open(store, relays=[url], settings=SETTINGS) as outbox:
        hour = outbox.now() + LEAD_MS
        due = await _put(outbox, [hour] * BURST, "burst")
        assert outbox.now() < hour, "this machine is too slow to hand them in before their hour"
        late = await _lateness(outbox, due)
    assert min(late) >= 0
    return {"seconds": max(late) / 1000, "first": min(late) / 1000}


TASKS = {task.__name__: task for task in (steady, burst)}


def main() -> None:
    tune()
    print(msgspec.json.encode(uvloop.run(TASKS[sys.argv[1]](*sys.argv[2:]))).decode())


if __name__ == "__main__":
    main()
