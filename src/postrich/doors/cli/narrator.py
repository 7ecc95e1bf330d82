"""The demo's voice: one line per notice, and nothing that did not happen.

Promises: every line comes from a notice of the outbox or from its own record of a relay's
health; plain lines where stdout is no terminal.
"""

from __future__ import annotations

from rich.text import Text

from postrich.clock import SystemClock
from postrich.doors.cli.showing import console
from postrich.doors.cli.words import clock_time, count, snippet, span
from postrich.model.delivery import DeliveryState
from postrich.model.job import Job, JobState
from postrich.model.relay import RelayHealth
from postrich.observe.notices import (
    DeliveryChanged,
    JobAccepted,
    JobChanged,
    Notice,
    QueueSyncComplete,
    RelayChanged,
)
from postrich.outbox import Outbox


class Narrator:
    """Tells what happens; `names` are the relays' nicknames by URL."""

    def __init__(self, outbox: Outbox, names: dict[str, str]) -> None:
        self._outbox = outbox
        self._names = names
        self._clock = SystemClock()
        self._screen = console()
        self._delivered: set[tuple[int, str]] = set()
        self._published: set[int] = set()
        self._everywhere: set[int] = set()
        self._probes: dict[str, int] = {}
        self.accepted = 0

    @property
    def summary(self) -> str:
        return (
            f"{self.accepted} accepted, {len(self._published)} published, "
            f"{len(self._everywhere)} delivered everywhere"
        )

    async def tell(self, notice: Notice) -> None:
        """Say one notice."""
        match notice:
            case JobAccepted(job=number):
                job = await self._outbox.job(number)
                self.accepted += 1
                self._line(number, "accepted", f"“{snippet(job.content, 50)}”", "cyan")
            case DeliveryChanged(job=number, relay=relay, state=DeliveryState.DELIVERED):
                self._tell_delivered(number, relay)
            case DeliveryChanged(job=number, relay=relay):
                self._tell_attempt(notice)
            case JobChanged(job=number, state=JobState.PUBLISHED):
                await self._tell_published(number)
            case RelayChanged(relay=relay, state="open", detail=detail):
                self._line(None, self._name(relay), f"unreachable: {detail}", "red")
            case RelayChanged(relay=relay, state="closed"):
                self._line(None, self._name(relay), "is back", "green")
            case QueueSyncComplete():
                self._line(None, "queue", "nothing waits to be published", "dim")
            case _:
                pass

    async def look_at_health(self) -> None:
        """Say when an unreachable relay is tried again: the outbox keeps that beside notices."""
        waiting = {entry.url: entry.waiting for entry in await self._outbox.backlog()}
        for health in await self._outbox.health():
            self._tell_probe(health, waiting.get(health.url, 0))

    def _tell_probe(self, health: RelayHealth, waiting: int) -> None:
        if health.state != "open" or health.next_probe is None:
            self._probes.pop(health.url, None)
            return
        wait = health.next_probe - self._clock.now()
        if wait > 0 and self._probes.get(health.url) != health.failures:
            self._probes[health.url] = health.failures
            text = f"retry in {span(wait)}; {count(waiting, 'note')} in its queue"
            self._line(None, self._name(health.url), text, "yellow")

    def _tell_attempt(self, notice: DeliveryChanged) -> None:
        text = f"at {self._name(notice.relay)}: {notice.detail}"
        if notice.next_at is not None:
            text += f" (retry in {span(notice.next_at - self._clock.now())})"
        self._line(notice.job, notice.state.value, text, "yellow")

    def _tell_delivered(self, number: int, relay: str) -> None:
        if (number, relay) not in self._delivered:
            self._delivered.add((number, relay))
            self._line(number, "delivered", f"at {self._name(relay)}", "green")

    async def _tell_published(self, number: int) -> None:
        """A job's own notice comes before those of its relays: ask for them, say them first."""
        job = await self._outbox.job(number)
        for delivery in job.delivered:
            self._tell_delivered(number, delivery.relay)
        share = f"{len(job.delivered)} of {len(job.deliveries)} relays have it"
        if number not in self._published:
            self._published.add(number)
            self._line(number, "published", f"{share}, goal {job.goal}", "bold green")
        if self._is_everywhere(job) and number not in self._everywhere:
            self._everywhere.add(number)
            self._line(number, "complete", "delivered everywhere", "bold green")

    def _is_everywhere(self, job: Job) -> bool:
        return len(job.delivered) == len(job.deliveries)

    def _name(self, relay: str) -> str:
        return self._names.get(relay, relay)

    def _line(self, job: int | None, what: str, text: str, style: str) -> None:
        now = self._clock.now()
        line = Text(f"{clock_time(now, now)}  ", "dim")
        line.append(f"{f'#{job}' if job else '':>4}  ", "bold")
        line.append(f"{what:<11}", style)
        line.append(snippet(text, 200))
        self._screen.print(line, soft_wrap=True)

    def banner(self, lines: list[str]) -> None:
        """What is to be seen here."""
        for number, line in enumerate(lines):
            self._screen.print(Text(line, "bold" if number == 0 else ""), soft_wrap=True)
