"""The crew: who works on a store, as people want to see it. Looks, and changes nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from postrich.deliver.fleet import LANE, is_dead
from postrich.deliver.shared import Shared
from postrich.model.worker import Hold, Worker
from postrich.store.port import LeaseInfo, WorkerInfo


async def crew(shared: Shared) -> list[Worker]:
    """Every worker that the store knows of, in the order they came, with what each holds."""
    store, now = shared.store, shared.clock.now()
    leases = await store.leases()
    numbers = [_lane(lease) for lease in leases if lease.name.startswith(LANE)]
    urls = await store.relay_urls(numbers) if numbers else {}
    held: defaultdict[str, list[Hold]] = defaultdict(list)
    for lease in leases:
        held[lease.owner].append(_hold(lease, urls, now))
    lapsed = now - round(shared.settings.lease * 1000)
    workers = sorted(await store.workers(), key=lambda worker: worker.started_at)
    return [_worker(worker, shared.owner, lapsed, held[worker.owner]) for worker in workers]


def _worker(info: WorkerInfo, me: str, lapsed: int, holds: Sequence[Hold]) -> Worker:
    return Worker(
        owner=info.owner,
        host=info.machine,
        pid=info.pid,
        role=info.role,
        started_at=info.started_at,
        seen_at=info.seen_at,
        alive=is_alive(info, lapsed),
        is_self=info.owner == me,
        holds=tuple(sorted(holds, key=lambda hold: (hold.duty, hold.name))),
    )


def is_alive(worker: WorkerInfo, lapsed: int) -> bool:
    """Heard of since `lapsed`, and not certainly gone."""
    return worker.seen_at >= lapsed and not is_dead(worker)


def _hold(lease: LeaseInfo, urls: Mapping[int, str], now: int) -> Hold:
    duty, _, name = lease.name.partition(":")
    if lease.name.startswith(LANE):
        name = urls.get(_lane(lease), name)
    return Hold(duty, name, lease.until, lease.until <= now)


def _lane(lease: LeaseInfo) -> int:
    return int(lease.name.removeprefix(LANE))
