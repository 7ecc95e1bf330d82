"""What callers hand in: kept whole or refused whole, with one sentence that says why."""

from __future__ import annotations

import asyncio
import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from postrich import (
    Draft,
    Handle,
    JobState,
    Options,
    Outbox,
    Priority,
    RetryPolicy,
    SecretSigner,
    make_draft,
    parse_event,
)
from postrich.errors import BadSetting, CallerError, InvalidEvent, RefusedKind
from tests.deliver.outboxes import PATIENCE, contents, outbox_at, some_notes
from tests.relays.events import Event, make_event, public_key
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import accept, refuse

KEY = os.urandom(32)
ALICE = public_key(KEY)
NOWHERE = "ws://127.0.0.1:9"


async def nothing_is_kept(outbox: Outbox) -> bool:
    return await outbox.jobs() == [] and (await outbox.status()).open_deliveries == 0


def changed(**fields: Any) -> Event:
    """A good event with other fields: its id and signature are not made anew."""
    return {**make_event(KEY, content="good"), **fields}


def resigned(**fields: Any) -> Event:
    """An event whose id and signature are right, whatever its fields say."""
    import hashlib

    from coincurve import PrivateKey

    event = changed(**fields)
    names = ("pubkey", "created_at", "kind", "tags", "content")
    body = json.dumps([0, *(event[n] for n in names)], separators=(",", ":"), ensure_ascii=False)
    event["id"] = hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()
    event["sig"] = PrivateKey(KEY).sign_schnorr(bytes.fromhex(event["id"])).hex()
    return event


SELF_REFERENCE: list[Any] = []
SELF_REFERENCE.append(SELF_REFERENCE)

BAD_ITEMS: dict[str, tuple[Any, str]] = {
    "no JSON": ("hello", "not valid JSON"),
    "half JSON": (json.dumps(make_event())[:-5], "not valid JSON"),
    "no text": ("", "not valid JSON"),
    "JSON that is no object": ("[1,2]", "not a signed event"),
    "null": ("null", "not a signed event"),
    "bytes that are no UTF-8": (b'{"kind":1,"content":"\xff"}', "not valid JSON"),
    "nesting without end": ("[" * 19_000, "not valid JSON|not a signed event"),
    "two objects": (json.dumps(make_event()) * 2, "not valid JSON"),
    "a list": ([1, 2], "list is neither an event nor a draft"),
    "a number": (42, "int is neither an event nor a draft"),
    "nothing": (None, "NoneType is neither an event nor a draft"),
    "an empty draft": ({}, "at least a kind, content or tags"),
    "a forged signature": (changed(sig="0" * 128), "not the author's"),
    "another's signature": (changed(sig=make_event()["sig"]), "not the author's"),
    "a changed content": (changed(content="bad"), "id does not match"),
    "an unknown field": ({**make_event(), "relay": "x"}, "unknown field"),
    "an unknown field of a draft": ({"kind": 1, "colour": "red"}, "unknown field 'colour'"),
    "names that are no text": ({"kind": 1, 5: "five", None: 0}, "unknown field"),
    "a field twice": (json.dumps(make_event())[:-1] + ',"kind":1}', "twice"),
    "a missing field": ({k: v for k, v in make_event().items() if k != "tags"}, "tags"),
    "a kind too large": (resigned(kind=70_000), "outside 0..65535"),
    "a kind below zero": (resigned(kind=-1), "outside 0..65535"),
    "a kind that is text": (resigned(kind="1"), "kind"),
    "a kind that is a truth": ({"kind": True, "pubkey": ALICE}, "kind must be a whole number"),
    "a kind that is a fraction": ({"kind": 1.5, "pubkey": ALICE}, "kind must be a whole number"),
    "a draft's kind too large": ({"kind": 70_000, "pubkey": ALICE}, "outside 0..65535"),
    "the same in JSON": (json.dumps({"kind": 70_000, "pubkey": ALICE}), "outside 0..65535"),
    "a time in text": (resigned(created_at="now"), "created_at"),
    "a time before the epoch": (resigned(created_at=-5), "no usable time"),
    "a time past all clocks": (resigned(created_at=2**60), "no usable time"),
    "a number past all numbers": (changed(created_at=2**80), "created_at|out of range"),
    "tags in text": (resigned(tags="t"), "tags"),
    "a tag in text": (resigned(tags=["t"]), "tags"),
    "an empty tag": (resigned(tags=[[]]), "at least one value"),
    "a tag of numbers": (resigned(tags=[["t", 1]]), "tags"),
    "a null in a tag": ({"tags": [["t", None]], "pubkey": ALICE}, "tags must be"),
    "tags of a draft in text": ({"tags": "t", "pubkey": ALICE}, "tags must be"),
    "content that is none": (changed(content=None), "content"),
    "content that is a number": ({"content": 5, "pubkey": ALICE}, "content must be text"),
    "a lone surrogate": (changed(content="\ud800"), "surrogate|not valid JSON|id does not"),
    "a lone surrogate in JSON": (
        json.dumps(changed(content="\ud800")),
        "not valid JSON|surrogate|id does not",
    ),
    "a lone surrogate in a draft": ({"content": "\ud800", "pubkey": ALICE}, "surrogate"),
    "a lone surrogate in a text": ('{"content":"\ud800"}', "not valid JSON"),
    "capitals in a key": (changed(pubkey=ALICE.upper()), "pubkey must be 64 lowercase hex"),
    "a short key": (changed(pubkey="ab"), "pubkey must be 64"),
    "a draft's key that is none": ({"content": "x", "pubkey": "npub1"}, "pubkey must be"),
    "a draft's key that is a number": ({"content": "x", "pubkey": 5}, "pubkey must be"),
    "an id that is none": (changed(id="zz"), "id must be 64"),
    "a draft's id that is another's": (
        {"content": "x", "pubkey": ALICE, "id": "0" * 64},
        "id does not match",
    ),
    "a signature cut short": (changed(sig="00"), "sig must be 128"),
    "a signature that is a number": (changed(sig=5), "sig"),
    "a value that JSON has not": (changed(content=object()), "not a signed event"),
    "a list in itself": (changed(tags=SELF_REFERENCE), "not a signed event"),
    "too large": (make_event(KEY, content="x" * 20_001), "the limit is 20,000"),
    "too large in JSON": (json.dumps(make_event(content="x" * 20_001)), "the limit is 20,000"),
    "a draft too large": ({"content": "x" * 19_900, "pubkey": ALICE}, "the limit is 20,000"),
    "a draft too large in JSON": (
        json.dumps({"content": "x" * 20_100, "pubkey": ALICE}),
        "the limit is 20,000",
    ),
    "a made draft too large": (make_draft(ALICE, 5, content="x" * 20_000), "limit is 20,000"),
    "a draft of nobody": ({"content": "x"}, "names no pubkey"),
    "a draft made by hand": (Draft("short", 0, 1, (), ""), "pubkey must be"),
    "one that has expired": (
        make_event(KEY, tags=[("expiration", str(int(time.time()) - 1))]),
        "expiration is over",
    ),
}


@pytest.mark.parametrize(("item", "why"), BAD_ITEMS.values(), ids=BAD_ITEMS.keys())
@pytest.mark.req("A1", "F2")
async def test_bad_input_is_refused_with_a_reason_and_not_kept(
    tmp_path: Path, item: Any, why: str
) -> None:
    async with outbox_at(tmp_path, NOWHERE, deliver=False, max_event_bytes=20_000) as outbox:
        with pytest.raises(InvalidEvent, match=why):
            await outbox.publish(item)
        (refusal,) = await outbox.publish_many([item])
        assert isinstance(refusal, InvalidEvent)
        assert await nothing_is_kept(outbox)


async def test_every_form_of_a_good_event_is_the_same_job(tmp_path: Path) -> None:
    event = make_event(KEY, content="é \u2028 \U0001f9a4", tags=[("t", "ö")])
    plain = json.dumps(event, ensure_ascii=False)
    forms: list[Any] = [
        event,
        plain,
        plain.encode(),
        json.dumps(event),
        json.dumps(event, indent=2),
        parse_event(plain),
    ]
    async with outbox_at(tmp_path, NOWHERE, deliver=False) as outbox:
        handles = [await outbox.publish(form) for form in forms]
        assert {handle.id for handle in handles} == {handles[0].id}
        assert [handle.is_new for handle in handles] == [True, False, False, False, False, False]
        assert len(await outbox.jobs()) == 1


async def test_every_form_of_a_draft_is_the_same_job(tmp_path: Path) -> None:
    draft = make_draft(ALICE, 1_700_000_000, 1, [["t", "x"]], "draft")
    fields = {
        "pubkey": ALICE,
        "created_at": 1_700_000_000,
        "kind": 1,
        "tags": [["t", "x"]],
        "content": "draft",
    }
    with_id = {**fields, "id": draft.id}
    forms: list[Any] = [draft, fields, with_id, json.dumps(fields), json.dumps(with_id).encode()]
    async with outbox_at(tmp_path, NOWHERE, deliver=False) as outbox:
        handles = [await outbox.publish(form) for form in forms]
        assert {handle.event_id for handle in handles} == {draft.id}
        assert len(await outbox.jobs()) == 1


@pytest.mark.req("A9")
async def test_a_key_makes_one_job_for_ever(tmp_path: Path) -> None:
    async with outbox_at(tmp_path, NOWHERE, deliver=False) as outbox:
        first = await outbox.publish(make_event(), key="order 7")
        again = await outbox.publish(make_event(), key="order 7")
        assert (again.id, again.is_new) == (first.id, False)
        assert again.event_id == first.event_id
        with pytest.raises(BadSetting, match="names one event"):
            await outbox.publish_many(some_notes(2), Options(key="order 8"))
        assert len(await outbox.jobs()) == 1


BAD_OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "a goal beyond the relays": ({"goal": 2}, "goal 2 cannot be met by 1 relay"),
    "a goal of none": ({"goal": 0}, "goal 0 cannot be met"),
    "a policy unknown": ({"policy": "heroic"}, "'heroic' is none of"),
    "a policy that cannot work": (
        {"policy": RetryPolicy("mine", delays=())},
        "delays must name at least one wait",
    ),
    "a relay that is none": ({"relays": ["mailto:me@x"]}, "relay URL|host name|usable port"),
    "two relays in one": ({"relays": ["wss://a wss://b"]}, "not one relay URL"),
    "a time without its zone": ({"at": datetime(2030, 1, 1)}, "time zone"),  # noqa: DTZ001
}


@pytest.mark.parametrize(("options", "why"), BAD_OPTIONS.values(), ids=BAD_OPTIONS.keys())
async def test_bad_options_are_refused_and_nothing_is_kept(
    tmp_path: Path, options: dict[str, Any], why: str
) -> None:
    async with outbox_at(tmp_path, NOWHERE, deliver=False) as outbox:
        with pytest.raises(BadSetting, match=why):
            await outbox.publish(make_event(), **options)
        assert await nothing_is_kept(outbox)


async def test_without_any_relay_nothing_can_be_handed_in(tmp_path: Path) -> None:
    async with outbox_at(tmp_path, deliver=False) as outbox:
        with pytest.raises(BadSetting, match="no relay is known"):
            await outbox.publish(make_event())
        assert await nothing_is_kept(outbox)
        handle = await outbox.publish(make_event(), relays=[NOWHERE, f"{NOWHERE}/"])
        job = await handle.status()
    assert [(d.relay, d.reason) for d in job.deliveries] == [
        (f"{NOWHERE}/", "named for this event")
    ]


@pytest.mark.req("C1")
async def test_the_goal_is_the_settings_where_the_relays_allow_it(tmp_path: Path) -> None:
    async with outbox_at(tmp_path, NOWHERE, deliver=False, goal=3) as outbox:
        one = await (await outbox.publish(make_event())).status()
        many = await outbox.publish(make_event(), relays=[f"ws://127.0.0.1:{n}" for n in (1, 2, 3)])
        assert (one.goal, (await many.status()).goal) == (1, 3)


@pytest.mark.parametrize("kind", [13, 14, 15, 9734, 22242, 24242, 27235])
@pytest.mark.req("A15")
async def test_kinds_that_are_never_published_are_refused(tmp_path: Path, kind: int) -> None:
    signer = SecretSigner(KEY)
    async with outbox_at(tmp_path, NOWHERE, signer=signer, deliver=False) as outbox:
        for item in (make_event(KEY, kind), {"kind": kind, "content": ""}):
            with pytest.raises(RefusedKind, match=f"kind {kind} is .*never published"):
                await outbox.publish(item)
        assert await nothing_is_kept(outbox)


@pytest.mark.req("A15")
async def test_an_ephemeral_event_is_tried_once(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(refuse("error: busy")) as busy,
        ScriptedRelay(accept) as free,
        outbox_at(tmp_path, busy, free) as outbox,
    ):
        job = await (await outbox.publish(make_event(kind=20_001))).settled(PATIENCE)
        assert job.state is JobState.PUBLISHED
        assert job.publish_attempts == 2
        alone = await outbox.publish(make_event(kind=29_999), relays=[busy.url], policy="quick")
        ended = await alone.settled(PATIENCE)
        assert ended.state is JobState.FAILED
        assert ended.publish_attempts == 1
        assert ended.expires_at <= outbox._clock.now() + 60_000
    assert len(busy.events) == 2


@pytest.mark.req("A15")
async def test_an_ephemeral_event_that_cannot_go_now_is_refused(tmp_path: Path) -> None:
    async with outbox_at(tmp_path, NOWHERE, deliver=False) as outbox:
        note = await outbox.publish(make_event())
        event = make_event(kind=20_001)
        tomorrow = datetime.now(UTC) + timedelta(days=1)
        with pytest.raises(RefusedKind, match="can only be sent now"):
            await outbox.publish(event, at=tomorrow)
        with pytest.raises(RefusedKind, match="can only be sent now"):
            await outbox.publish(event, after=[note])
        with pytest.raises(RefusedKind, match="no signer for it"):
            await outbox.publish({"kind": 20_001, "pubkey": ALICE})
        outbox.set_online(False)
        with pytest.raises(RefusedKind, match="no network"):
            await outbox.publish(event)
        assert len(await outbox.jobs()) == 1


@pytest.mark.req("A11")
async def test_a_new_version_is_always_later_than_the_last(tmp_path: Path) -> None:
    ahead = int(time.time()) + 500
    async with outbox_at(tmp_path, NOWHERE, signer=SecretSigner(KEY), deliver=False) as outbox:
        await outbox.publish(make_event(KEY, kind=0, content="from elsewhere", created_at=ahead))
        times = [(await (await outbox.post(f"v{n}", kind=0)).status()).created_at for n in range(3)]
        assert times == [ahead + 1, ahead + 2, ahead + 3]
        essay = {"kind": 30_023, "tags": [["d", "essay"]]}
        first = await (await outbox.publish({**essay, "content": "a"})).status()
        second = await (await outbox.publish({**essay, "content": "b"})).status()
        other = await (await outbox.publish({**essay, "tags": [["d", "x"]]})).status()
        assert second.created_at > first.created_at
        assert other.created_at < ahead


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.req("A11")
async def test_versions_made_at_once_get_different_times(tmp_path: Path, together: bool) -> None:
    """In one batch, in its order, or by calls that overlap: no two get the same second."""
    versions: list[dict[str, Any]] = [{"kind": 0, "content": f"v{n}"} for n in range(5)]
    async with outbox_at(tmp_path, NOWHERE, signer=SecretSigner(KEY), deliver=False) as outbox:
        if together:
            handles = await outbox.publish_batch(versions)
        else:
            handles = await asyncio.gather(*map(outbox.publish, versions))
        jobs = [await handle.status() for handle in handles]
    times = [job.created_at for job in jobs]
    assert len(set(times)) == 5
    if together:
        assert times == sorted(times)
    (last,) = [job for job in jobs if job.state is JobState.PENDING_SIGN]
    assert last.created_at == max(times)
    assert [job.state for job in jobs].count(JobState.SUPERSEDED) == 4


@pytest.mark.req("A11")
async def test_the_memory_of_versions_does_not_grow_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postrich.accept.MANY_VERSIONS", 10)
    async with outbox_at(tmp_path, NOWHERE, signer=SecretSigner(KEY), deliver=False) as outbox:
        outbox._intake._newest = {str(number): 5 for number in range(50)}
        await outbox.post("profile", kind=0)
        assert list(outbox._intake._newest) == [f"0:{ALICE}:"]


@pytest.mark.req("A2")
async def test_what_a_draft_says_itself_is_never_touched(tmp_path: Path) -> None:
    async with outbox_at(tmp_path, NOWHERE, signer=SecretSigner(KEY), deliver=False) as outbox:
        await outbox.post("newest", kind=0)
        old = {"kind": 0, "content": "old", "created_at": 5, "tags": [["nonce", "1", "2"]]}
        job = await (await outbox.publish(old)).status()
    assert (job.created_at, job.tags) == (5, [["nonce", "1", "2"]])
    assert job.state is JobState.SUPERSEDED, "but relays would not take it any more"


@pytest.mark.req("A17")
async def test_a_batch_is_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    async with outbox_at(tmp_path, NOWHERE, deliver=False) as outbox:
        with pytest.raises(InvalidEvent, match="id does not match"):
            await outbox.publish_batch([*some_notes(3), changed(content="bad"), *some_notes(3)])
        assert await nothing_is_kept(outbox)
        with pytest.raises(RefusedKind):
            await outbox.publish_batch([*some_notes(3), make_event(kind=22242)])
        assert await nothing_is_kept(outbox)
        handles = await outbox.publish_batch(some_notes(3))
        assert len(await outbox.jobs()) == len(handles) == 3
        assert await outbox.publish_batch([]) == []


@pytest.mark.parametrize("count", [20, 1100])
@pytest.mark.req("A1", "F2")
async def test_of_many_each_is_kept_or_refused_for_itself(tmp_path: Path, count: int) -> None:
    """Few are checked on the spot, many by a helper; several chunks, answers in order."""
    good = some_notes(count, KEY)
    items: list[Any] = list(good)
    bad = {3: "nonsense", count // 2: changed(sig="1" * 128), count - 1: {"colour": 5}}
    for place, item in bad.items():
        items[place] = item
    heard: list[int] = []
    async with outbox_at(tmp_path, NOWHERE, deliver=False) as outbox:
        answers = await outbox.publish_many(items, on_progress=heard.append)
        status = await outbox.status()
        refused = {n for n, answer in enumerate(answers) if isinstance(answer, CallerError)}
        assert refused == set(bad)
        for number, answer in enumerate(answers):
            if isinstance(answer, Handle):
                assert answer.event_id == good[number]["id"]
    assert status.pending == count - 3
    assert sum(heard) == count


@pytest.mark.req("A17")
async def test_options_hold_for_all_of_a_batch(tmp_path: Path) -> None:
    at = round(time.time() * 1000) + 3_600_000
    options = Options(relays=(NOWHERE,), at=at, policy="capture", goal=1, priority=Priority.LATER)
    async with outbox_at(tmp_path, deliver=False) as outbox:
        for handle in await outbox.publish_batch(some_notes(2), options):
            job = await handle.status()
            assert (job.due_at, job.priority) == (at, Priority.LATER)
            assert job.policy.name == "capture"
            assert job.expires_at == at + 7 * 86_400_000


async def test_a_job_lives_no_longer_than_its_event(tmp_path: Path) -> None:
    soon = int(time.time()) + 600
    event = make_event(KEY, tags=[("expiration", str(soon))])
    async with outbox_at(tmp_path, NOWHERE, deliver=False) as outbox:
        job = await (await outbox.publish(event)).status()
        assert job.expires_at == soon * 1000
        too_late = datetime.fromtimestamp(soon + 1, UTC)
        with pytest.raises(InvalidEvent, match="expiration is over before it could be sent"):
            await outbox.publish(make_event(tags=[("expiration", str(soon))]), at=too_late)


@pytest.mark.req("A1")
async def test_what_was_accepted_is_on_disk(tmp_path: Path) -> None:
    """No word to the first outbox: the second one reads the file as it is."""
    async with ScriptedRelay(accept) as relay, outbox_at(tmp_path, relay, deliver=False) as outbox:
        await outbox.publish(make_event(content="durable"))
        async with outbox_at(tmp_path, relay) as other:
            await other.drained(PATIENCE)
    assert contents(relay.events) == ["durable"]
