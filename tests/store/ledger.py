"""The walk's ledger: what was done, and what must therefore be true of every job.

It knows only which jobs were taken and which attempts were made. It never guesses a state; it
holds every move that it sees against the tables of `rules/lifecycle.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from postrich.model.event import Draft, Event
from postrich.model.job import Job, JobChange, JobState
from postrich.rules.lifecycle import DELIVERY_MOVES, JOB_MOVES


def is_routed(job: Job) -> bool:
    """Whether a job has deliveries; before that, its destinations are only planned."""
    return any(d.next_at is not None or d.code is not None for d in job.deliveries)


class Ledger:
    """What was done so far, and what the store showed last."""

    def __init__(self) -> None:
        self.contents: dict[int, Draft | Event] = {}
        self.kept: set[int] = set()
        self.attempts: dict[tuple[int, str], int] = {}
        self.seen: dict[int, Job] = {}
        self.told: dict[int, JobChange] = {}
        self.retried = False

    def tell(self, changes: Iterable[JobChange]) -> None:
        self.told.update((change.job, change) for change in changes)

    def look(self, jobs: Iterable[Job]) -> None:
        """Hold what the store shows against what was done, and against the tables."""
        shown = {job.id: job for job in jobs}
        assert set(shown) == self.kept, "a job was lost or came from nowhere"
        for number, job in shown.items():
            before = self.seen.get(number)
            if before is not None:
                self._check_moves(before, job)
            self._check_attempts(job)
            self._check_told(job)
        self.seen = shown
        self.told.clear()
        self.retried = False

    def _check_moves(self, before: Job, job: Job) -> None:
        if job.state is not before.state:
            assert self._is_legal(before.state, job.state), f"{before.state} became {job.state}"
            assert job.id in self.told, f"job {job.id} became {job.state} in silence"
        old = {delivery.relay: delivery.state for delivery in before.deliveries}
        new = {delivery.relay: delivery.state for delivery in job.deliveries}
        assert set(old) <= set(new), "a destination was lost"
        for relay, state in new.items():
            was = old.get(relay, state) if is_routed(before) else state
            assert state is was or state in DELIVERY_MOVES[was], f"{was} became {state}"
        assert (job.event_id, job.content) == (before.event_id, before.content)
        assert job.expires_at >= before.expires_at

    def _is_legal(self, old: JobState, new: JobState) -> bool:
        """By one move; a retry may open a job and end it again in one commit."""
        by_way_of = JOB_MOVES[old] & {JobState.PENDING_SIGN, JobState.PENDING_PUBLISH}
        return new in JOB_MOVES[old] or (
            self.retried and any(new in JOB_MOVES[state] for state in by_way_of)
        )

    def _check_attempts(self, job: Job) -> None:
        for delivery in job.deliveries:
            made = self.attempts.get((job.id, delivery.relay), 0)
            assert delivery.attempts == made, f"job {job.id} at {delivery.relay}"

    def _check_told(self, job: Job) -> None:
        change = self.told.get(job.id)
        if change is not None:
            assert (change.state, change.finished) == (job.state, job.is_finished)
