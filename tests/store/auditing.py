"""What must hold of a store at any moment, whatever happened to it."""

from __future__ import annotations

from postrich.model.delivery import DeliveryState
from postrich.model.job import Job, JobFilter, JobState
from postrich.store.port import Store

OPEN_STATES = (JobState.PENDING_SIGN, JobState.SCHEDULED, JobState.PENDING_PUBLISH)
ALL = 100_000


async def audit(store: Store) -> list[Job]:
    """Check every job and the queue's figures against each other; returns the jobs."""
    jobs = await store.jobs(JobFilter(), ALL)
    for job in jobs:
        _audit_job(job)
    waiting = [
        delivery
        for job in jobs
        for delivery in job.deliveries
        if delivery.state is DeliveryState.WAITING and delivery.next_at is not None
    ]
    status = await store.status()
    backlog = await store.backlog()
    assert status.open_deliveries == len(waiting)
    assert sum(relay.waiting for relay in backlog) == len(waiting)
    assert sum(relay.tried for relay in backlog) == sum(d.attempts > 0 for d in waiting)
    assert {work.destination.url for work in await store.work()} == {d.relay for d in waiting}
    pending = [
        job for job in jobs if job.state in (JobState.PENDING_SIGN, JobState.PENDING_PUBLISH)
    ]
    assert status.pending == len(pending)
    assert status.oldest == min((job.accepted_at for job in pending), default=None)
    return jobs


def _audit_job(job: Job) -> None:
    waits = any(delivery.state is DeliveryState.WAITING for delivery in job.deliveries)
    if job.state in OPEN_STATES:
        assert not job.is_finished, f"{job.state} job {job.id} is finished"
    elif job.state is not JobState.PUBLISHED:
        assert job.is_finished, f"{job.state} job {job.id} is not finished"
    if job.is_finished:
        assert not waits, f"finished job {job.id} has a waiting delivery"
        assert job.next_at is None, f"finished job {job.id} has a next attempt"
    else:
        is_staged = job.next_at is not None  # it is still to be routed, in part or at all
        assert waits or is_staged, f"open job {job.id} ({job.state}) has nothing to wait for"
    is_published = len(job.delivered) >= job.goal
    assert is_published == (job.state is JobState.PUBLISHED), f"job {job.id} is {job.state}"
    assert is_published == (job.published_at is not None)
    for delivery in job.deliveries:
        assert (delivery.state is DeliveryState.WAITING) == (delivery.settled_at is None)
