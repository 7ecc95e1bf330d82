"""Why a job is not further than it is: what each part of it waits for now, one sentence each."""

from __future__ import annotations

from postrich.doors.cli.standing import is_worked_on
from postrich.doors.cli.words import plain, relay_name, when
from postrich.errors import UnknownJob
from postrich.model.delivery import Delivery, DeliveryState
from postrich.model.job import Job, JobState
from postrich.model.relay import RelayHealth
from postrich.outbox import Outbox


async def waits_of(outbox: Outbox, job: Job, now: int) -> list[str]:
    """What the job waits for; nothing where it is finished."""
    if job.state is JobState.PARKED:
        return [_parked(job)]
    if job.is_finished:
        return []
    sentences = await _own_waits(outbox, job, now)
    is_worked = await is_worked_on(outbox)
    if not sentences:
        health = {entry.url: entry for entry in await outbox.health()}
        sentences = [
            _delivery_waits(delivery, health.get(delivery.relay), now)
            for delivery in job.deliveries
            if delivery.state is DeliveryState.WAITING
        ]
    if not is_worked:
        sentences.append("Nobody delivers now: run `postrich serve`.")
    return sentences


def _parked(job: Job) -> str:
    why = f" ({plain(job.error.message)})" if job.error else ""
    return f"It waits for you{why}: then run `postrich queue retry {job.id}`."


async def _own_waits(outbox: Outbox, job: Job, now: int) -> list[str]:
    """What keeps the whole job from its relays."""
    if job.state is JobState.SCHEDULED and job.due_at is not None:
        return [f"It is scheduled for {when(job.due_at, now)}."]
    if job.state is JobState.PENDING_SIGN:
        trouble = f" ({plain(job.error.message)})" if job.error else ""
        again = f"; next try {when(job.next_at, now)}" if job.next_at is not None else ""
        return [f"It waits for its signature{trouble}{again}."]
    if job.state is JobState.PUBLISHED:
        return []
    return [
        f"It waits for job {number}, which is {state}."
        for number in job.waits_for
        if (state := await _state_of(outbox, number)) is not JobState.PUBLISHED
    ]


async def _state_of(outbox: Outbox, number: int) -> str:
    try:
        return (await outbox.job(number)).state
    except UnknownJob:
        return "gone"


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
