"""The alarm (F3): what is scheduled goes out at its hour by the clock on the wall, never before.

Clocks jump, machines sleep, processes end, people change their minds: none of that makes a post
go early, twice, or not at all.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path

import pytest

from postrich import JobState, Outbox
from postrich.clock import Clock
from postrich.errors import CallerError, TooLate
from postrich.model.post import Kept, Post
from postrich.schedule import Wish
from tests.deliver.outboxes import (
    PATIENCE,
    STORE,
    JumpingClock,
    SteadyClock,
    one_pass,
    outbox_at,
    run_sql,
    until,
)
from tests.relays.conversation import Client
from tests.relays.events import Event, make_event
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import accept

ALICE = os.urandom(32)
HOUR = 3600.0
#: A poll that no test lives to see: what goes out then was armed for its hour.
NEVER = 10 * PATIENCE
LONG_AGO = 1_700_000_000


def note(text: str) -> Event:
    return make_event(ALICE, content=text, created_at=LONG_AGO)


async def put(outbox: Outbox, seconds: float, *texts: str) -> list[Post]:
    """Schedule notes for so many seconds from now, under their texts."""
    at = outbox.now() + round(seconds * 1000)
    wishes = [Wish(item=note(text), at=at, name=text) for text in texts]
    for answer in await outbox.schedule.put(wishes):
        assert isinstance(answer, Kept), answer
    return [await outbox.schedule.get(text) for text in texts]


def sent(relay: ScriptedRelay) -> list[str]:
    return [event["content"] for event in relay.events]


async def arrived(relay: ScriptedRelay, *texts: str) -> None:
    """Wait until exactly these have come."""
    await relay.wait_until(lambda: len(relay.events) >= len(texts), PATIENCE)
    assert sorted(sent(relay)) == sorted(texts)


async def nothing_goes(outbox: Outbox, relay: ScriptedRelay) -> None:
    """Let the alarm look twice: it finds nothing to do."""
    before = sent(relay), (await outbox.status()).scheduled
    await one_pass(outbox._stager)
    await one_pass(outbox._stager)
    assert (sent(relay), (await outbox.status()).scheduled) == before


# -- armed to the earliest ---------------------------------------------------------------------


class Punctual:
    """Accepts events, and notes by how many milliseconds each came after its hour."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.due: dict[str, int] = {}
        self.lateness: list[int] = []

    async def __call__(self, client: Client, event: Event) -> None:
        self.lateness.append(self._clock.now() - self.due[event["content"]])
        await accept(client, event)


@pytest.mark.req("F3")
async def test_nothing_goes_early_and_each_hour_is_armed_for(tmp_path: Path) -> None:
    clock = SteadyClock()
    punctual = Punctual(clock)
    async with (
        ScriptedRelay(punctual) as relay,
        outbox_at(tmp_path, relay, clock=clock, poll=NEVER) as outbox,
    ):
        texts = [f"note {number}" for number in range(40)]
        at = {text: clock.now() + 200 + 13 * number for number, text in enumerate(texts)}
        punctual.due = at
        hours = list(at.items())
        random.Random(3).shuffle(hours)
        wishes = [Wish(item=note(text), at=due, name=text) for text, due in hours]
        await outbox.schedule.put(wishes)
        await arrived(relay, *texts)
    assert min(punctual.lateness) >= 0


@pytest.mark.req("F3")
@pytest.mark.parametrize("change", ["put", "edit", "cancel", "publish"])
async def test_the_alarm_is_armed_again_by_every_change(tmp_path: Path, change: str) -> None:
    async with (
        ScriptedRelay(accept) as relay,
        outbox_at(tmp_path, relay, poll=NEVER) as outbox,
    ):
        [far] = await put(outbox, HOUR, "far")
        await one_pass(outbox._stager)  # it sleeps until then, or until the next poll
        wanted = ["soon"]
        if change == "put":
            await put(outbox, 0.1, "soon")
        elif change == "edit":
            await outbox.schedule.edit(far, at=outbox.now() + 100)
            wanted = ["far"]
        elif change == "cancel":
            await put(outbox, 0.3, "soon")
            [first] = await put(outbox, 0.2, "called off")
            await outbox.schedule.cancel([first])
        else:
            await put(outbox, 0.2, "soon")
            await outbox.publish(note("now"))
            wanted = ["now", "soon"]
        await arrived(relay, *wanted)


@pytest.mark.req("F3", "A8")
async def test_a_thousand_that_are_due_at_once_all_go_once(tmp_path: Path) -> None:
    clock = JumpingClock()
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay, clock=clock) as outbox:
        texts = [f"note {number}" for number in range(1000)]
        await put(outbox, HOUR, *texts)
        await nothing_goes(outbox, relay)
        clock.wall_ahead += HOUR
        await arrived(relay, *texts)
        await outbox.drained(PATIENCE)
        assert (await outbox.status()).scheduled == 0


# -- clocks and sleep --------------------------------------------------------------------------


@pytest.mark.req("F3")
async def test_a_wall_clock_that_is_put_forward_is_believed(tmp_path: Path) -> None:
    clock = JumpingClock()
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay, clock=clock) as outbox:
        await put(outbox, HOUR, "in an hour")
        await put(outbox, 2 * HOUR, "in two hours")
        await nothing_goes(outbox, relay)
        clock.wall_ahead += HOUR
        await arrived(relay, "in an hour")
        await nothing_goes(outbox, relay)


@pytest.mark.req("F3")
async def test_a_wall_clock_that_is_put_back_makes_posts_wait(tmp_path: Path) -> None:
    """The hour is what the wall says, however long it takes by the monotonic clock."""
    clock = JumpingClock()
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay, clock=clock) as outbox:
        await put(outbox, 600, "in ten minutes")
        clock.wall_ahead -= HOUR
        clock.ahead += 900  # a quarter of an hour has passed, whatever the wall says
        await nothing_goes(outbox, relay)
        assert (await outbox.schedule.get("in ten minutes")).job.state is JobState.SCHEDULED
        clock.wall_ahead += HOUR - 1
        await nothing_goes(outbox, relay)
        clock.wall_ahead += 601
        await arrived(relay, "in ten minutes")


@pytest.mark.req("F3")
@pytest.mark.parametrize("counts_sleep", [True, False])
async def test_a_machine_that_slept_past_the_hour_sends_when_it_wakes(
    tmp_path: Path, counts_sleep: bool
) -> None:
    """The monotonic clock of some systems goes on in sleep, that of others stands still."""
    clock = JumpingClock()
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay, clock=clock) as outbox:
        await put(outbox, 0, "before")  # so that there are sockets and leases to lose
        await arrived(relay, "before")
        await put(outbox, HOUR, "slept over")
        await put(outbox, 9 * HOUR, "tomorrow")
        clock.wall_ahead += 8 * HOUR
        if counts_sleep:
            clock.ahead += 8 * HOUR
        await arrived(relay, "before", "slept over")
        await outbox.drained(PATIENCE)
        await nothing_goes(outbox, relay)


@pytest.mark.req("F3", "B8")
async def test_hours_outlive_the_process(tmp_path: Path) -> None:
    clock = JumpingClock()
    async with ScriptedRelay(accept) as relay:
        async with outbox_at(tmp_path, relay, clock=clock) as outbox:
            await put(outbox, HOUR, "one")
            await put(outbox, 2 * HOUR, "two")
        async with outbox_at(tmp_path, relay, clock=clock) as outbox:
            await nothing_goes(outbox, relay)
        clock.wall_ahead += 1.5 * HOUR
        async with outbox_at(tmp_path, relay, clock=clock) as outbox:
            await arrived(relay, "one")
            await nothing_goes(outbox, relay)
            assert (await outbox.schedule.get("two")).job.state is JobState.SCHEDULED
        clock.wall_ahead += HOUR
        async with outbox_at(tmp_path, relay, clock=clock, poll=NEVER):
            await arrived(relay, "one", "two")


# -- the sweep ---------------------------------------------------------------------------------


@pytest.mark.req("F3")
async def test_the_sweep_finds_what_nobody_looks_at(tmp_path: Path) -> None:
    clock = JumpingClock()
    async with (
        ScriptedRelay(accept) as relay,
        outbox_at(tmp_path, relay, clock=clock, lease=0.6) as outbox,
    ):
        await put(outbox, HOUR, "lost")
        await put(outbox, 9 * HOUR, "later")
        await run_sql(tmp_path, "UPDATE jobs SET stage_at = NULL")
        clock.wall_ahead += HOUR
        await nothing_goes(outbox, relay)
        await one_pass(outbox._lifeline)
        await nothing_goes(outbox, relay)
        clock.ahead += outbox.settings.sweep
        await arrived(relay, "lost")
        await nothing_goes(outbox, relay)
        assert (await outbox.schedule.get("later")).job.next_at is not None


@pytest.mark.req("F3", "F1")
async def test_the_sweep_comes_when_it_is_asked_for(tmp_path: Path) -> None:
    clock = JumpingClock()
    async with (
        ScriptedRelay(accept) as relay,
        outbox_at(tmp_path, relay, clock=clock, poll=NEVER) as outbox,
    ):
        await put(outbox, HOUR, "lost")
        await run_sql(tmp_path, "UPDATE jobs SET stage_at = NULL")
        assert await outbox.schedule.sweep() == 1
        assert await outbox.schedule.sweep() == 0
        await nothing_goes(outbox, relay)
        clock.wall_ahead += HOUR
        await outbox.schedule.sweep()  # an alarm that slept through the jump looks at once
        await arrived(relay, "lost")


# -- races -------------------------------------------------------------------------------------

ROUNDS = 80 if STORE == "sqlite" else 20  # a change there is a round trip or five
AT_ONCE = 50


class Races:
    """Posts whose hour comes in the very moment in which people change their minds."""

    def __init__(self, outbox: Outbox, clock: JumpingClock) -> None:
        self._outbox = outbox
        self._clock = clock
        self._chance = random.Random(6)
        self.kept_from_going: set[str] = set()
        self.must_go: set[str] = set()
        self.outcomes: Counter[str] = Counter()

    async def race(self, number: int) -> None:
        texts = [f"{number}.{index}" for index in range(AT_ONCE)]
        posts = await put(self._outbox, 60, *texts)
        self._clock.wall_ahead += 60
        self._outbox._stager.wake()
        deeds = {"off": self._called_off, "later": self._put_off, "anew": self._replaced}
        chosen = [self._chance.choice(list(deeds.items())) for _ in posts]
        tries = [
            self._try(name, deed(post), post)
            for (name, deed), post in zip(chosen, posts, strict=True)
        ]
        await asyncio.gather(*tries)

    async def _try(self, name: str, deed: Coroutine[None, None, None], post: Post) -> None:
        for _ in range(self._chance.randrange(12)):
            await asyncio.sleep(0)
        await asyncio.sleep(self._chance.choice((0, 0.001, 0.002, 0.004)))
        try:
            await deed
        except TooLate:
            self.must_go.add(post.job.event_id)
            self.outcomes[f"{name}: too late"] += 1
        else:
            self.kept_from_going.add(post.job.event_id)
            self.outcomes[name] += 1

    async def _called_off(self, post: Post) -> None:
        await self._outbox.schedule.cancel([post])

    async def _put_off(self, post: Post) -> None:
        await self._outbox.schedule.edit(post, at=self._outbox.now() + 100 * 86_400_000)

    async def _replaced(self, post: Post) -> None:
        new = note(f"{post.name}, second thoughts")
        await self._outbox.schedule.edit(post, item=new)
        self.must_go.add(new["id"])


@pytest.mark.req("F3", "F5")
async def test_what_was_changed_in_time_never_goes_out_as_it_was(tmp_path: Path) -> None:
    """Thousands of edits and cancels against the alarm: each wins for certain, or is refused."""
    clock = JumpingClock()
    async with ScriptedRelay(accept) as relay:
        # A lease that outlasts the leaps: else what is on its way may be sent once more.
        async with outbox_at(tmp_path, relay, clock=clock, lease=2 * HOUR) as outbox:
            races = Races(outbox, clock)
            for number in range(ROUNDS):
                await races.race(number)
            await until(lambda: races.must_go <= {event["id"] for event in relay.events})
            await outbox.drained(PATIENCE)
        ids = [event["id"] for event in relay.events]
    assert not races.kept_from_going & set(ids)
    assert set(ids) == races.must_go
    assert len(ids) == len(set(ids))
    assert sum(races.outcomes.values()) == ROUNDS * AT_ONCE
    assert len(races.outcomes) == 6, races.outcomes  # everybody has won, and has been too late


@pytest.mark.req("F3")
async def test_an_hour_that_is_over_is_refused_and_nothing_kept(tmp_path: Path) -> None:
    async with outbox_at(tmp_path, "ws://127.0.0.1:1", deliver=False) as outbox:
        past = Wish(item=note("late"), at=outbox.now() - 3_600_000)
        [answer] = await outbox.schedule.put([past])
        assert isinstance(answer, CallerError)
        assert await outbox.jobs() == []
