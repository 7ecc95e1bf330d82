"""Figures for Prometheus (F8): counted as things happen, measured when somebody asks.

Promises: counting never waits and never fails; counts are of this process since it started, what
is measured is of the whole store. No figure names a post or a person.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from postrich.model.delivery import DeliveryState, Settlement
from postrich.model.job import JobChange, JobState, QueueStatus
from postrich.model.relay import RelayHealth
from postrich.store.port import Backlog

#: Seconds: an alarm is on time within the first few, late after a second.
LATENESS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300)
LATENCY = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
#: Published jobs of which some relay still waits: remembered so that each is counted once.
MOST_OPEN = 100_000


class Measured(msgspec.Struct, frozen=True):
    """What is looked up when somebody asks."""

    status: QueueStatus
    backlog: Sequence[Backlog]
    health: Sequence[RelayHealth]
    workers: int
    lanes: int
    now: int


class Meters:
    """All figures of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._open: set[int] = set()

        def counter(name: str, text: str, labels: Iterable[str] = ()) -> Counter:
            return Counter(name, text, labels, registry=self.registry)

        def gauge(name: str, text: str, labels: Iterable[str] = ()) -> Gauge:
            return Gauge(name, text, labels, registry=self.registry)

        self._accepted = counter("postrich_accepted_total", "Jobs that were kept.")
        self._scheduled = counter("postrich_scheduled_total", "Jobs that were kept for an hour.")
        self._ended = counter(
            "postrich_ended_total",
            "Jobs by how they ended; published: their goal was met.",
            ("state",),
        )
        self._deliveries = counter(
            "postrich_deliveries_total",
            "Attempts at relays by outcome; retry: another one follows.",
            ("outcome",),
        )
        for ended in (JobState.PUBLISHED, JobState.FAILED, JobState.CANCELLED):
            self._ended.labels(ended.value)  # a figure that is not there yet has no increase
        for outcome in (DeliveryState.DELIVERED, "retry", DeliveryState.REFUSED):
            self._deliveries.labels(str(outcome))
        self._lateness = Histogram(
            "postrich_alarm_lateness_seconds",
            "How long after its hour a job was sent on its way.",
            buckets=LATENESS,
            registry=self.registry,
        )
        self._latency = Histogram(
            "postrich_relay_latency_seconds",
            "From an event to its OK; one sample of each group.",
            ("relay",),
            buckets=LATENCY,
            registry=self.registry,
        )
        self._jobs = gauge("postrich_jobs", "Jobs that wait or need a person.", ("state",))
        self._oldest = gauge("postrich_oldest_waiting_seconds", "Age of the oldest that waits.")
        self._workers = gauge("postrich_workers", "Processes that work on this store.")
        self._lanes = gauge("postrich_lanes", "Relays that this process holds.")
        self._waiting = gauge("postrich_waiting", "Deliveries that wait.", ("relay",))
        self._breaker = gauge(
            "postrich_relay_breaker_open", "1 while a relay is not tried.", ("relay",)
        )

    # -- counted -------------------------------------------------------------------------------

    def accepted(self, jobs: int, scheduled: int) -> None:
        self._accepted.inc(jobs)
        self._scheduled.inc(scheduled)

    def changed(self, changes: Iterable[JobChange]) -> None:
        """Jobs moved; each counts once, when its goal is met or when it ended otherwise."""
        for change in changes:
            if change.state is JobState.PUBLISHED:
                self._published(change)
            elif change.finished:
                self._ended.labels(change.state.value).inc()

    def _published(self, change: JobChange) -> None:
        if change.job not in self._open:
            self._ended.labels(JobState.PUBLISHED.value).inc()
            if len(self._open) < MOST_OPEN:
                self._open.add(change.job)
        if change.finished:
            self._open.discard(change.job)

    def settled(self, delivered: int, others: Sequence[Settlement]) -> None:
        """A lane wrote what it learnt."""
        if delivered:
            self._deliveries.labels(DeliveryState.DELIVERED.value).inc(delivered)
        for other in others:
            outcome = "retry" if other.state is DeliveryState.WAITING else other.state.value
            self._deliveries.labels(outcome).inc()

    def answered(self, relay: str, seconds: float) -> None:
        self._latency.labels(relay).observe(seconds)

    def rang(self, late_ms: int) -> None:
        """A job was sent on its way so long after its hour."""
        self._lateness.observe(max(0, late_ms) / 1000)

    # -- measured ------------------------------------------------------------------------------

    def render(self, measured: Measured) -> tuple[str, bytes]:
        """The content type, and everything in Prometheus' text form."""
        status = measured.status
        for state in ("pending", "scheduled", "parked", "failed"):
            self._jobs.labels(state).set(getattr(status, state))
        age = 0 if status.oldest is None else max(0, measured.now - status.oldest) / 1000
        self._oldest.set(age)
        self._workers.set(measured.workers)
        self._lanes.set(measured.lanes)
        self._waiting.clear()
        for relay in measured.backlog:
            self._waiting.labels(relay.url).set(relay.waiting)
        self._breaker.clear()
        for health in measured.health:
            self._breaker.labels(health.url).set(health.state != "closed")
        return CONTENT_TYPE_LATEST, generate_latest(self.registry)
