"""Hooks: what happens to jobs is queued for them as it happens, once, and kept until it is told."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from postrich.errors import LeaseLost, UnknownHook
from postrich.model.delivery import DeliveryState, Fence
from postrich.model.hook import (
    PING,
    HookEvent,
    HookMessage,
    HookState,
    MessageSettlement,
    MessageState,
)
from postrich.rules.hooks import GONE, HookPolicy
from postrich.store.port import Store
from postrich.store.sqlite import SqliteStore
from tests.store.conftest import Place
from tests.store.making import (
    ALICE,
    BLUE,
    BOB,
    CAPTURE,
    DAY,
    HOUR,
    KEY,
    NOW,
    RED,
    again,
    cannot_sign,
    draft,
    ended,
    fail,
    hand_in,
    keep_hook,
    lane,
    late_ok,
    named,
    note,
    park,
    publish,
    route_all,
)

pytestmark = pytest.mark.req("F6")

POLICY = HookPolicy()
E = HookEvent


async def told(store: Store, hook: str = "hook_a") -> list[tuple[int | None, str]]:
    """What is queued for a hook, the oldest first."""
    return [(m.job, m.kind) for m in reversed(await store.messages(hook, 1000))]


async def lease(store: Store, owner: str = "worker") -> Fence:
    fence = await store.take_lease(f"hooks:{KEY}", owner, NOW, NOW + HOUR)
    assert fence is not None
    return fence


async def due(store: Store, now: int = NOW, each: int = 10) -> list[HookMessage]:
    return [item.message for item in await store.messages_due(KEY, now, each)]


def taken(message: HookMessage) -> MessageSettlement:
    state = MessageState.SENT
    return MessageSettlement(message.number, message.hook, state, 1, NOW, 204, "")


def untaken(
    message: HookMessage, *, next_at: int | None = None, status: int = 500, gone: bool = False
) -> MessageSettlement:
    state = MessageState.FAILED if next_at is None else MessageState.WAITING
    text = f"answered {status}"
    count = message.attempts + 1
    return MessageSettlement(
        message.number, message.hook, state, count, next_at or NOW, status, text, gone
    )


# -- what is queued -------------------------------------------------------------------------


async def test_a_job_is_told_of_from_its_schedule_to_its_last_relay(store: Store) -> None:
    await keep_hook(store)
    number = await hand_in(store, "hello", RED, BLUE, due_at=NOW + HOUR, key="my key")
    assert await told(store) == [(number, "scheduled")]
    await route_all(store, NOW + HOUR)
    await (await lane(store, RED)).deliver(number, now=NOW + HOUR + 1)
    assert await told(store) == [(number, "scheduled"), (number, "published")]
    await (await lane(store, BLUE)).deliver(number, now=NOW + HOUR + 2)
    assert await told(store) == [
        (number, "scheduled"),
        (number, "published"),
        (number, "delivered"),
    ]
    last, middle, first = await store.messages("hook_a", 10)
    assert [m.created_at for m in (first, middle, last)] == [NOW, NOW + HOUR + 1, NOW + HOUR + 2]
    assert first.event_id == note("hello").id
    assert (first.pubkey, first.key) == (ALICE, "my key")
    assert (first.state, first.attempts, first.next_at) == (MessageState.WAITING, 0, NOW)
    assert len({m.id for m in (first, middle, last)}) == 3
    assert first.id.startswith("msg_")


async def test_one_answer_may_be_two_things(store: Store) -> None:
    await keep_hook(store)
    number = await hand_in(store, "hello", RED)
    assert await told(store) == []  # it has no time
    await publish(store, number)
    assert await told(store) == [(number, "published"), (number, "delivered")]


async def test_a_time_that_is_past_is_no_schedule(store: Store) -> None:
    await keep_hook(store)
    await hand_in(store, "hello", due_at=NOW - 1)
    assert await told(store) == []


async def test_a_draft_with_a_time_is_scheduled(store: Store) -> None:
    await keep_hook(store)
    number = await hand_in(store, draft("hello"), due_at=NOW + HOUR)
    assert await told(store) == [(number, "scheduled")]


async def test_a_no_is_failed_and_too_many_attempts_are_exhausted(store: Store) -> None:
    await keep_hook(store)
    refused = await hand_in(store, "refused", RED, BLUE)
    await fail(store, refused)
    tired = await hand_in(store, "tired", RED, BLUE)
    await (await lane(store, BLUE)).report(ended(tired, DeliveryState.REFUSED))
    await (await lane(store, RED)).report(ended(tired, DeliveryState.FAILED, 4))
    silent = await hand_in(store, "silent")
    await (await lane(store, RED)).report(ended(silent, DeliveryState.UNKNOWN, 4))
    assert await told(store) == [(refused, "failed"), (tired, "exhausted"), (silent, "exhausted")]


async def test_a_lifetime_that_is_over_is_exhausted(store: Store) -> None:
    await keep_hook(store)
    tried = await hand_in(store, "tried", expires_at=NOW + HOUR)
    await (await lane(store, RED)).report(again(tried))
    unsigned = await hand_in(store, draft("unsigned"), expires_at=NOW + HOUR)
    unsent = await hand_in(store, "unsent", due_at=NOW + DAY, expires_at=NOW + HOUR)
    refused = await hand_in(store, draft("the signer never answered"))
    await cannot_sign(store, refused)
    await store.expire(NOW + HOUR, 10)
    found = [(job, kind) for job, kind in await told(store) if kind != "scheduled"]
    assert sorted(found) == sorted((job, "exhausted") for job in (tried, unsigned, unsent, refused))


async def test_who_is_cancelled_is_told_once(store: Store) -> None:
    await keep_hook(store)
    number = await hand_in(store, "hello", due_at=NOW + HOUR)
    await store.cancel(named(number), NOW)
    assert await told(store) == [(number, "scheduled"), (number, "cancelled")]
    tried = await hand_in(store, "tried")
    hand = await lane(store, RED)
    await hand.report(again(tried))
    await store.cancel(named(tried), NOW)
    await hand.report(late_ok(tried))  # it was on its way
    assert (await told(store))[2:] == [
        (tried, "cancelled"),
        (tried, "published"),
        (tried, "delivered"),
    ]


async def test_what_is_parked_or_superseded_is_none_of_the_six(store: Store) -> None:
    await keep_hook(store)
    number = await hand_in(store, "hello")
    await park(store, number)
    await hand_in(store, note("old", kind=10_000))
    await hand_in(store, note("new", kind=10_000, at=NOW // 1000 + 1))
    assert await told(store) == []


async def test_only_what_was_asked_for_and_only_of_whom(store: Store) -> None:
    await keep_hook(store, "hook_a", E.PUBLISHED, pubkey=ALICE)
    await keep_hook(store, "hook_b", E.DELIVERED, E.FAILED, pubkey=BOB)
    await keep_hook(store, "hook_all", E.DELIVERED)
    by_alice = await hand_in(store, note("a"))
    by_bob = await hand_in(store, note("b", author=BOB))
    await publish(store, by_alice)
    await publish(store, by_bob)
    assert await told(store, "hook_a") == [(by_alice, "published")]
    assert await told(store, "hook_b") == [(by_bob, "delivered")]
    assert await told(store, "hook_all") == [(by_alice, "delivered"), (by_bob, "delivered")]


async def test_history_tells_nothing(store: Store) -> None:
    await keep_hook(store)
    number = await hand_in(store, "hello", RED, BLUE, due_at=NOW + 1)
    await route_all(store, NOW + 1)
    await (await lane(store, RED)).deliver(number)
    await (await lane(store, BLUE)).report(ended(number, DeliveryState.REFUSED))
    before = await told(store)
    assert before == [(number, "scheduled"), (number, "published"), (number, "delivered")]
    assert await store.archive(NOW, 10) == 1
    assert await told(store) == before
    await store.retry(named(number), NOW)  # it comes back
    assert await told(store) == before
    await (await lane(store, BLUE)).deliver(number)
    assert await told(store) == [*before, (number, "delivered")]  # the last relay came round


async def test_a_failure_that_is_retried_may_be_told_twice(store: Store) -> None:
    await keep_hook(store)
    number = await hand_in(store, "hello", policy=CAPTURE)
    await fail(store, number)
    await store.retry(named(number), NOW)
    await fail(store, number)
    assert await told(store) == [(number, "failed"), (number, "failed")]


async def test_what_is_over_is_told_once(store: Store) -> None:
    await keep_hook(store)
    number = await hand_in(store, "hello", RED, BLUE)
    await publish(store, number)
    before = await told(store)
    await store.retry(named(number), NOW)  # nothing is left to be tried
    await hand_in(store, "hello", RED)
    await store.expire(NOW + 9 * DAY, 10)
    assert await told(store) == before == [(number, "published"), (number, "delivered")]


async def test_what_was_taken_back_is_not_told(store: Store) -> None:
    """A settle without its lease writes nothing, and queues nothing."""
    await keep_hook(store)
    number = await hand_in(store, "hello")
    hand = await lane(store, RED)
    await store.dismiss("worker")
    await lane(store, RED, owner="another")
    with pytest.raises(LeaseLost):
        await hand.deliver(number)
    assert await told(store) == []


async def test_many_jobs_of_one_commit_are_told_in_order(store: Store) -> None:
    await keep_hook(store)
    numbers = [await hand_in(store, f"note {n}") for n in range(20)]
    await (await lane(store, RED)).deliver(*numbers)
    found = await told(store)
    assert sorted(found) == sorted((n, k) for n in numbers for k in ("published", "delivered"))
    for number in numbers:
        assert [kind for job, kind in found if job == number] == ["published", "delivered"]


async def test_without_hooks_nothing_is_queued_and_after_the_last_one_neither(
    store: Store,
) -> None:
    await publish(store, await hand_in(store, "before"))
    await keep_hook(store)
    await publish(store, await hand_in(store, "during"))
    assert len(await told(store)) == 2
    await store.remove_hook("hook_a")
    await publish(store, await hand_in(store, "after"))
    await keep_hook(store)
    assert await told(store) == []
    await publish(store, await hand_in(store, "again"))
    assert len(await told(store)) == 2


async def test_a_file_without_hooks_has_no_triggers(tmp_path: Path) -> None:
    """SQLite runs them for every job: who has no hooks pays nothing."""
    path = str(tmp_path / "outbox.db")
    store = await SqliteStore.open(path)
    link = apsw.Connection(path)
    question = "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger'"
    counts = [link.execute(question).get]
    for name in ("hook_a", "hook_b"):
        await keep_hook(store, name)
        counts.append(link.execute(question).get)
    for name in ("hook_a", "hook_b"):
        await store.remove_hook(name)
        counts.append(link.execute(question).get)
    assert counts == [0, 2, 2, 2, 0]
    link.close()
    await store.close()


async def test_it_is_all_there_after_a_restart(place: Place) -> None:
    store = await place.open()
    await keep_hook(store)
    number = await hand_in(store, "hello", due_at=NOW + HOUR)
    store = await place.reopen()
    assert await told(store) == [(number, "scheduled")]
    await store.cancel(named(number), NOW)
    assert await told(store) == [(number, "scheduled"), (number, "cancelled")]


# -- hooks ----------------------------------------------------------------------------------


async def test_hooks_are_kept_as_they_were_given(store: Store) -> None:
    first = await keep_hook(store, "hook_a", E.PUBLISHED, pubkey=ALICE)
    second = await keep_hook(store, "hook_b")
    assert await store.hooks() == [first, second]
    assert await store.hooks(["hook_b", "hook_c"]) == [second]
    assert await store.hooks(pubkey=ALICE) == [first]
    assert await store.hooks(pubkey="") == [second]
    assert await store.hooks([]) == []


async def test_a_hook_that_is_not_there(store: Store) -> None:
    for attempt in (
        store.remove_hook("hook_x"),
        store.disable_hook("hook_x", "", NOW),
        store.enable_hook("hook_x"),
        store.rotate_hook("hook_x", KEY, NOW),
        store.say_to_hook("hook_x", "msg_1", PING, NOW),
    ):
        with pytest.raises(UnknownHook):
            await attempt
    assert await store.messages("hook_x", 10) == []
    assert await store.replay_messages("hook_x", NOW) == 0


async def test_a_disabled_hook_is_told_nothing_and_what_waited_can_be_replayed(
    store: Store,
) -> None:
    await keep_hook(store)
    await publish(store, await hand_in(store, "one"))
    hook = await store.disable_hook("hook_a", "a person said so", NOW)
    assert (hook.state, hook.reason) == (HookState.DISABLED, "a person said so")
    assert await due(store) == []
    await publish(store, await hand_in(store, "two"))
    found = await store.messages("hook_a", 10)
    assert [m.state for m in found] == [MessageState.FAILED] * 2
    assert {m.error for m in found} == {"the hook was disabled"}
    hook = await store.enable_hook("hook_a")
    assert (hook.state, hook.reason) == (HookState.ACTIVE, "")
    assert await store.replay_messages("hook_a", NOW) == 2
    assert len(await due(store)) == 1  # the second of the same job waits for the first


async def test_a_secret_has_generations(store: Store) -> None:
    await keep_hook(store)
    hook = await store.rotate_hook("hook_a", KEY, NOW + 5)
    assert (hook.generation, hook.rotated_at, hook.key) == (2, NOW + 5, KEY)
    hook = await store.rotate_hook(
        "hook_a", "another", NOW + 6
    )  # the one before has no meaning now
    assert (hook.generation, hook.rotated_at, hook.key) == (3, None, "another")


# -- sending --------------------------------------------------------------------------------


async def test_what_is_due_and_when(store: Store) -> None:
    outlook = await store.hook_outlook(KEY)
    assert (outlook.hooks, outlook.next_at, outlook.strangers) == (0, None, 0)
    await keep_hook(store)
    await keep_hook(store, "hook_of_another_home", key="another")
    outlook = await store.hook_outlook(KEY)
    assert (outlook.hooks, outlook.next_at, outlook.strangers) == (1, None, 1)
    await hand_in(store, "hello", due_at=NOW + HOUR)
    assert (await store.hook_outlook(KEY)).next_at == NOW
    assert await store.messages_due(KEY, NOW - 1, 10) == []
    [item] = await store.messages_due(KEY, NOW, 10)
    assert (item.hook.id, item.message.kind) == ("hook_a", "scheduled")
    assert await store.messages_due(KEY, NOW, 10, [item.message.number]) == []


async def test_each_hook_has_its_share_and_each_job_its_order(store: Store) -> None:
    await keep_hook(store, "hook_a")
    await keep_hook(store, "hook_b")
    numbers = [await hand_in(store, f"note {n}") for n in range(5)]
    await (await lane(store, RED)).deliver(*numbers)
    found = await due(store, each=3)
    assert {m.kind for m in found} == {"published"}
    assert sorted(m.hook for m in found) == ["hook_a"] * 3 + ["hook_b"] * 3
    fence = await lease(store)
    await store.settle_messages(fence, [taken(found[0])], POLICY, NOW)
    following = [m for m in await due(store) if m.hook == found[0].hook and m.job == found[0].job]
    assert [m.kind for m in following] == ["delivered"]


async def test_an_attempt_is_written_down(store: Store) -> None:
    await keep_hook(store)
    await hand_in(store, "hello", due_at=NOW + HOUR)
    fence = await lease(store)
    [message] = await due(store)
    no = untaken(message, next_at=NOW + 5000)
    assert await store.settle_messages(fence, [no], POLICY, NOW + 1) == []
    [message] = await store.messages("hook_a", 1)
    assert (message.state, message.attempts, message.next_at) == ("waiting", 1, NOW + 5000)
    assert (message.status, message.error, message.settled_at) == (500, "answered 500", None)
    [hook] = await store.hooks()
    assert (hook.failing_since, hook.failures) == (NOW + 1, 1)
    assert (hook.answered_at, hook.answer_status, hook.answer_text) == (NOW + 1, 500, no.text)
    assert await due(store, NOW + 4999) == []
    [message] = await due(store, NOW + 5000)
    await store.settle_messages(fence, [taken(message)], POLICY, NOW + 5000)
    [message] = await store.messages("hook_a", 1)
    assert (message.state, message.settled_at, message.next_at) == ("sent", NOW + 5000, None)
    [hook] = await store.hooks()
    assert (hook.failing_since, hook.failures, hook.answer_status) == (None, 0, 204)


async def test_who_lost_the_lease_writes_nothing(store: Store) -> None:
    await keep_hook(store)
    await hand_in(store, "hello", due_at=NOW + HOUR)
    fence = await lease(store)
    [message] = await due(store)
    await store.dismiss("worker")
    await lease(store, "another")
    with pytest.raises(LeaseLost):
        await store.settle_messages(fence, [taken(message)], POLICY, NOW)
    assert await due(store) == [message]


async def test_gone_means_gone(store: Store) -> None:
    await keep_hook(store)
    await publish(store, await hand_in(store, "hello"))
    [message] = await due(store)
    gone = untaken(message, status=410, gone=True)
    [hook] = await store.settle_messages(await lease(store), [gone], POLICY, NOW)
    assert (hook.state, hook.reason) == (HookState.DISABLED, GONE)
    assert {m.state for m in await store.messages("hook_a", 10)} == {MessageState.FAILED}


async def test_five_days_of_no_are_enough(store: Store) -> None:
    await keep_hook(store)
    fence = await lease(store)
    await hand_in(store, "hello", due_at=NOW + HOUR)
    [message] = await due(store)
    for attempt in range(20):
        no = untaken(message, next_at=NOW)
        assert await store.settle_messages(fence, [no], POLICY, NOW + attempt) == []
    [hook] = await store.settle_messages(fence, [no], POLICY, NOW + 5 * DAY)
    assert hook.state is HookState.DISABLED
    assert "5 days" in hook.reason
    assert await store.settle_messages(fence, [no], POLICY, NOW + 6 * DAY) == []  # told once


async def test_a_hook_that_is_removed_meanwhile(store: Store) -> None:
    await keep_hook(store)
    await hand_in(store, "hello", due_at=NOW + HOUR)
    [message] = await due(store)
    await store.remove_hook("hook_a")
    assert await store.settle_messages(await lease(store), [taken(message)], POLICY, NOW) == []
    assert await store.messages("hook_a", 10) == []


async def test_replay(store: Store) -> None:
    await keep_hook(store, "hook_a", E.SCHEDULED)
    fence = await lease(store)
    for hour in range(3):
        at = NOW + hour * HOUR
        await hand_in(store, f"note {hour}", due_at=NOW + DAY, now=at)
    messages = await due(store, NOW + DAY)
    await store.settle_messages(fence, [untaken(m) for m in messages[:2]], POLICY, NOW)
    await store.settle_messages(fence, [taken(messages[2])], POLICY, NOW)
    assert await due(store, NOW + DAY) == []
    assert await store.replay_messages("hook_a", NOW, message=messages[2].id) == 1
    [again_] = await due(store)
    assert (again_.id, again_.attempts) == (messages[2].id, 0)
    assert await store.replay_messages("hook_a", NOW, since=NOW + 1) == 1
    assert await store.replay_messages("hook_a", NOW) == 1  # what waits already is left alone
    assert await store.replay_messages("hook_a", NOW, message="msg_unknown") == 0
    assert {m.id for m in await due(store)} == {m.id for m in messages}


async def test_a_message_of_no_job(store: Store) -> None:
    await keep_hook(store, "hook_a", pubkey=BOB)
    said = await store.say_to_hook("hook_a", "msg_1", PING, NOW)
    assert (said.id, said.kind, said.job, said.event_id, said.pubkey) == (
        "msg_1",
        PING,
        None,
        "",
        BOB,
    )
    assert await due(store) == [said]


async def test_messages_are_paged(store: Store) -> None:
    await keep_hook(store)
    said = [await store.say_to_hook("hook_a", f"msg_{n}", PING, NOW) for n in range(5)]
    newest = await store.messages("hook_a", 2)
    assert newest == [said[4], said[3]]
    assert await store.messages("hook_a", 10, before=newest[-1].number) == said[2::-1]
    assert await store.messages("hook_a", 10, message="msg_1") == [said[1]]


async def test_old_messages_are_forgotten_and_deleted_jobs_are_still_told_of(store: Store) -> None:
    await keep_hook(store)
    number = await hand_in(store, "hello")
    await fail(store, number)
    await store.delete(named(number))
    assert await told(store) == [(number, "failed")]
    await store.prune(NOW - 1, 100)
    assert await told(store) == [(number, "failed")]
    await store.prune(NOW, 100)
    assert await told(store) == []
