"""Webhooks: what may be one, what is said and signed, what an answer means."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from postrich.errors import BadSetting
from postrich.model.delivery import Delivery, DeliveryState
from postrich.model.hook import PING, Hook, HookEvent, HookMessage, HookState, MessageState
from postrich.model.job import Job, JobError, JobState, Phase
from postrich.rules.backoff import PRESETS, check_policy
from postrich.rules.hooks import (
    BOTH_FOR_MS,
    DAY_MS,
    LONGEST_PAUSE_MS,
    SCHEDULE,
    HookAnswer,
    HookPolicy,
    check_hook_events,
    check_hook_policy,
    check_hook_url,
    check_master,
    give_up_reason,
    hook_secret,
    master_key,
    payload,
    settle_message,
    signatures,
)
from postrich.rules.redact import redact

pytestmark = pytest.mark.req("F6")

NOW = 1_700_000_000_000
MASTER = b"m" * 32
ALICE = "a1" * 32
POLICY = HookPolicy()
OPEN = HookPolicy(allow_private=True, allow_http=True)
HOOK = Hook("hook_1", ALICE, "https://x.example/", (), HookState.ACTIVE, NOW, master_key(MASTER))
MESSAGE = HookMessage(
    7, "msg_1", "hook_1", "published", ALICE, MessageState.WAITING, 0, NOW, 3, "ab" * 32, NOW
)


def hook(**changes: Any) -> Hook:
    return msgspec.structs.replace(HOOK, **changes)


# -- what may be a hook ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.com/x",
        "https://hooks.example.com:8443/x?token=1",
        " https://hooks.example.com\n",
        "https://hooks.example.com/?then=https://x.example/{id}",
    ],
)
def test_a_good_address(url: str) -> None:
    assert check_hook_url(url, POLICY) == url.strip()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "a URL of at most"),
        ("https://x.example/" + "a" * 2048, "a URL of at most"),
        ("https://ü.example/", "plain characters"),
        ("https://x.example/a b", "plain characters"),
        ("https://x.example/\x7f/", "plain characters"),
        ("https://[::1/", "not a URL"),
        ("https://x.example:port/", "not a URL"),
        ("ftp://x.example/", "https://"),
        ("https:///path", "https://"),
        ("x.example", "https://"),
        ("http://x.example/", "allow_http"),
        ("https://me:secret@x.example/", "no user name"),
        ("https://x.example/#here", "fragment"),
        ("https://127.0.0.1/", "loopback"),
        ("https://0x7f.1/", "not an address"),
        ("https://[::ffff:10.0.0.1]/", "private"),
        ("https://169.254.169.254/latest", "metadata"),
        ("https://localhost/", "local network"),
        ("https://printer.local/", "local network"),
        ("https://x.example:22/", "port 22"),
    ],
)
def test_a_bad_address(url: str, reason: str) -> None:
    with pytest.raises(BadSetting, match=reason) as problem:
        check_hook_url(url, POLICY)
    assert "secret" not in str(problem.value)


def test_the_owner_may_allow_more() -> None:
    assert check_hook_url("http://127.0.0.1:22/", OPEN) == "http://127.0.0.1:22/"
    only_http = HookPolicy(allow_http=True)
    assert check_hook_url("http://x.example/", only_http) == "http://x.example/"
    with pytest.raises(BadSetting, match="loopback"):
        check_hook_url("http://127.0.0.1/", only_http)
    with pytest.raises(BadSetting, match="allow_http"):
        check_hook_url("http://127.0.0.1/", HookPolicy(allow_private=True))


def test_events() -> None:
    assert check_hook_events([]) == tuple(HookEvent)
    wanted = (HookEvent.PUBLISHED, HookEvent.FAILED)
    assert check_hook_events(["failed", "published", "failed"]) == wanted
    with pytest.raises(BadSetting, match="'parked' is no event"):
        check_hook_events(["published", "parked"])


@pytest.mark.parametrize("field", ["attempts", "timeout", "at_once", "give_up_days", "per_pubkey"])
def test_settings_that_cannot_work(field: str) -> None:
    check_hook_policy(POLICY)
    for value in (0, -1, float("nan"), float("inf")):
        with pytest.raises(BadSetting, match=rf"hooks\.{field}"):
            check_hook_policy(msgspec.structs.replace(POLICY, **{field: value}))


# -- secrets and signatures --------------------------------------------------------------------


def test_every_hook_and_generation_has_a_secret_of_its_own() -> None:
    secrets = {
        hook_secret(master, name, generation)
        for master in (MASTER, b"n" * 32)
        for name in ("hook_1", "hook_2")
        for generation in (1, 2)
    }
    assert len(secrets) == 8
    assert hook_secret(MASTER, "hook_1", 1) == hook_secret(MASTER, "hook_1", 1)
    assert all(secret.startswith("whsec_") for secret in secrets)
    assert redact(f"the secret is {secrets.pop()}!") == "the secret is [whsec]!"


def test_a_master_secret() -> None:
    assert check_master(f" {'x' * 32}\n") == b"x" * 32
    with pytest.raises(BadSetting, match="32 characters") as problem:
        check_master("short secret")
    assert "short" not in str(problem.value)
    assert master_key(MASTER) != master_key(b"n" * 32)
    assert MASTER.hex() not in master_key(MASTER)


def now() -> int:
    return int(time.time() * 1000)


def test_the_library_of_the_standard_accepts_what_we_sign() -> None:
    body = payload(MESSAGE, None)
    headers = signatures(MASTER, HOOK, "msg_1", now(), body)
    verifier = Webhook(hook_secret(MASTER, "hook_1", 1))
    assert verifier.verify(body, headers)["type"] == "published"
    with pytest.raises(WebhookVerificationError):
        verifier.verify(body + b" ", headers)
    with pytest.raises(WebhookVerificationError):
        verifier.verify(body, {**headers, "webhook-id": "msg_2"})
    with pytest.raises(WebhookVerificationError):
        Webhook(hook_secret(MASTER, "hook_2", 1)).verify(body, headers)


def test_for_a_day_both_secrets_sign() -> None:
    at = now()
    rotated = hook(generation=2, rotated_at=at)
    headers = signatures(MASTER, rotated, "msg_1", at, b"{}")
    for generation in (1, 2):
        Webhook(hook_secret(MASTER, "hook_1", generation)).verify(b"{}", headers)
    later = signatures(MASTER, hook(generation=2, rotated_at=at - BOTH_FOR_MS), "msg_1", at, b"{}")
    Webhook(hook_secret(MASTER, "hook_1", 2)).verify(b"{}", later)
    with pytest.raises(WebhookVerificationError):
        Webhook(hook_secret(MASTER, "hook_1", 1)).verify(b"{}", later)


# -- what is said ------------------------------------------------------------------------------


def a_job() -> Job:
    states = (DeliveryState.DELIVERED, DeliveryState.DELIVERED, DeliveryState.REFUSED)
    deliveries = tuple(
        Delivery(f"wss://{n}.example/", "", state, 1, None, "", "", NOW)
        for n, state in enumerate(states)
    )
    error = JobError(Phase.PUBLISH, "BLOCKED", "no")
    return Job(
        id=3,
        event_id="ab" * 32,
        pubkey=ALICE,
        kind=1,
        created_at=1,
        state=JobState.PUBLISHED,
        priority=1,
        goal=1,
        policy=PRESETS["once"],
        accepted_at=NOW,
        due_at=None,
        expires_at=NOW,
        published_at=NOW,
        finished_at=None,
        sign_attempts=0,
        next_at=None,
        error=error,
        content="the text itself is not told",
        tags=(),
        size=9,
        waits_for=(),
        deliveries=deliveries,
    )


def test_a_message_tells_what_and_when_and_how_the_job_stands() -> None:
    keyed = msgspec.structs.replace(MESSAGE, key="my key")
    body = payload(keyed, a_job(), "my post")
    assert b"the text itself" not in body
    told = json.loads(body)
    assert (told["type"], told["timestamp"]) == ("published", "2023-11-14T22:13:20.000Z")
    data = told["data"]
    assert (data["job"], data["key"], data["event_id"]) == (3, "my key", "ab" * 32)
    assert data["id"] == "my post"
    inner = msgspec.structs.replace(MESSAGE, key="http:somebody:their key")
    assert json.loads(payload(inner, a_job()))["data"]["key"] is None
    assert (data["hook"], data["pubkey"], data["state"]) == ("hook_1", ALICE, "published")
    assert data["relays"] == {"total": 3, "delivered": 2, "refused": 1}
    assert data["error"] == {"phase": "publish", "code": "BLOCKED", "message": "no"}


def test_a_job_that_is_gone_and_a_ping() -> None:
    assert json.loads(payload(MESSAGE, None))["data"] == {
        "hook": "hook_1",
        "job": 3,
        "id": None,
        "key": None,
        "event_id": "ab" * 32,
        "pubkey": ALICE,
        "state": None,
    }
    ping = msgspec.structs.replace(MESSAGE, kind=PING, job=None)
    assert json.loads(payload(ping, None))["data"] == {"hook": "hook_1"}


# -- what an answer means ----------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_taken(status: int) -> None:
    found = settle_message(MESSAGE, HookAnswer(status), POLICY, NOW, 0.0)
    assert (found.state, found.attempts, found.text) == (MessageState.SENT, 1, "")
    assert found.taken
    assert not found.gone


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (HookAnswer(199), "answered 199"),
        (HookAnswer(301), "answered 301: redirects are not followed"),
        (HookAnswer(400), "answered 400"),
        (HookAnswer(404), "answered 404"),
        (HookAnswer(500), "answered 500"),
        (HookAnswer(None, "connection refused"), "connection refused"),
        (HookAnswer(None, "token=abc"), "token=[redacted]"),
        (HookAnswer(), "no answer"),
    ],
)
def test_tried_again(answer: HookAnswer, text: str) -> None:
    found = settle_message(MESSAGE, answer, POLICY, NOW, 0.0)
    assert (found.state, found.next_at) == (MessageState.WAITING, NOW + 5000)
    assert (found.text, found.status, found.gone) == (text, answer.status, False)
    assert not found.taken


def test_the_schedule_of_the_standard() -> None:
    check_policy(SCHEDULE)
    waits = []
    message, at = MESSAGE, NOW
    while True:
        found = settle_message(message, HookAnswer(500), POLICY, at, 0.0)
        if found.state is MessageState.FAILED:
            break
        waits.append((found.next_at - at) / 1000)
        message, at = msgspec.structs.replace(message, attempts=found.attempts), found.next_at
    hours = [2, 5, 10, 14, 20, 24]
    assert waits == [5, 300, 1800, *(hour * 3600 for hour in hours)]
    assert found.attempts == 10
    once = HookPolicy(attempts=1)
    assert settle_message(MESSAGE, HookAnswer(500), once, NOW, 0.0).state == MessageState.FAILED
    jittered = settle_message(MESSAGE, HookAnswer(500), POLICY, NOW, 1.0)
    assert NOW + 5000 < jittered.next_at <= NOW + 6000


def test_gone_is_gone() -> None:
    found = settle_message(MESSAGE, HookAnswer(410), POLICY, NOW, 0.0)
    assert (found.state, found.gone) == (MessageState.FAILED, True)


@pytest.mark.parametrize(
    ("status", "header", "wait"),
    [
        (429, "60", 60_000),
        (503, " 60 ", 60_000),
        (429, "1", 5000),
        (429, "999999999999", LONGEST_PAUSE_MS),
        (429, "Tue, 14 Nov 2023 22:14:20 GMT", 60_000),
        (429, "Tue, 14 Nov 2023 22:14:20 -0000", 60_000),
        (503, "Tue, 14 Nov 2000 22:14:20 GMT", 5000),
        (503, "Tue, 14 Nov 2099 22:14:20 GMT", LONGEST_PAUSE_MS),
        (429, "soon", 5000),
        (429, "-60", 5000),
        (429, "６０", 5000),
        (500, "60", 5000),
    ],
)
def test_a_busy_server_may_put_us_off(status: int, header: str, wait: int) -> None:
    answer = HookAnswer(status, retry_after=header)
    assert settle_message(MESSAGE, answer, POLICY, NOW, 0.0).next_at == NOW + wait


def test_when_there_is_no_hope() -> None:
    assert give_up_reason(HOOK, POLICY, NOW) is None
    failing = hook(failing_since=NOW, failures=10, answer_text="answered 500")
    assert give_up_reason(failing, POLICY, NOW + 5 * DAY_MS - 1) is None
    few = hook(failing_since=NOW, failures=9)
    assert give_up_reason(few, POLICY, NOW + 50 * DAY_MS) is None
    reason = give_up_reason(failing, POLICY, NOW + 5 * DAY_MS)
    assert reason is not None
    assert "5 days" in reason
    assert reason.endswith("answered 500")
