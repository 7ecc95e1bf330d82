"""What a relay's answer, silence or refusal makes of a delivery, as its owner sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from postrich import Handle, JobState, RetryPolicy
from postrich.model.delivery import DeliveryState
from postrich.rules.replies import SILENCE_LIMIT, UNEXPLAINED_LIMIT
from tests.deliver.outboxes import (
    PATIENCE,
    JumpingClock,
    contents,
    hear_delivery,
    lane_of,
    one_pass,
    outbox_at,
    some_notes,
    the_delivery,
)
from tests.relays.events import make_event
from tests.relays.script import Script, closed, ignore_request
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import (
    Behaviour,
    Gate,
    Sequence,
    accept,
    accept_extra,
    accept_null_message,
    accept_number_message,
    accept_saying,
    accept_twice,
    accept_without_message,
    empty_id,
    notice,
    question_mark_id,
    refuse,
    silent,
    store,
    wrong_id,
)

CAPPED = RetryPolicy("capped", delays=(0.01,), max_attempts=3, lifetime=600.0)
SHORT = RetryPolicy("short", delays=(0.01,), lifetime=0.5)


@pytest.mark.parametrize(
    "behaviour",
    [
        accept,
        accept_extra,
        accept_null_message,
        accept_number_message,
        accept_twice,
        accept_without_message,
        accept_saying("broadcast to 3 listeners"),
        refuse("duplicate: have it"),
        refuse("duplicate:have it"),
        refuse("rejected: event already exists"),
    ],
)
@pytest.mark.req("C1", "C2")
async def test_every_form_of_yes_is_a_delivery(tmp_path: Path, behaviour: Behaviour) -> None:
    async with ScriptedRelay(behaviour) as relay, outbox_at(tmp_path, relay) as outbox:
        job = await (await outbox.publish(make_event())).published(PATIENCE)
    assert job.is_finished
    assert [d.state for d in job.deliveries] == [DeliveryState.DELIVERED]
    assert job.publish_attempts == 1
    assert len(relay.events) == 1


@pytest.mark.parametrize(
    ("text", "delivery", "job"),
    [
        ("blocked: you are banned", DeliveryState.REFUSED, JobState.FAILED),
        ("invalid: bad event", DeliveryState.REFUSED, JobState.FAILED),
        ("restricted: not an active paid member", DeliveryState.PARKED, JobState.PARKED),
        ("pow: difficulty 10<20", DeliveryState.PARKED, JobState.PARKED),
        ("replaced: have a newer one", DeliveryState.SUPERSEDED, JobState.SUPERSEDED),
        ("deleted: gone", DeliveryState.REFUSED, JobState.FAILED),
        ("blocked: auth-required: say who you are", DeliveryState.PARKED, JobState.PARKED),
    ],
)
@pytest.mark.req("C2", "B10")
async def test_a_final_no_settles_that_delivery_only(
    tmp_path: Path, text: str, delivery: DeliveryState, job: JobState
) -> None:
    no = Sequence([refuse(text), accept])
    async with (
        ScriptedRelay(no) as strict,
        ScriptedRelay(accept) as other,
        outbox_at(tmp_path, strict, other) as outbox,
    ):
        event = make_event()
        refused = await (await outbox.publish(event, relays=[strict.url])).settled(PATIENCE)
        assert refused.state is job
        assert [d.state for d in refused.deliveries] == [delivery]
        assert text in refused.deliveries[0].detail
        assert refused.publish_attempts == 1
        if job is not JobState.SUPERSEDED:
            assert refused.error is not None
            assert text in refused.error.message
        await (await outbox.publish(make_event(), relays=[strict.url])).published(PATIENCE)
        assert len(strict.events) == 2, "a final no is not tried again"


async def test_an_ok_that_comes_late_counts_and_the_attempt_counts_once(tmp_path: Path) -> None:
    gate = Gate(accept)
    async with ScriptedRelay(gate) as relay, outbox_at(tmp_path, relay, timeout=0.1) as outbox:
        with outbox.watch() as notices:
            handle = await outbox.publish(make_event(), policy="slow")
            timeout = await hear_delivery(notices, DeliveryState.WAITING, "timeout")
            assert timeout.attempts == 1
            waiting = await handle.status()
            assert waiting.state is JobState.PENDING_PUBLISH
            assert waiting.error is not None
            assert waiting.error.code == "TIMEOUT"
            gate.open()
            job = await handle.published(PATIENCE)
    assert job.publish_attempts == 1
    assert job.deliveries[0].code == "late"
    assert len(relay.events) == 1


@pytest.mark.req("C9")
async def test_silence_is_settled_by_reading_back(tmp_path: Path) -> None:
    async with ScriptedRelay(store) as relay, outbox_at(tmp_path, relay, timeout=0.1) as outbox:
        job = await (await outbox.publish(make_event(), policy="slow")).published(PATIENCE)
    assert job.deliveries[0].code == "read-back"
    assert job.publish_attempts == 1
    assert len(relay.events) == 1


@pytest.mark.req("C9")
async def test_an_ok_during_the_read_back_counts(tmp_path: Path) -> None:
    gate = Gate(accept)
    mute = Script(gate, ignore_request)
    async with ScriptedRelay(mute) as relay, outbox_at(tmp_path, relay, timeout=0.1) as outbox:
        handle = await outbox.publish(make_event(), policy="slow")
        await relay.wait_until(lambda: any(f[0] == "REQ" for f in relay.received), PATIENCE)
        gate.open()
        job = await handle.published(PATIENCE)
    assert job.publish_attempts == 1


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (Script(Sequence([silent, accept])), "the relay does not have it"),
        (Script(Sequence([silent, accept]), closed("error: no reads")), "error: no reads"),
        (Script(Sequence([silent, accept]), ignore_request), "no answer in 0.1 s"),
        (Script(Sequence([wrong_id, accept])), "no answer in 0.1 s"),
        (Script(Sequence([notice("hm, strange"), accept])), "hm, strange"),
    ],
)
@pytest.mark.req("C9")
async def test_silence_is_settled_by_sending_again(
    tmp_path: Path, script: Script, words: str
) -> None:
    async with ScriptedRelay(script) as relay, outbox_at(tmp_path, relay, timeout=0.1) as outbox:
        with outbox.watch() as notices:
            handle = await outbox.publish(make_event())
            silence = await hear_delivery(notices, DeliveryState.WAITING, "timeout")
            assert words in silence.detail
            job = await handle.published(PATIENCE)
    assert job.publish_attempts == 2
    assert len(relay.events) == 2
    assert relay.events[0] == relay.events[1], "the same signed bytes are sent again"


@pytest.mark.req("C9", "B9")
async def test_a_relay_that_is_always_silent_leaves_it_unknown(tmp_path: Path) -> None:
    async with ScriptedRelay(silent) as relay, outbox_at(tmp_path, relay, timeout=0.05) as outbox:
        handle = await outbox.publish(make_event())
        job = await handle.settled(PATIENCE)
        assert job.deliveries[0].state is DeliveryState.UNKNOWN
        assert job.publish_attempts == len(relay.events) == SILENCE_LIMIT
        assert job.state is JobState.FAILED
        assert job.error is not None
        assert job.error.code == "TIMEOUT"
        story = await outbox.story(handle.id)
    assert [c.attempt for c in story if c.what == "timeout"] == list(range(1, SILENCE_LIMIT + 1))


@pytest.mark.req("C2", "B9")
async def test_refusals_without_a_reason_are_not_tried_for_ever(tmp_path: Path) -> None:
    async with ScriptedRelay(refuse("")) as relay, outbox_at(tmp_path, relay) as outbox:
        job = await (await outbox.publish(make_event())).settled(PATIENCE)
    assert job.deliveries[0].state is DeliveryState.FAILED
    assert job.deliveries[0].detail == "refused without a reason"
    assert job.publish_attempts == len(relay.events) == UNEXPLAINED_LIMIT


@pytest.mark.req("B1", "B4", "B5")
async def test_the_policy_caps_the_attempts(tmp_path: Path) -> None:
    async with ScriptedRelay(refuse("error: busy")) as relay, outbox_at(tmp_path, relay) as outbox:
        handle = await outbox.publish(make_event(), policy=CAPPED)
        job = await handle.settled(PATIENCE)
        assert job.state is JobState.FAILED
        assert job.publish_attempts == 3
        assert job.deliveries[0].next_at is None
        await (await outbox.publish(make_event(), policy=CAPPED)).settled(PATIENCE)
        assert len(relay.events) == 6, "no fourth attempt of either"
        assert (await outbox.jobs())[1].state is JobState.FAILED, "it stays for review"


@pytest.mark.parametrize(
    ("behaviour", "state", "last"),
    [
        (refuse("error: busy"), DeliveryState.FAILED, "error: busy"),
        (silent, DeliveryState.UNKNOWN, "no answer"),
    ],
)
@pytest.mark.req("B9")
async def test_a_job_ends_with_its_lifetime(
    tmp_path: Path, behaviour: Behaviour, state: DeliveryState, last: str
) -> None:
    patient = RetryPolicy("patient", delays=(60.0,), lifetime=0.6)
    async with (
        ScriptedRelay(behaviour) as relay,
        outbox_at(tmp_path, relay, timeout=0.1, lease=0.6) as outbox,
    ):
        job = await (await outbox.publish(make_event(), policy=patient)).settled(PATIENCE)
    assert job.state is JobState.FAILED
    assert job.deliveries[0].state is state
    assert len(relay.events) == 1


@pytest.mark.req("B9")
async def test_what_is_too_old_when_its_turn_comes_is_not_sent(tmp_path: Path) -> None:
    gate = Gate(accept)
    async with (
        ScriptedRelay(gate) as relay,
        outbox_at(tmp_path, relay, window=1, lease=3.0) as outbox,
    ):
        first = await outbox.publish(make_event())
        await relay.wait_events(1, PATIENCE)
        second = await outbox.publish(make_event(), policy=SHORT)
        ended = await second.settled(PATIENCE)
        gate.open()
        await first.published(PATIENCE)
        third = await outbox.publish(make_event())
        await third.published(PATIENCE)
    assert ended.state is JobState.FAILED
    assert ended.error is not None
    assert ended.error.code == "EXPIRED"
    assert second.event_id not in {event["id"] for event in relay.events}


@pytest.mark.req("B9")
async def test_what_a_lane_holds_past_its_lifetime_is_not_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the lifeline, whose affair that is, has not ended it yet."""
    gate, clock = Gate(accept), JumpingClock()
    brief = RetryPolicy("brief", delays=(0.01,), lifetime=60.0)
    async with (
        ScriptedRelay(gate) as relay,
        outbox_at(tmp_path, relay, window=1, clock=clock) as outbox,
    ):

        async def do_nothing() -> None:
            pass

        end_the_old = outbox._lifeline.end_the_old
        monkeypatch.setattr(outbox._lifeline, "end_the_old", do_nothing)
        first = await outbox.publish(make_event(content="first"))
        await relay.wait_events(1, PATIENCE)
        second = await outbox.publish(make_event(content="second"), policy=brief)
        clock.wall_ahead += 120
        gate.open()
        await first.published(PATIENCE)
        await (await outbox.publish(make_event(content="third"))).published(PATIENCE)
        await one_pass(lane_of(outbox, relay))
        await end_the_old()
        ended = await second.settled(PATIENCE)
    assert ended.state is JobState.FAILED
    assert ended.error is not None
    assert (ended.error.code, ended.publish_attempts) == ("EXPIRED", 0)
    assert contents(relay.events) == ["first", "third"]


@pytest.mark.req("B9", "C9")
async def test_what_was_tried_and_never_answered_ends_unknown_not_failed(tmp_path: Path) -> None:
    """Whoever finds that its time is over, the lane that holds it or the lifeline."""
    clock = JumpingClock()
    brief = RetryPolicy("brief", delays=(0.01,), lifetime=60.0)
    async with (
        ScriptedRelay(Script(silent, ignore_request)) as relay,
        outbox_at(tmp_path, relay, timeout=0.1, clock=clock) as outbox,
    ):
        with outbox.watch() as notices:
            handle = await outbox.publish(make_event(), policy=brief)
            await hear_delivery(notices, DeliveryState.WAITING, "timeout")
        clock.wall_ahead += 120
        ended = await handle.settled(PATIENCE)
    assert ended.deliveries[0].state is DeliveryState.UNKNOWN
    assert ended.deliveries[0].code == "expired"


@pytest.mark.req("C2")
async def test_a_notice_out_of_the_blue_means_nothing(tmp_path: Path) -> None:
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay) as outbox:
        await (await outbox.publish(make_event())).published(PATIENCE)
        await relay.broadcast("NOTICE", "rate limited: message too large")
        job = await (await outbox.publish(make_event())).published(PATIENCE)
        assert lane_of(outbox, relay).pace.resume_at == 0
    assert job.publish_attempts == 1


@pytest.mark.parametrize("behaviour", [empty_id, question_mark_id])
@pytest.mark.req("C2")
async def test_a_refusal_without_an_id_means_the_only_one_in_flight(
    tmp_path: Path, behaviour: Behaviour
) -> None:
    async with ScriptedRelay(behaviour) as relay, outbox_at(tmp_path, relay) as outbox:
        job = await (await outbox.publish(make_event())).settled(PATIENCE)
    assert job.deliveries[0].state is DeliveryState.REFUSED
    assert job.deliveries[0].code == "invalid"


@pytest.mark.req("C2")
async def test_a_refusal_without_an_id_blames_nobody_among_many(tmp_path: Path) -> None:
    """All wait for their own answer; each is then tried alone, or settled by its own OK."""
    script = Sequence([silent, empty_id, accept])
    async with ScriptedRelay(script) as relay, outbox_at(tmp_path, relay, timeout=0.2) as outbox:
        for handle in await outbox.publish_many(some_notes(2)):
            assert isinstance(handle, Handle)
            job = await handle.published(PATIENCE)
            assert job.publish_attempts == 2


@pytest.mark.req("C2")
async def test_a_notice_about_the_only_event_in_flight_refuses_it(tmp_path: Path) -> None:
    script = notice("ERROR: bad msg: message too large")
    async with ScriptedRelay(script) as relay, outbox_at(tmp_path, relay) as outbox:
        job = await (await outbox.publish(make_event())).settled(PATIENCE)
    assert job.deliveries[0].state is DeliveryState.REFUSED
    assert "too large" in job.deliveries[0].detail


@pytest.mark.req("C2")
async def test_a_date_in_the_future_waits_for_it(tmp_path: Path) -> None:
    import time

    script = refuse("invalid: event creation date is too far off in the future")
    async with ScriptedRelay(script) as relay, outbox_at(tmp_path, relay) as outbox:
        with outbox.watch() as notices:
            event = make_event(created_at=int(time.time()) + 300)
            handle = await outbox.publish(event)
            told = await hear_delivery(notices, DeliveryState.WAITING, "future")
            assert told.next_at is not None
            assert told.next_at >= event["created_at"] * 1000
            assert (await the_delivery(handle)).next_at == told.next_at


@pytest.mark.req("B7")
async def test_what_a_relay_says_is_kept_without_secrets(tmp_path: Path) -> None:
    nsec = "nsec1" + "q" * 58
    script = refuse(f"blocked: ask admin@relay.example with {nsec} at wss://u:p@relay.example/")
    async with ScriptedRelay(script) as relay, outbox_at(tmp_path, relay) as outbox:
        handle = await outbox.publish(make_event())
        job = await handle.settled(PATIENCE)
        story = await outbox.story(handle.id)
    for text in (job.deliveries[0].detail, *(chapter.detail for chapter in story)):
        assert nsec not in text
        assert "admin@" not in text
        assert "u:p@" not in text
    assert "blocked: ask [e-mail] with [nsec]" in job.deliveries[0].detail
