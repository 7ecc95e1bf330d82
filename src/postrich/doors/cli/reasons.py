"""Why a job is not further than it is: what it waits for now, and what each of its relays does."""

from __future__ import annotations

from collections.abc import Sequence

from postrich.clock import SystemClock
from postrich.doors.cli.standing import is_worked_on
from postrich.doors.cli.waits import Around, What, waits_for_what
from postrich.doors.cli.words import plain, relay_name, when
from postrich.model.delivery import Delivery, DeliveryState
from postrich.model.job import Job, JobFilter
from postrich.model.relay import RelayHealth
from postrich.outbox import Outbox
from postrich.sign.accounts import Account


async def look_around(outbox: Outbox, accounts: Sequence[Account], jobs: Sequence[Job]) -> Around:
    """What is known beside these jobs."""
    states = {job.id: job.state for job in jobs}
    needed = {number for job in jobs for number in job.waits_for} - set(states)
    if needed:
        others = await outbox.jobs(JobFilter(jobs=tuple(needed)), len(needed))
        states |= {job.id: job.state for job in others}
    health = {entry.url: entry for entry in await outbox.health()}
    return Around(SystemClock().now(), accounts, states, health)


async def waits_of(outbox: Outbox, job: Job, around: Around) -> list[str]:
    """What the job waits for, in sentences; nothing where it is finished."""
    wait = waits_for_what(job, around)
    if wait is None:
        return []
    sentences = [wait.text]
    if wait.what in (What.RELAYS, What.NETWORK):
        sentences = [wait.text] if wait.what is What.NETWORK else []
        sentences += [
            _delivery_waits(delivery, around.health.get(delivery.relay), around.now)
            for delivery in job.deliveries
            if delivery.state is DeliveryState.WAITING
        ]
    if not job.is_finished and not await is_worked_on(outbox):
        sentences.append("Nobody delivers now: run `postrich serve`.")
    return sentences


def _delivery_waits(delivery: Delivery, health: RelayHealth | None, now: int) -> str:
    name = relay_name(delivery.relay)
    if health is not None and health.state == "open":
        is_ahead = health.next_probe is not None and health.next_probe > now
        probe = f"; next probe {when(health.next_probe or 0, now)}" if is_ahead else ""
        return f"{name}: unreachable since {when(health.since, now)}: {plain(health.detail)}{probe}"
    if delivery.next_at is not None and delivery.next_at > now:
        last = f" after “{plain(delivery.detail)}”" if delivery.detail else ""
        return (
            f"{name}: attempt {delivery.attempts + 1} follows {when(delivery.next_at, now)}{last}"
        )
    return f"{name}: due now"
