"""What `serve` writes down of its notices: every job at a human pace, totals in a rush.

Promises: however many jobs move, the log takes little of the time that delivering them needs.
"""

from __future__ import annotations

from collections import Counter

import structlog

from postrich.clock import Clock, SystemClock
from postrich.model.job import JobState
from postrich.observe.notices import (
    DeliveryChanged,
    JobAccepted,
    JobChanged,
    NetworkChanged,
    Notice,
    QueueSyncComplete,
    RelayChanged,
    SignerAsks,
    SignerCame,
    Subscription,
)

LINES_PER_SECOND = 20


class Chronicle:
    """Turns notices into log lines."""

    def __init__(self, log: structlog.stdlib.BoundLogger, clock: Clock | None = None) -> None:
        self._log = log
        self._clock = clock or SystemClock()
        self._second = 0
        self._lines = 0
        self._unsaid: Counter[str] = Counter()

    async def keep(self, notices: Subscription) -> None:
        """Write until the notices end."""
        async for notice in notices:
            self.note(notice)
        self._sum_up()

    def note(self, notice: Notice) -> None:
        match notice:
            case JobChanged(job=job, state=state, finished=finished):
                self._note_job(job, state, finished)
            case JobAccepted(job=job, event_id=event_id):
                self._log.debug("accepted", job=job, event_id=event_id)
            case DeliveryChanged(job=job, relay=relay, state=settled, attempts=attempts):
                self._log.debug(
                    "attempt", job=job, relay=relay, state=settled.value, attempts=attempts
                )
            case RelayChanged(relay=relay, state=breaker, detail=detail):
                self._log.debug("relay", relay=relay, breaker=breaker, detail=detail)
            case NetworkChanged(online=online):
                self._log.info("network", online=online)
            case SignerCame(pubkey=pubkey):
                self._log.info("signer", account=pubkey[:8], available=True)
            case SignerAsks(pubkey=pubkey, url=url):
                self._log.warning("your bunker asks you to approve", account=pubkey[:8], at=url)
            case QueueSyncComplete():
                self._log.info("all published")
            case _:
                pass

    def _note_job(self, job: int, state: JobState, finished: bool) -> None:
        second = int(self._clock.tick())
        if second != self._second:
            self._sum_up()
            self._second, self._lines = second, 0
        self._lines += 1
        if self._lines > LINES_PER_SECOND:
            self._unsaid[state.value] += 1
        else:
            self._log.info("job", job=job, state=state.value, finished=finished)

    def _sum_up(self) -> None:
        if self._unsaid:
            self._log.info("more jobs", **dict(self._unsaid))
            self._unsaid.clear()
