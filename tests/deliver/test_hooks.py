"""Hooks are told what becomes of jobs, by real HTTP: signed, in order, until they take it."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp.connector
import pytest
from aiohttp import web
from standardwebhooks import WebhookVerificationError

from postrich import Outbox, RetryPolicy
from postrich.errors import BadSetting, CallerError, IllegalMove, UnknownHook
from postrich.model.hook import Hook, HookEvent, HookMessage, HookState, MessageState
from postrich.observe.notices import HookDisabled
from postrich.rules.hooks import HookPolicy
from tests.deliver import outboxes
from tests.deliver.hook_server import Answer, HookServer, status
from tests.deliver.outboxes import (
    PATIENCE,
    JumpingClock,
    hear,
    outbox_at,
    some_notes,
    steal_leases,
    until,
)
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import Gate, accept, refuse, silent
from tests.wire.test_guard import PUBLIC, Internet, _certify

pytestmark = pytest.mark.req("F6")

OPEN = HookPolicy(allow_private=True, allow_http=True)
#: Gives up after two attempts.
BRIEF = RetryPolicy("brief", delays=(0.01,), max_attempts=2)
DAY = 86_400.0


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSTRICH_HOOKS_SECRET", "a secret of at least thirty-two characters")


async def settled(outbox: Outbox, hook: Hook, state: MessageState) -> list[HookMessage]:
    """A hook's messages, once all of them ended so."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await outbox.hooks.messages(hook.id, 1000)
            if found and all(message.state is state for message in found):
                return list(found)
            await asyncio.sleep(0.005)


async def attempted(outbox: Outbox, hook: Hook, times: int = 1) -> HookMessage:
    """The hook's only message, once it was tried so often."""
    async with asyncio.timeout(PATIENCE):
        while True:
            [message] = await outbox.hooks.messages(hook.id)
            if message.attempts >= times:
                return message
            await asyncio.sleep(0.005)


# -- the six events ----------------------------------------------------------------------------


async def test_all_six_events_are_told_of_real_jobs(tmp_path: Path) -> None:
    fine, no, late, tired, stopped = some_notes(5)
    async with (
        HookServer() as server,
        ScriptedRelay(accept) as good,
        ScriptedRelay(refuse("blocked: not you")) as bad,
        ScriptedRelay(refuse("error: try later")) as busy,
        outbox_at(tmp_path, good, hooks=OPEN) as outbox,
    ):
        grant = await outbox.hooks.add(server.url)
        soon = datetime.now(UTC) + timedelta(seconds=0.2)
        first = await outbox.publish(fine, at=soon, key="mine")
        await first.settled(PATIENCE)
        second = await outbox.publish(no, relays=[bad.url])
        third = await outbox.publish(tired, relays=[busy.url], policy=BRIEF)
        fourth = await outbox.publish(stopped, at=datetime.now(UTC) + timedelta(days=1))
        await fourth.cancel()
        fifth = await outbox.publish(late, relays=[good.url, bad.url])
        await server.wait(9)
        assert server.kinds(first.id) == ["scheduled", "published", "delivered"]
        assert server.kinds(second.id) == ["failed"]
        assert server.kinds(third.id) == ["exhausted"]
        assert server.kinds(fourth.id) == ["scheduled", "cancelled"]
        assert server.kinds(fifth.id) == ["published", "delivered"]
        await settled(outbox, grant.hook, MessageState.SENT)
    assert len(server.told) == 9
    assert {told.type for told in server.told} == set(HookEvent)
    assert len({told.id for told in server.told}) == 9
    for told in server.told:
        told.check(grant.secret)
        assert told.headers["Content-Type"] == "application/json"
    [published] = [t for t in server.told if (t.job, t.type) == (first.id, "delivered")]
    assert published.data["key"] == "mine"
    assert published.data["event_id"] == fine["id"]
    assert published.data["relays"] == {"total": 1, "delivered": 1}
    [failed] = [t for t in server.told if t.type == "failed"]
    assert failed.data["state"] == "failed"
    assert "not you" in failed.data["error"]["message"]


async def test_only_its_own_posts(tmp_path: Path) -> None:
    mine, theirs = (*some_notes(1), *some_notes(1))
    async with (
        HookServer() as server,
        ScriptedRelay(accept) as relay,
        outbox_at(tmp_path, relay, hooks=OPEN) as outbox,
    ):
        await outbox.hooks.add(server.url, ["published"], pubkey=mine["pubkey"])
        for note in (theirs, mine):
            await (await outbox.publish(note)).settled(PATIENCE)
        [told] = await server.wait(1)
    assert told.data["pubkey"] == mine["pubkey"]


# -- what is not taken -------------------------------------------------------------------------


async def test_a_no_is_tried_again_under_the_same_id(tmp_path: Path) -> None:
    clock = JumpingClock()
    async with (
        HookServer(status(500)) as server,
        outbox_at(tmp_path, hooks=OPEN, clock=clock) as outbox,
    ):
        grant = await outbox.hooks.add(server.url)
        ping = await outbox.hooks.test(grant.hook.id)
        message = await attempted(outbox, grant.hook)
        assert message.next_at is not None
        assert 4000 < message.next_at - clock.now() <= 5000
        assert (message.status, message.error) == (500, "answered 500")
        server.answer = status(201)
        clock.wall_ahead += 5
        await settled(outbox, grant.hook, MessageState.SENT)
        hook = await outbox.hooks.show(grant.hook.id)
    assert [told.id for told in server.told] == [ping.id] * 2
    assert (hook.failing_since, hook.answer_status) == (None, 201)


async def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    async with HookServer() as elsewhere:
        async with (
            HookServer(status(307, Location=elsewhere.url)) as server,
            outbox_at(tmp_path, hooks=OPEN) as outbox,
        ):
            grant = await outbox.hooks.add(server.url)
            await outbox.hooks.test(grant.hook.id)
            message = await attempted(outbox, grant.hook)
        assert elsewhere.told == []
    assert message.state is MessageState.WAITING
    assert message.error == "answered 307: redirects are not followed"


async def test_a_busy_server_says_when(tmp_path: Path) -> None:
    async with (
        HookServer(status(429, Retry_After="600")) as server,
        outbox_at(tmp_path, hooks=OPEN) as outbox,
    ):
        grant = await outbox.hooks.add(server.url)
        await outbox.hooks.test(grant.hook.id)
        message = await attempted(outbox, grant.hook)
        assert message.next_at is not None
        assert message.next_at - outbox.now() > 500_000


async def test_gone_is_gone(tmp_path: Path) -> None:
    async with HookServer(status(410)) as server, outbox_at(tmp_path, hooks=OPEN) as outbox:
        with outbox.watch() as notices:
            grant = await outbox.hooks.add(server.url)
            await outbox.hooks.test(grant.hook.id)
            notice = await hear(notices, HookDisabled)
        hook = await outbox.hooks.show(grant.hook.id)
        assert (notice.hook, notice.reason) == (hook.id, hook.reason)
        assert hook.state is HookState.DISABLED
        for attempt in (outbox.hooks.test(hook.id), outbox.hooks.replay(hook.id)):
            with pytest.raises(IllegalMove, match="enable it first"):
                await attempt
        server.answer = status(200)
        await outbox.hooks.enable(hook.id)
        assert await outbox.hooks.replay(hook.id) == 1
        await settled(outbox, hook, MessageState.SENT)


async def test_a_hook_that_never_answers_well_is_disabled_after_five_days(tmp_path: Path) -> None:
    clock = JumpingClock()
    async with (
        HookServer(status(503)) as server,
        outbox_at(tmp_path, hooks=OPEN, clock=clock) as outbox,
    ):
        with outbox.watch() as notices:
            grant = await outbox.hooks.add(server.url)
            for turn in range(10):
                await outbox.hooks.test(grant.hook.id)
                await server.wait(turn + 1)
                async with asyncio.timeout(PATIENCE):
                    while (hook := await outbox.hooks.show(grant.hook.id)).failures <= turn:
                        await asyncio.sleep(0.005)
                assert hook.state is HookState.ACTIVE
            clock.wall_ahead += 5 * DAY
            notice = await hear(notices, HookDisabled)
    assert "5 days" in notice.reason
    assert "answered 503" in notice.reason


async def _close(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def _lie(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.write(b"HTTP/1.1 two hundred OK\r\nContent-Length: -5\r\n\r\n")
    request.transport.close()
    return web.Response()


async def _long_header(_: web.Request) -> web.StreamResponse:
    return web.Response(status=200, headers={"X-Long": "x" * 100_000})


@pytest.mark.parametrize("answer", [_close, _lie, _long_header])
async def test_a_server_that_speaks_badly_took_nothing(tmp_path: Path, answer: Answer) -> None:
    async with HookServer(answer) as server, outbox_at(tmp_path, hooks=OPEN) as outbox:
        grant = await outbox.hooks.add(server.url)
        await outbox.hooks.test(grant.hook.id)
        message = await attempted(outbox, grant.hook)
    assert (message.state, message.status) == (MessageState.WAITING, None)
    assert message.error


async def test_nobody_reads_ten_gigabytes(tmp_path: Path) -> None:
    written = 0

    async def pour(request: web.Request) -> web.StreamResponse:
        nonlocal written
        answer = web.StreamResponse(headers={"Content-Length": str(10 << 30)})
        await answer.prepare(request)
        for _ in range(10 << 10):
            await answer.write(b"x" * (1 << 20))
            written += 1 << 20
        return answer

    async with HookServer(pour) as server, outbox_at(tmp_path, hooks=OPEN) as outbox:
        grant = await outbox.hooks.add(server.url)
        await outbox.hooks.test(grant.hook.id)
        await settled(outbox, grant.hook, MessageState.SENT)  # it said 200 before that
    assert written < 64 << 20


async def test_who_hangs_has_his_time(tmp_path: Path) -> None:
    assert HookPolicy().timeout == 15
    hooks = HookPolicy(allow_private=True, allow_http=True, timeout=0.3)
    async with HookServer() as server, outbox_at(tmp_path, hooks=hooks) as outbox:
        server.answer = server.hang
        hook = (await outbox.hooks.add(server.url)).hook
        await outbox.hooks.test(hook.id)
        message = await attempted(outbox, hook)
    assert (message.state, message.error) == (MessageState.WAITING, "no answer in time")


async def test_who_hangs_holds_up_nobody(tmp_path: Path) -> None:
    hooks = HookPolicy(allow_private=True, allow_http=True, timeout=600, at_once=3, at_once_each=2)
    async with HookServer() as server, outbox_at(tmp_path, hooks=hooks) as outbox:
        server.answers["/hangs"] = server.hang
        hanging = (await outbox.hooks.add(f"{server.url}hangs")).hook
        for _ in range(8):
            await outbox.hooks.test(hanging.id)
        await server.wait(2)
        quick = (await outbox.hooks.add(f"{server.url}quick")).hook
        for _ in range(8):
            await outbox.hooks.test(quick.id)
        await settled(outbox, quick, MessageState.SENT)
        assert sum(told.path == "/hangs" for told in server.told) == 2
        waiting = await outbox.hooks.messages(hanging.id)
        assert {message.state for message in waiting} == {MessageState.WAITING}


async def test_one_that_fails_is_sent_one_at_a_time(tmp_path: Path) -> None:
    under_way = most = 0

    async def slow_no(_: web.Request) -> web.StreamResponse:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.02)
        under_way -= 1
        return web.Response(status=500)

    async with HookServer(slow_no) as server, outbox_at(tmp_path, hooks=OPEN) as outbox:
        grant = await outbox.hooks.add(server.url)
        await outbox.hooks.test(grant.hook.id)
        await attempted(outbox, grant.hook)
        for _ in range(6):
            await outbox.hooks.test(grant.hook.id)
        await server.wait(7)
    assert most == 1


# -- where hooks may lead ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    ["https://127.0.0.1/", "https://10.0.0.1/", "https://localhost/", "https://[::1]/x"],
)
async def test_a_private_address_is_refused_at_once(tmp_path: Path, url: str) -> None:
    async with outbox_at(tmp_path, deliver=False) as outbox:
        with pytest.raises(BadSetting, match="cannot be there"):
            await outbox.hooks.add(url)
        assert await outbox.hooks.list() == []


class Lookups:
    """The loop's resolver and dialler as a test has them, for this test alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.internet = Internet()
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "getaddrinfo", self.internet.getaddrinfo)
        monkeypatch.setattr(loop, "sock_connect", self.internet.sock_connect)


async def test_a_name_that_leads_inside_is_not_dialled_whenever_it_begins_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever DNS said before: every address is judged when its socket is made."""
    monkeypatch.setattr(outboxes, "STORE", "sqlite")
    hooks = HookPolicy(allow_http=True)
    clock = JumpingClock()
    async with (
        HookServer(status(500)) as server,
        outbox_at(tmp_path, hooks=hooks, clock=clock) as outbox,
    ):
        lookups = Lookups(monkeypatch).internet
        lookups.resolves("rebind.example", [PUBLIC], ["127.0.0.1"])
        grant = await outbox.hooks.add(f"http://rebind.example:{server.port}/")
        await outbox.hooks.test(grant.hook.id)
        assert (await attempted(outbox, grant.hook)).status == 500  # by the public address
        clock.wall_ahead += 10
        message = await attempted(outbox, grant.hook, 2)
    assert message.status is None
    assert "127.0.0.1, a loopback address: hooks may not lead there" in message.error
    assert lookups.dialled == [PUBLIC]
    assert len(server.told) == 1


async def test_as_it_is_in_the_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default settings: https to a public address, whose certificate must be good."""
    monkeypatch.setattr(outboxes, "STORE", "sqlite")
    clock = JumpingClock()
    server = HookServer(tls=_certify("hook.example", tmp_path))
    async with server, outbox_at(tmp_path, clock=clock) as outbox:
        lookups = Lookups(monkeypatch).internet
        lookups.resolves("hook.example", [PUBLIC])
        grant = await outbox.hooks.add(f"https://hook.example:{server.port}/x")
        await outbox.hooks.test(grant.hook.id)
        message = await attempted(outbox, grant.hook)
        assert message.error.startswith("TLS failed")
        assert server.told == []
        trusting = ssl.create_default_context(cafile=tmp_path / "hook.example.pem")
        monkeypatch.setattr(aiohttp.connector, "_SSL_CONTEXT_VERIFIED", trusting)
        clock.wall_ahead += 10
        await settled(outbox, grant.hook, MessageState.SENT)
    [told] = server.told
    assert told.path == "/x"


async def test_no_proxy_is_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with HookServer() as proxy, HookServer() as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        async with outbox_at(tmp_path, hooks=OPEN) as outbox:
            grant = await outbox.hooks.add(server.url)
            await outbox.hooks.test(grant.hook.id)
            await settled(outbox, grant.hook, MessageState.SENT)
        assert (len(proxy.told), len(server.told)) == (0, 1)


async def test_what_was_allowed_once_may_be_forbidden_later(tmp_path: Path) -> None:
    async with HookServer() as server:
        async with outbox_at(tmp_path, hooks=OPEN, deliver=False) as outbox:
            grant = await outbox.hooks.add(server.url)
            await outbox.hooks.test(grant.hook.id)
        async with outbox_at(tmp_path) as outbox:
            message = await attempted(outbox, grant.hook)
            assert "https:// only" in message.error
        only_http = HookPolicy(allow_http=True)
        clock = JumpingClock()
        clock.wall_ahead = 10.0
        async with outbox_at(tmp_path, hooks=only_http, clock=clock) as outbox:
            message = await attempted(outbox, grant.hook, 2)
            assert "hooks may not lead there" in message.error
        assert server.told == []


# -- the end of a process, and other processes -------------------------------------------------


async def test_what_waits_at_the_end_is_told_by_the_next(tmp_path: Path) -> None:
    (note,) = some_notes(1)
    async with (
        ScriptedRelay(accept) as relay,
        outbox_at(tmp_path, relay, hooks=OPEN) as outbox,
    ):
        server = HookServer()  # it is not there yet
        grant = await outbox.hooks.add(server.url)
        handle = await outbox.publish(note)
        await handle.settled(PATIENCE)
        async with asyncio.timeout(PATIENCE):
            while not (await outbox.hooks.show(grant.hook.id)).failures:
                await asyncio.sleep(0.005)
    clock = JumpingClock()
    clock.wall_ahead = 6.0
    async with server, outbox_at(tmp_path, hooks=OPEN, clock=clock) as outbox:
        await settled(outbox, grant.hook, MessageState.SENT)
    assert server.kinds(handle.id) == ["published", "delivered"]


async def test_who_lost_the_lease_leaves_it_to_the_other(tmp_path: Path) -> None:
    async with HookServer() as server, outbox_at(tmp_path, hooks=OPEN) as outbox:
        server.answer = server.hang
        grant = await outbox.hooks.add(server.url)
        await outbox.hooks.test(grant.hook.id)
        await server.wait(1)
        await steal_leases(tmp_path)
        server.leave.set()
        await until(lambda: not outbox._messenger._sending)
        [message] = await outbox.hooks.messages(grant.hook.id)
    assert (message.state, message.attempts) == (MessageState.WAITING, 0)


async def test_a_process_with_another_master_secret_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with HookServer() as server:
        async with outbox_at(tmp_path, hooks=OPEN, deliver=False) as outbox:
            grant = await outbox.hooks.add(server.url)
            await outbox.hooks.test(grant.hook.id)
        monkeypatch.setenv("POSTRICH_HOOKS_SECRET", "another secret of thirty-two characters")
        async with outbox_at(tmp_path, hooks=OPEN) as outbox:
            await until(lambda: "another master secret" in caplog.text)
            assert server.told == []
            with pytest.raises(IllegalMove, match="rotate it"):
                await outbox.hooks.secret(grant.hook.id)
            renewed = await outbox.hooks.rotate(grant.hook.id)
            [told] = await server.wait(1)
            told.check(renewed.secret)
            with pytest.raises(WebhookVerificationError):
                told.check(grant.secret)


async def test_offline_nothing_is_tried(tmp_path: Path) -> None:
    async with HookServer() as server, outbox_at(tmp_path, hooks=OPEN) as outbox:
        outbox.set_online(False)
        grant = await outbox.hooks.add(server.url)
        await outbox.hooks.test(grant.hook.id)
        await outboxes.one_pass(outbox._messenger)
        await outboxes.one_pass(outbox._messenger)
        assert server.told == []
        outbox.set_online(True)
        await server.wait(1)


# -- the desk ----------------------------------------------------------------------------------


async def test_both_secrets_count_for_a_day_after_a_rotation(tmp_path: Path) -> None:
    clock = JumpingClock()
    async with (
        HookServer() as server,
        outbox_at(tmp_path, hooks=OPEN, clock=clock) as outbox,
    ):
        old = await outbox.hooks.add(server.url)
        new = await outbox.hooks.rotate(old.hook.id)
        assert new.secret != old.secret
        assert await outbox.hooks.secret(old.hook.id) == new.secret
        await outbox.hooks.test(old.hook.id)
        [told] = await server.wait(1)
        told.check(old.secret)
        told.check(new.secret)
        clock.wall_ahead += DAY
        await outbox.hooks.test(old.hook.id)
        [_, told] = await server.wait(2)
    assert len(told.headers["webhook-signature"].split(" ")) == 1


async def test_replay_of_one_and_of_what_failed(tmp_path: Path) -> None:
    once = HookPolicy(allow_private=True, allow_http=True, attempts=1)
    async with HookServer() as server, outbox_at(tmp_path, hooks=once) as outbox:
        grant = await outbox.hooks.add(server.url)
        hook = grant.hook
        sent = await outbox.hooks.test(hook.id)
        await settled(outbox, hook, MessageState.SENT)
        assert await outbox.hooks.replay(hook.id) == 0
        assert await outbox.hooks.replay(hook.id, message=sent.id) == 1
        await server.wait(2)
        await settled(outbox, hook, MessageState.SENT)
        server.answer = status(404)
        failed = await outbox.hooks.test(hook.id)
        await server.wait(3)
        async with asyncio.timeout(PATIENCE):
            while (await outbox.hooks.message(hook.id, failed.id)).state != MessageState.FAILED:
                await asyncio.sleep(0.005)
        server.answer = status(200)
        future = datetime.now(UTC) + timedelta(hours=1)
        assert await outbox.hooks.replay(hook.id, since=future) == 0
        assert await outbox.hooks.replay(hook.id, since=future - timedelta(hours=2)) == 1
        await settled(outbox, hook, MessageState.SENT)
        with pytest.raises(BadSetting, match="time zone"):
            await outbox.hooks.replay(hook.id, since=datetime(2030, 1, 1))  # noqa: DTZ001
        with pytest.raises(UnknownHook, match="no message"):
            await outbox.hooks.replay(hook.id, message="msg_unknown")
    assert [told.id for told in server.told] == [sent.id, sent.id, failed.id, failed.id]


async def test_hooks_of_others_are_unknown(tmp_path: Path) -> None:
    async with outbox_at(tmp_path, deliver=False) as outbox:
        desk = outbox.hooks
        hook = (await desk.add("https://a.example/", pubkey="A1" * 32)).hook
        everyone = (await desk.add("https://b.example/")).hook
        assert await desk.list(of="a1" * 32) == [hook]
        assert await desk.list() == [hook, everyone]
        assert await desk.show(hook.id, of="a1" * 32) == hook
        stranger = "b0" * 32
        attempts: list[Any] = [
            *(desk.show(hook.id, of=stranger), desk.secret(hook.id, of=stranger)),
            *(desk.remove(hook.id, of=stranger), desk.disable(hook.id, of=stranger)),
            *(desk.enable(hook.id, of=stranger), desk.rotate(hook.id, of=stranger)),
            *(desk.messages(hook.id, of=stranger), desk.replay(hook.id, of=stranger)),
            *(desk.test(hook.id, of=stranger), desk.message(hook.id, "msg_1", of=stranger)),
            *(desk.show(everyone.id, of=stranger), desk.show("hook_unknown")),
        ]
        for attempt in attempts:
            with pytest.raises(UnknownHook):
                await attempt
        assert (await desk.disable(hook.id)).state is HookState.DISABLED
        await desk.remove(hook.id)
        assert await desk.list() == [everyone]


async def test_what_cannot_be_a_hook(tmp_path: Path) -> None:
    async with outbox_at(tmp_path, deliver=False, hooks=HookPolicy(per_pubkey=1)) as outbox:
        with pytest.raises(BadSetting, match="64 hexadecimal"):
            await outbox.hooks.add("https://a.example/", pubkey="npub1")
        with pytest.raises(BadSetting, match="no event"):
            await outbox.hooks.add("https://a.example/", ["everything"])
        await outbox.hooks.add("https://a.example/")
        with pytest.raises(CallerError, match="remove one first"):
            await outbox.hooks.add("https://b.example/")
        await outbox.hooks.add("https://b.example/", pubkey="a1" * 32)


async def test_secrets_are_in_no_text(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with HookServer(status(500)) as server, outbox_at(tmp_path, hooks=OPEN) as outbox:
        grant = await outbox.hooks.add(server.url)
        await outbox.hooks.test(grant.hook.id)
        await attempted(outbox, grant.hook)
        assert grant.secret not in repr(grant)
        assert "secret of at least" not in repr(vars(outbox.hooks))
    secret = grant.secret.removeprefix("whsec_")
    assert secret not in caplog.text
    assert "thirty-two" not in caplog.text
    for file in tmp_path.iterdir():
        held = file.read_bytes()
        assert secret.encode() not in held
        assert b"thirty-two" not in held


async def test_the_order_of_a_job_is_kept_while_its_first_message_is_not_taken(
    tmp_path: Path,
) -> None:
    (note,) = some_notes(1)
    gate = Gate(accept)
    clock = JumpingClock()
    async with (
        HookServer(status(500)) as server,
        ScriptedRelay(accept) as quick,
        ScriptedRelay(gate) as slow,
        outbox_at(tmp_path, quick, slow, hooks=OPEN, clock=clock) as outbox,
    ):
        await outbox.hooks.add(server.url)
        handle = await outbox.publish(note)
        await server.wait(1)
        gate.open()
        await handle.settled(PATIENCE)
        server.answer = status(200)
        clock.wall_ahead += 10
        await server.wait(3)
    assert server.kinds(handle.id) == ["published", "published", "delivered"]


async def test_a_hung_relay_is_no_hook_s_business(tmp_path: Path) -> None:
    """`published` is told at once, though another relay never answers."""
    (note,) = some_notes(1)
    async with (
        HookServer() as server,
        ScriptedRelay(accept) as good,
        ScriptedRelay(silent) as mute,
        outbox_at(tmp_path, good, mute, hooks=OPEN) as outbox,
    ):
        await outbox.hooks.add(server.url)
        handle = await outbox.publish(note)
        await server.wait(1)
        assert server.kinds(handle.id) == ["published"]
