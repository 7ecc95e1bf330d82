"""The engine routes by relay lists: who gets what, when, and what is said of the rest (D2–D13)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from postrich import JobState, RetryPolicy, SecretSigner
from postrich.accept import Options
from postrich.errors import BadSetting, JobFailed, LeaseLost
from postrich.model.delivery import DeliveryState
from postrich.model.event import Event
from postrich.model.job import JobFilter
from postrich.observe.notices import JobChanged
from postrich.rules.routing import Plan
from tests.deliver.neighbours import (
    ALICE,
    BOB,
    ME,
    asked,
    at,
    ids,
    indexer_of,
    named_list,
    note_to,
    relay_list,
    relays_of,
    routed,
    url_of,
    wrap_for,
)
from tests.deliver.outboxes import PATIENCE, JumpingClock, hear, until
from tests.relays.events import make_event, mine, public_key
from tests.relays.handshakes import informing, never_answer
from tests.relays.script import Script
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import Gate, accept, refuse

S = DeliveryState


@pytest.fixture(autouse=True)
def _looks_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postrich.route.relay_lists.UNKNOWN_FOR_MS", 50)


# -- notes ---------------------------------------------------------------------------------------


@pytest.mark.req("D2", "D10")
async def test_a_note_goes_to_write_relays_and_to_who_is_spoken_to(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as own,
        ScriptedRelay(accept) as write,
        ScriptedRelay(accept) as inbox,
        ScriptedRelay(accept) as elsewhere,
        indexer_of(
            relay_list(ME, write=[write], read=[elsewhere]),
            relay_list(ALICE, write=[elsewhere], read=[inbox]),
        ) as indexer,
        routed(tmp_path, own, indexer=indexer) as outbox,
    ):
        event = note_to(ALICE)
        job = await (await outbox.publish(event)).settled(PATIENCE)
        plain = await (await outbox.publish(make_event(ME))).settled(PATIENCE)
    assert {delivery.relay: delivery.reason for delivery in job.deliveries} == {
        url_of(own): "your relay",
        url_of(write): "write relay of its author",
        url_of(inbox): f"inbox of {public_key(ALICE)[:8]}…",
    }
    assert {delivery.state for delivery in job.deliveries} == {S.DELIVERED}
    assert relays_of(plain) == {url_of(own), url_of(write)}
    assert elsewhere.connections == 0
    assert event["id"] in ids(inbox.events)


@pytest.mark.req("D2")
async def test_drafts_are_routed_once_they_are_signed(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as write,
        indexer_of(relay_list(ME, write=[write])) as indexer,
        routed(tmp_path, indexer=indexer) as outbox,
    ):
        job = await (await outbox.post("hello")).published(PATIENCE)
    assert relays_of(job) == {url_of(write)}


@pytest.mark.req("D2", "D10")
async def test_nowhere_to_go_waits_for_a_person_and_says_so(tmp_path: Path) -> None:
    async with indexer_of() as indexer, routed(tmp_path, indexer=indexer) as outbox:
        handle = await outbox.publish(make_event(ME))
        with pytest.raises(JobFailed, match="no relay is known for it"):
            await handle.published(PATIENCE)
        job = await handle.status()
        assert job.state is JobState.PARKED
        assert job.error is not None
        assert job.error.code == "NO_ROUTE"


# -- direct messages (D3) -------------------------------------------------------------------------


@pytest.mark.req("D3")
async def test_a_gift_wrap_goes_to_message_relays_and_nowhere_else(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as own,
        ScriptedRelay(accept) as inbox,
        ScriptedRelay(accept) as messages,
        indexer_of(
            relay_list(ALICE, write=[inbox], read=[inbox]), named_list(ALICE, 10050, messages)
        ) as indexer,
        routed(tmp_path, own, indexer=indexer) as outbox,
    ):
        event = wrap_for(ALICE)
        job = await (await outbox.publish(event)).settled(PATIENCE)
    assert job.state is JobState.PUBLISHED
    assert relays_of(job) == {url_of(messages)}
    assert ids(messages.events) == [event["id"]], "and no list of anybody goes along"
    assert not own.events
    assert not inbox.events
    assert not indexer.events


@pytest.mark.req("D3")
@pytest.mark.parametrize("published", [False, True], ids=["no list", "a list of no use"])
async def test_who_has_no_message_relays_is_sent_nothing(tmp_path: Path, published: bool) -> None:
    lists = [make_event(ALICE, 10050, tags=[["relay", "not a url"]])] if published else []
    async with (
        ScriptedRelay(accept) as own,
        indexer_of(relay_list(ALICE, write=[own], read=[own]), *lists) as indexer,
        routed(tmp_path, own, indexer=indexer) as outbox,
    ):
        handle = await outbox.publish(wrap_for(ALICE))
        with pytest.raises(JobFailed, match="has published no message relays"):
            await handle.published(PATIENCE)
        job = await handle.status()
        assert (job.state, job.deliveries) == (JobState.PARKED, ())
    assert not own.events


@pytest.mark.req("D3", "B6")
async def test_who_publishes_message_relays_later_gets_it_on_a_persons_retry(
    tmp_path: Path,
) -> None:
    async with (
        ScriptedRelay(accept) as messages,
        indexer_of() as indexer,
        routed(tmp_path, indexer=indexer) as outbox,
    ):
        handle = await outbox.publish(wrap_for(ALICE))
        assert (await handle.settled(PATIENCE)).state is JobState.PARKED
        found = named_list(ALICE, 10050, messages)
        indexer.stored[found["id"]] = found
        await handle.retry()
        await handle.published(PATIENCE)
    assert len(messages.events) == 1


@pytest.mark.req("D3", "D11")
async def test_a_message_whose_lists_cannot_be_read_waits_for_them(tmp_path: Path) -> None:
    """Could not look is not none published."""
    async with ScriptedRelay(accept) as own, ScriptedRelay(accept) as messages:
        indexer = indexer_of(named_list(ALICE, 10050, messages))
        async with routed(tmp_path, own, indexer=indexer) as outbox:
            with outbox.watch() as notices:
                handle = await outbox.publish(wrap_for(ALICE))
                await hear(notices, JobChanged)
            job = await handle.status()
            assert (job.state, job.deliveries) == (JobState.PENDING_PUBLISH, ())
            assert job.error is not None
            assert job.error.code == "LISTS_UNAVAILABLE"
            async with indexer:
                assert (await handle.published(PATIENCE)).error is None
    assert not own.events
    assert len(messages.events) == 1


# -- indexers that are down (D11) -----------------------------------------------------------------


@pytest.mark.req("D2", "D11")
@pytest.mark.parametrize("hangs", [False, True], ids=["refuses", "hangs"])
async def test_without_indexers_own_relays_are_served_and_the_rest_follows(
    tmp_path: Path, hangs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postrich.route.asking.SEARCH_WITHIN", 2 * PATIENCE)
    monkeypatch.setattr("postrich.wire.pool.CONNECT_WITHIN", 2 * PATIENCE)
    monkeypatch.setattr("postrich.route.asking.AFTER_FIRST", 2 * PATIENCE)
    async with (
        ScriptedRelay(accept) as own,
        ScriptedRelay(accept) as write,
        ScriptedRelay(accept) as inbox,
    ):
        lists = relay_list(ME, write=[write]), relay_list(ALICE, read=[inbox])
        indexer = indexer_of(*lists)
        silent = ScriptedRelay(Script(handshake=never_answer), port=indexer.port)
        if hangs:
            await silent.start()
        async with routed(tmp_path, own, indexer=indexer) as outbox:
            handle = await outbox.publish(note_to(ALICE))
            job = await handle.published(PATIENCE)
            assert relays_of(job) == {url_of(own)}
            assert not job.is_finished, "there is more to come"
            await silent.stop()
            async with indexer:
                job = await handle.settled(PATIENCE)
    assert relays_of(job) == {url_of(own), url_of(write), url_of(inbox)}
    assert {delivery.state for delivery in job.deliveries} == {S.DELIVERED}


@pytest.mark.req("A1", "B8", "D11")
async def test_what_was_accepted_and_not_routed_is_routed_after_a_restart(tmp_path: Path) -> None:
    async with ScriptedRelay(accept) as own, ScriptedRelay(accept) as inbox:
        indexer = indexer_of(relay_list(ALICE, read=[inbox]), named_list(BOB, 10050, inbox))
        async with routed(tmp_path, own, indexer=indexer, deliver=False) as outbox:
            notes = [await outbox.publish(note_to(ALICE, content=str(n))) for n in range(5)]
            wrap = await outbox.publish(wrap_for(BOB))
        async with routed(tmp_path, own, indexer=indexer) as outbox:  # nobody to ask
            for note in notes:
                await outbox.wait(note.id, PATIENCE)
        async with indexer, routed(tmp_path, own, indexer=indexer) as outbox:
            for handle in (*notes, wrap):
                job = await outbox.wait_settled(handle.id, PATIENCE)
                assert job.state is JobState.PUBLISHED
                assert at(job, inbox).state is S.DELIVERED
    assert len(set(ids(inbox.events))) == 6
    assert len(own.events) == 5


# -- lists that change (D11) ----------------------------------------------------------------------


@pytest.mark.req("D1", "D11")
async def test_a_changed_list_adds_relays_and_takes_none_away(tmp_path: Path) -> None:
    clock = JumpingClock()
    held = Gate(accept)
    async with (
        ScriptedRelay(held) as old,
        ScriptedRelay(accept) as new,
        ScriptedRelay(accept) as own,
        indexer_of(relay_list(ALICE, read=[old], created_at=1_700_000_000)) as indexer,
        routed(tmp_path, own, indexer=indexer, clock=clock) as outbox,
    ):
        handle = await outbox.publish(note_to(ALICE), policy="slow")
        await handle.published(PATIENCE)
        newer = relay_list(ALICE, read=[new])
        indexer.stored[newer["id"]] = newer
        clock.wall_ahead += 7 * 3600
        await outbox.lists_of(public_key(ALICE), [10002])
        await until(lambda: bool(new.events))
        held.open()
        job = await handle.settled(PATIENCE)
    assert {delivery.state for delivery in job.deliveries} == {S.DELIVERED}
    assert relays_of(job) == {url_of(own), url_of(old), url_of(new)}


@pytest.mark.req("D1", "D9", "D11")
async def test_a_new_list_of_ones_own_counts_at_once_and_goes_to_old_and_new_relays(
    tmp_path: Path,
) -> None:
    async with (
        ScriptedRelay(accept) as old,
        ScriptedRelay(accept) as new,
        indexer_of(relay_list(ME, write=[old], created_at=1_700_000_000)) as indexer,
        routed(tmp_path, indexer=indexer) as outbox,
    ):
        await (await outbox.publish(make_event(ME))).settled(PATIENCE)
        job = await (await outbox.publish(relay_list(ME, write=[new]))).settled(PATIENCE)
        assert relays_of(job) == {url_of(old), url_of(new), url_of(indexer)}
        after = await (await outbox.post("after")).settled(PATIENCE)
        assert relays_of(after) == {url_of(new)}
        draft = {"kind": 10002, "tags": [["r", url_of(old)]]}
        await (await outbox.publish(draft)).settled(PATIENCE)
        again = await (await outbox.post("again")).settled(PATIENCE)
        assert relays_of(again) == {url_of(old)}


@pytest.mark.req("D11", "F3")
async def test_a_scheduled_note_uses_the_lists_of_its_hour(tmp_path: Path) -> None:
    clock = JumpingClock()
    async with (
        ScriptedRelay(accept) as old,
        ScriptedRelay(accept) as new,
        indexer_of(relay_list(ME, write=[old], created_at=1_700_000_000)) as indexer,
        routed(tmp_path, indexer=indexer, clock=clock) as outbox,
    ):
        await (await outbox.publish(make_event(ME))).settled(PATIENCE)
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        handle = await outbox.publish(make_event(ME, content="later"), at=tomorrow)
        assert relays_of(await handle.status()) == {url_of(old)}, "as it looks today"
        newer = relay_list(ME, write=[new])
        indexer.stored[newer["id"]] = newer
        clock.wall_ahead += 24 * 3600
        job = await handle.settled(PATIENCE)
    assert relays_of(job) == {url_of(new)}
    assert handle.event_id not in ids(old.events)


# -- blocked relays (D7) --------------------------------------------------------------------------


@pytest.mark.req("D7")
async def test_a_blocked_relay_is_never_dialled(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as own,
        ScriptedRelay(accept) as blocked,
        ScriptedRelay(accept) as inbox,
        indexer_of(
            named_list(ME, 10006, blocked),
            relay_list(ALICE, read=[blocked, inbox]),
            named_list(BOB, 10050, blocked),
        ) as indexer,
        routed(tmp_path, own, indexer=indexer) as outbox,
    ):
        job = await (await outbox.publish(note_to(ALICE))).settled(PATIENCE)
        wrap = await (await outbox.publish(wrap_for(BOB))).settled(PATIENCE)
        plan = await outbox.plan(note_to(ALICE))
        hinted = make_event(ME, tags=[["p", public_key(b"\x07" * 32), blocked.url]])
        await (await outbox.publish(hinted)).settled(PATIENCE)
    assert relays_of(job) == {url_of(own), url_of(inbox)}
    assert wrap.state is JobState.PARKED
    assert [(out.url, "blocked" in out.reason) for out in plan.left_out] == [
        (url_of(blocked), True)
    ]
    assert blocked.connections == 0


@pytest.mark.req("D7")
async def test_a_blocked_relay_of_ones_own_list_is_for_oneself_only(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as odd,
        indexer_of(
            named_list(ME, 10006, odd),
            relay_list(ME, write=[odd]),
            relay_list(ALICE, read=[odd]),
            named_list(BOB, 10050, odd),
        ) as indexer,
        routed(tmp_path, indexer=indexer) as outbox,
    ):
        job = await (await outbox.publish(make_event(ME))).settled(PATIENCE)
        assert relays_of(job) == {url_of(odd)}
        wrap = await (await outbox.publish(wrap_for(BOB))).settled(PATIENCE)
        assert wrap.state is JobState.PARKED


# -- deletions (D9) -------------------------------------------------------------------------------


@pytest.mark.req("D9")
async def test_a_deletion_goes_wherever_the_original_went(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as own,
        ScriptedRelay(accept) as inbox,
        ScriptedRelay(accept) as named,
        indexer_of(relay_list(ALICE, read=[inbox])) as indexer,
        routed(tmp_path, own, indexer=indexer) as outbox,
    ):
        note = note_to(ALICE)
        other = make_event(ME, content="elsewhere")
        await (await outbox.publish(note)).settled(PATIENCE)
        await (await outbox.publish(other, relays=[named.url])).settled(PATIENCE)
        for event, places in ((note, {inbox}), (other, {named})):
            deletion = make_event(ME, 5, tags=[["e", event["id"]], ["k", "1"]])
            job = await (await outbox.publish(deletion)).settled(PATIENCE)
            assert relays_of(job) == {url_of(own), *map(url_of, places)}
            assert job.state is JobState.PUBLISHED


# -- protected events (D4) ------------------------------------------------------------------------


@pytest.mark.req("D12")
async def test_published_means_what_the_goals_say(tmp_path: Path) -> None:
    to_me, to_her = Gate(accept), Gate(accept)
    async with (
        ScriptedRelay(to_me) as own,
        ScriptedRelay(to_her) as inbox,
        indexer_of(relay_list(ALICE, read=[inbox])) as indexer,
        routed(tmp_path, own, indexer=indexer) as outbox,
    ):
        mine_first = await outbox.publish(note_to(ALICE, content="1"), goal_mine=1)
        hers = await outbox.publish(note_to(ALICE, content="2"), goal_inbox=1)
        to_her.open()
        await hers.published(PATIENCE)
        await inbox.wait_events(2)
        await until(lambda: len(inbox.stored) == 2)
        assert (await mine_first.status()).state is JobState.PENDING_PUBLISH
        to_me.open()
        await mine_first.published(PATIENCE)


@pytest.mark.req("D12", "D11")
async def test_an_inbox_that_is_not_known_yet_is_not_served_yet(tmp_path: Path) -> None:
    async with ScriptedRelay(accept) as own, ScriptedRelay(accept) as inbox:
        indexer = indexer_of(relay_list(ALICE, read=[inbox]))
        async with routed(tmp_path, own, indexer=indexer) as outbox:
            handle = await outbox.publish(note_to(ALICE), goal_inbox=1)
            await until(lambda: bool(own.stored))
            with pytest.raises(TimeoutError):
                await handle.published(0.3)
            async with indexer:
                await handle.published(PATIENCE)
    assert len(inbox.events) >= 1


@pytest.mark.req("D12")
async def test_a_goal_that_cannot_be_met_is_a_failure_whoever_else_took_it(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as own,
        ScriptedRelay(refuse("blocked: no")) as inbox,
        indexer_of(relay_list(ALICE, read=[inbox])) as indexer,
        routed(tmp_path, own, indexer=indexer) as outbox,
    ):
        job = await (await outbox.publish(note_to(ALICE), goal_inbox=1)).settled(PATIENCE)
        assert job.state is JobState.FAILED
        assert at(job, own).state is S.DELIVERED
        plain = await (await outbox.publish(note_to(ALICE, content="2"))).settled(PATIENCE)
        assert plain.state is JobState.PUBLISHED


# -- autopilot (D13) ------------------------------------------------------------------------------


@pytest.mark.req("D13")
async def test_autopilot_off_means_ones_own_relays_and_no_questions(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as own,
        ScriptedRelay(accept) as inbox,
        indexer_of(relay_list(ALICE, read=[inbox])) as indexer,
        routed(tmp_path, own, indexer=indexer, autopilot=False) as outbox,
    ):
        job = await (await outbox.publish(note_to(ALICE))).settled(PATIENCE)
        assert relays_of(job) == {url_of(own)}
        assert indexer.connections == 0
        job = await (await outbox.publish(note_to(ALICE, content="2"), autopilot=True)).settled(
            PATIENCE
        )
        assert relays_of(job) == {url_of(own), url_of(inbox)}


@pytest.mark.req("D13")
async def test_a_job_may_leave_the_autopilot_or_name_its_relays(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as own,
        ScriptedRelay(accept) as named,
        indexer_of(relay_list(ALICE, read=[own, named])) as indexer,
        routed(tmp_path, own, indexer=indexer) as outbox,
    ):
        manual = await outbox.publish(note_to(ALICE), autopilot=False)
        assert relays_of(await manual.settled(PATIENCE)) == {url_of(own)}
        chosen = await outbox.publish(note_to(ALICE, content="2"), relays=[named.url])
        assert relays_of(await chosen.settled(PATIENCE)) == {url_of(named)}
        assert indexer.connections == 0


@pytest.mark.req("A9", "D13")
async def test_relays_that_are_named_the_second_time_count_though_lists_decide(
    tmp_path: Path,
) -> None:
    async with ScriptedRelay(accept) as named, ScriptedRelay(accept) as messages:
        indexer = indexer_of(named_list(ALICE, 10050, messages))
        async with routed(tmp_path, indexer=indexer) as outbox:
            event = wrap_for(ALICE)
            with outbox.watch() as notices:
                handle = await outbox.publish(event)
                await hear(notices, JobChanged)
            again = await outbox.publish(event, relays=[named.url])
            assert again.id == handle.id
            async with indexer:
                await handle.retry()
                job = await handle.settled(PATIENCE)
    assert relays_of(job) == {url_of(named), url_of(messages)}


# -- the author's list goes along (D5) ------------------------------------------------------------


@pytest.mark.req("D5")
async def test_the_authors_list_goes_along_once_for_each_relay_and_list(tmp_path: Path) -> None:
    clock = JumpingClock()
    mine_now = relay_list(ME, created_at=1_700_000_000)
    async with (
        ScriptedRelay(accept) as own,
        indexer_of(mine_now) as indexer,
        routed(tmp_path, own, indexer=indexer, clock=clock) as outbox,
    ):

        async def post(content: str) -> None:
            await (await outbox.publish(make_event(ME, content=content))).settled(PATIENCE)

        def lists() -> list[str]:
            return [event["id"] for event in own.events if event["kind"] == 10002]

        await post("1")
        await until(lambda: lists() == [mine_now["id"]])
        await post("2")
        await post("3")
        assert lists() == [mine_now["id"]]
        clock.ahead += 24 * 3600
        await post("4")
        await until(lambda: lists() == [mine_now["id"]] * 2)
        newer = relay_list(ME, write=[own])
        job = await (await outbox.publish(newer)).settled(PATIENCE)
        assert job.state is JobState.PUBLISHED
        await post("5")
        await until(lambda: lists().count(newer["id"]) == 2)


@pytest.mark.req("D5")
async def test_the_authors_list_does_not_go_along_with_retries(tmp_path: Path) -> None:
    turns = iter([refuse("error: busy")])

    async def first_no(client, event):  # type: ignore[no-untyped-def]
        await next(turns, accept)(client, event)

    async with (
        ScriptedRelay(first_no) as own,
        indexer_of(relay_list(ME, write=[own])) as indexer,
        routed(tmp_path, own, indexer=indexer) as outbox,
    ):
        await (await outbox.publish(make_event(ME))).settled(PATIENCE)
        assert [event["kind"] for event in own.events] == [1, 1]
        await (await outbox.publish(make_event(ME, content="new"))).settled(PATIENCE)
        await until(lambda: [event["kind"] for event in own.events] == [1, 1, 1, 10002])


@pytest.mark.req("D5")
async def test_a_relay_that_hates_lists_fails_nothing(tmp_path: Path) -> None:
    async def no_lists(client, event):  # type: ignore[no-untyped-def]
        if event["kind"] == 10002:
            await client.send("NOTICE", "ERROR: bad msg: message too large")
            await client.close(1009, "too large")
        else:
            await accept(client, event)

    async with (
        ScriptedRelay(no_lists) as own,
        indexer_of(relay_list(ME, write=[own])) as indexer,
        routed(tmp_path, own, indexer=indexer) as outbox,
    ):
        for number in range(5):
            note = make_event(ME, content=str(number))
            job = await (await outbox.publish(note)).settled(PATIENCE)
            assert (job.state, job.publish_attempts) == (JobState.PUBLISHED, 1)
        await (await outbox.publish(make_event(ME, content="after"))).settled(PATIENCE)


# -- what is found out before sending -------------------------------------------------------------


@pytest.mark.req("D10")
async def test_a_plan_says_where_and_keeps_nothing(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as own,
        ScriptedRelay(accept) as inbox,
        indexer_of(relay_list(ALICE, read=[inbox])) as indexer,
        routed(tmp_path, own, indexer=indexer, pow_relay="ws://127.0.0.1:9/") as outbox,
    ):
        plan = await outbox.plan(note_to(ALICE))
        assert {target.url for target in plan.targets} == {url_of(own), url_of(inbox)}
        named = Options(relays=(inbox.url,))
        mined = mine(ME, difficulty=4)
        fixed = await outbox.plan(mined, named)
        assert [target.url for target in fixed.targets] == [url_of(inbox), "ws://127.0.0.1:9/"]
        assert await outbox.jobs() == []
        assert own.connections == 1, "asked for lists"
        assert not own.events


@pytest.mark.req("B6", "D11")
async def test_retrying_a_published_note_sends_it_to_who_has_a_list_by_now(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as own,
        ScriptedRelay(accept) as inbox,
        indexer_of() as indexer,
        routed(tmp_path, own, indexer=indexer) as outbox,
    ):
        handle = await outbox.publish(note_to(ALICE))
        job = await handle.settled(PATIENCE)
        assert relays_of(job) == {url_of(own)}
        found = relay_list(ALICE, read=[inbox])
        indexer.stored[found["id"]] = found
        await handle.retry()
        await until(lambda: bool(inbox.stored))
        job = await handle.settled(PATIENCE)
        assert at(job, inbox).state is S.DELIVERED
        assert at(job, own).attempts == 1


@pytest.mark.req("D11", "B9")
async def test_what_is_never_resolved_ends_with_the_jobs_lifetime(tmp_path: Path) -> None:
    brief = RetryPolicy("brief", delays=(0.05,), lifetime=1.5)
    async with ScriptedRelay(accept) as own:
        indexer = indexer_of()
        async with routed(tmp_path, own, indexer=indexer, lease=0.6) as outbox:
            note = await outbox.publish(note_to(ALICE), policy=brief)
            wrap = await outbox.publish(wrap_for(ALICE), policy=brief)
            job = await note.settled(PATIENCE)
            assert (job.state, relays_of(job)) == (JobState.PUBLISHED, {url_of(own)})
            job = await wrap.settled(PATIENCE)
            assert job.state in (JobState.PARKED, JobState.FAILED)


@pytest.mark.req("D11")
async def test_a_note_that_is_cancelled_while_lists_are_looked_for_goes_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postrich.route.asking.SEARCH_WITHIN", 0.3)
    silent = ScriptedRelay(Script(handshake=never_answer))
    async with (
        silent,
        ScriptedRelay(accept) as messages,
        routed(tmp_path, indexer=silent) as outbox,
    ):
        handle = await outbox.publish(wrap_for(ALICE))
        await silent.wait_connections(1)
        await handle.cancel()
        await until(lambda: not outbox._stager._planning)
        found = named_list(ALICE, 10050, messages)
        await outbox.publish(found, relays=[messages.url])
        await until(lambda: bool(messages.stored))
        job = await handle.status()
        assert (job.state, job.deliveries) == (JobState.CANCELLED, ())
    assert handle.event_id not in ids(messages.events)


@pytest.mark.req("A1", "D11")
async def test_lookups_hold_up_nobody_who_needs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postrich.deliver.stager.PLANS_AT_ONCE", 2)
    monkeypatch.setattr("postrich.deliver.stager.BATCH", 4)
    silent = ScriptedRelay(Script(handshake=never_answer))
    async with silent, ScriptedRelay(accept) as own, routed(tmp_path, indexer=silent) as outbox:
        for _ in range(10):
            await outbox.publish(wrap_for(ALICE))
        await silent.wait_connections(1)
        soon = datetime.now(UTC) + timedelta(milliseconds=20)
        due = await outbox.publish(make_event(ME), at=soon, relays=[own.url])
        draft = await outbox.publish({"content": "x"}, relays=[own.url])
        await due.published(PATIENCE)
        await draft.published(PATIENCE)
        pending = await outbox.jobs(JobFilter(kind=1059))
        assert {job.state for job in pending} == {JobState.PENDING_PUBLISH}


@pytest.mark.req("D1")
async def test_many_notes_at_once_share_their_questions(tmp_path: Path) -> None:
    people = [bytes([number]) * 32 for number in range(1, 41)]
    async with (
        ScriptedRelay(accept) as own,
        ScriptedRelay(accept) as hub,
        indexer_of(*(relay_list(person, read=[hub]) for person in people)) as indexer,
        routed(tmp_path, own, indexer=indexer) as outbox,
    ):
        notes = [note_to(person, content=str(n)) for n, person in enumerate(people)]
        handles = await outbox.publish_batch(notes)
        for handle in handles:
            job = await handle.settled(PATIENCE)
            assert relays_of(job) == {url_of(own), url_of(hub)}
    assert len(hub.events) == 40
    assert len(asked(indexer)) <= 2


@pytest.mark.req("D2")
async def test_another_account_at_hand_changes_nothing_for_the_author(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as write,
        ScriptedRelay(accept) as bobs,
        indexer_of(relay_list(ME, write=[write]), relay_list(BOB, write=[bobs])) as indexer,
        routed(tmp_path, indexer=indexer) as outbox,
    ):
        outbox.add_signer(SecretSigner(BOB))
        mine_job = await (await outbox.post("me")).settled(PATIENCE)
        his = await outbox.publish({"pubkey": public_key(BOB), "content": "bob"})
        assert relays_of(mine_job) == {url_of(write)}
        assert relays_of(await his.settled(PATIENCE)) == {url_of(bobs)}


@pytest.mark.req("B8")
@pytest.mark.parametrize("problem", [LeaseLost("another worker holds stage now"), KeyError("odd")])
async def test_a_fault_in_planning_loses_no_job(
    tmp_path: Path, problem: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    problems = [problem]
    async with (
        ScriptedRelay(accept) as own,
        indexer_of() as indexer,
        routed(tmp_path, own, indexer=indexer) as outbox,
    ):
        plan = outbox.router.plan

        async def failing(event: Event) -> Plan:
            if problems:
                raise problems.pop()
            return await plan(event)

        monkeypatch.setattr(outbox.router, "plan", failing)
        await (await outbox.publish(make_event(ME))).published(PATIENCE)
    assert not problems


@pytest.mark.req("D11")
async def test_an_event_of_any_size_is_planned(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as own,
        indexer_of() as indexer,
        routed(tmp_path, own, indexer=indexer, max_event_bytes=3_000_000) as outbox,
    ):
        large = make_event(ME, content="x" * 1_500_000)
        job = await (await outbox.publish(large)).published(PATIENCE)
    assert job.size > 1_500_000


@pytest.mark.req("C11", "A14")
async def test_mining_asks_no_relay_inside_for_its_wishes(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as own,
        ScriptedRelay(
            Script(handshake=informing({"limitation": {"min_pow_difficulty": 40}}))
        ) as bad,
        indexer_of(relay_list(ALICE, read=[bad])) as indexer,
        routed(tmp_path, own, indexer=indexer, trust_lists=False) as outbox,
    ):
        tags = [["p", public_key(ALICE)]]
        draft = await outbox.mine({"kind": 1, "content": "x", "tags": tags}, 2)
    assert draft.tags[-1][2] == "2"
    assert bad.connections == 0


# -- what lists hide, repositories, wraps without autopilot --------------------------------------


@pytest.mark.req("D7", "D1")
@pytest.mark.parametrize("when", ["before", "after"])
async def test_relays_that_are_blocked_in_secret_are_not_gone_to(tmp_path: Path, when: str) -> None:
    """The hidden part of a list counts as soon as its key is at hand (NIP-51)."""
    signer = SecretSigner(ME)
    async with (
        ScriptedRelay(accept) as own,
        ScriptedRelay(accept) as inbox,
    ):
        secret = signer.encrypt_to(signer.pubkey, f'[["relay","{inbox.url}"]]')
        blocked = make_event(ME, 10006, secret)
        async with indexer_of(blocked, relay_list(ALICE, read=[inbox])) as indexer:
            chosen = signer if when == "before" else None
            async with routed(tmp_path, own, indexer=indexer, signer=chosen) as outbox:
                if when == "after":
                    await outbox.plan(note_to(ALICE))
                    outbox.add_signer(signer)
                job = await (await outbox.publish(note_to(ALICE))).settled(PATIENCE)
    assert relays_of(job) == {url_of(own)}
    assert not inbox.events


@pytest.mark.req("D9")
async def test_drafts_go_to_relays_that_only_their_author_can_read_of(tmp_path: Path) -> None:
    signer = SecretSigner(ME)
    async with ScriptedRelay(accept) as own, ScriptedRelay(accept) as private:
        secret = signer.encrypt_to(signer.pubkey, f'[["relay","{private.url}"]]')
        async with (
            indexer_of(make_event(ME, 10013, secret)) as indexer,
            routed(tmp_path, own, indexer=indexer) as outbox,
        ):
            draft = make_event(ME, 31234, "sealed", [["d", "x"], ["k", "1"]])
            job = await (await outbox.publish(draft)).settled(PATIENCE)
    assert relays_of(job) == {url_of(private)}
    assert not own.events


@pytest.mark.req("D9")
async def test_a_patch_goes_to_the_relays_of_its_repository(tmp_path: Path) -> None:
    async with ScriptedRelay(accept) as own, ScriptedRelay(accept) as git:
        repository = make_event(ALICE, 30617, tags=[["d", "nostr"], ["relays", url_of(git)]])
        async with (
            indexer_of(repository) as indexer,
            routed(tmp_path, own, indexer=indexer) as outbox,
        ):
            patch = make_event(ME, 1617, "diff", [["a", f"30617:{public_key(ALICE)}:nostr"]])
            job = await (await outbox.publish(patch)).settled(PATIENCE)
    assert at(job, git).reason == "relay of its repository"
    assert ids(git.events) == [patch["id"]]
    assert relays_of(job) == {url_of(own), url_of(git)}


@pytest.mark.req("D3", "D13")
async def test_without_autopilot_a_wrap_needs_its_relays_named(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as own,
        ScriptedRelay(accept) as messages,
        routed(tmp_path, own, indexer=None, autopilot=False) as outbox,
    ):
        with pytest.raises(BadSetting, match="name its relays, or turn autopilot on"):
            await outbox.publish(wrap_for(ALICE))
        job = await (await outbox.publish(wrap_for(ALICE), relays=[messages.url])).settled(PATIENCE)
    assert relays_of(job) == {url_of(messages)}
    assert not own.events
