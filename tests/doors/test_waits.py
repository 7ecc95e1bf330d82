"""What a job waits for: one table, from the job and what is known around it."""

from __future__ import annotations

import errno
import socket
from typing import Any

import msgspec
import pytest

from postrich.doors.cli.showing import wait_word
from postrich.doors.cli.waits import Around, What, waits_for_what
from postrich.model.delivery import Delivery, DeliveryState
from postrich.model.job import Job, JobError, JobState, Phase
from postrich.model.relay import RelayHealth
from postrich.rules.backoff import PRESETS
from postrich.rules.replies import fault_of
from postrich.sign.accounts import Account, Bunker

pytestmark = pytest.mark.req("A6", "G2")

NOW = 1_800_000_000_000
ME = "ab" * 32
BUNKER = Bunker("cd" * 32, ("wss://nos.lol/",))

KEYED = Account(ME, "main", key="file")
KEPT = Account(ME, key="keyring")
BUNKERED = Account(ME, "work", bunker=BUNKER)
BOTH = Account(ME, key="file", bunker=BUNKER)
ENVIRONMENT = Account(ME)

OPEN = JobState.PENDING_PUBLISH
UNSIGNED = JobState.PENDING_SIGN


def delivery(relay: str, **changes: Any) -> Delivery:
    plain = Delivery(relay, "", DeliveryState.WAITING, 0, NOW, None, "", None)
    return msgspec.structs.replace(plain, **changes)


def job(state: JobState, **changes: Any) -> Job:
    plain = Job(
        id=7,
        event_id="0" * 64,
        pubkey=ME,
        kind=1,
        created_at=NOW // 1000,
        state=state,
        priority=1,
        goal=1,
        policy=PRESETS["interactive"],
        accepted_at=NOW,
        due_at=None,
        expires_at=NOW + 1,
        published_at=None,
        finished_at=None,
        sign_attempts=0,
        next_at=NOW,
        error=None,
        content="",
        tags=(),
        size=1,
        waits_for=(),
        deliveries=(delivery("wss://nos.lol/"),),
    )
    return msgspec.structs.replace(plain, **changes)


def around(*accounts: Account, **more: Any) -> Around:
    return Around(NOW, accounts, **more)


def unsigned(message: str, code: str = "SIGNER_UNAVAILABLE") -> JobError:
    return JobError(Phase.SIGN, code, message)


def unreachable(url: str, problem: Exception) -> RelayHealth:
    """As the lane of a relay writes it down."""
    return RelayHealth(url, "open", NOW, detail=fault_of(problem).text)


NO_DNS = socket.gaierror(-3, "Temporary failure in name resolution")
NO_ROUTE = OSError(errno.ENETUNREACH, "Network is unreachable")
REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "refused")
TWO = (delivery("wss://a.example/"), delivery("wss://b.example/"))


@pytest.mark.parametrize(
    ("found", "known", "what", "short", "said"),
    [
        (job(UNSIGNED), around(KEYED), "signer", "your key (main)", "asks for its passphrase"),
        (job(UNSIGNED), around(KEPT), "signer", "your key", "`postrich sign` signs it"),
        (job(UNSIGNED), around(ENVIRONMENT), "signer", "your key", "for your key to sign it"),
        (job(UNSIGNED), around(BUNKERED), "signer", "your bunker (work)", "`postrich serve`"),
        (job(UNSIGNED), around(BOTH), "signer", "your bunker", "for your key or your bunker to"),
        (job(UNSIGNED), around(), "signer", "a signer", "a signer of abababab…"),
        (job(UNSIGNED, pubkey="ee" * 32), around(KEYED), "signer", "a signer", "account import"),
        (
            job(UNSIGNED, error=unsigned("the bunker does not answer"), next_at=NOW + 12_000),
            around(BUNKERED),
            "signer",
            "your bunker (work)",
            "to sign it (the bunker does not answer); next try in 12 s",
        ),
        (
            job(UNSIGNED, error=unsigned("waits for you to approve at https://b/1", "TIMEOUT")),
            around(BUNKERED),
            "signer",
            "your bunker (work)",
            "approve at https://b/1",
        ),
        (
            job(JobState.SCHEDULED, due_at=NOW + 7_200_000),
            around(),
            "hour",
            "its hour",
            "It is scheduled for in 2 h",
        ),
        (job(OPEN), around(), "relays", "nos.lol", "It waits for nos.lol."),
        (job(OPEN, deliveries=TWO), around(), "relays", "2 relays", "a.example, b.example"),
        (
            job(JobState.PUBLISHED, published_at=NOW),
            around(),
            "relays",
            "nos.lol",
            "It waits for nos.lol.",
        ),
        (
            job(OPEN, deliveries=TWO),
            around(
                health={
                    "wss://a.example/": unreachable("wss://a.example/", NO_DNS),
                    "wss://b.example/": unreachable("wss://b.example/", NO_ROUTE),
                }
            ),
            "network",
            "the network",
            "none of its relays can be reached",
        ),
        (
            job(OPEN, deliveries=TWO),
            around(
                health={
                    "wss://a.example/": unreachable("wss://a.example/", TimeoutError()),
                    "wss://b.example/": unreachable("wss://b.example/", REFUSED),
                }
            ),
            "relays",
            "2 relays",
            "It waits for a.example, b.example.",
        ),
        (
            job(OPEN, next_at=None, waits_for=(3,)),
            around(states={3: OPEN}),
            "job",
            "job 3",
            "It waits for job 3, which is signed-pending-publish.",
        ),
        (
            job(OPEN, next_at=None, waits_for=(3, 4, 5)),
            around(states={3: OPEN, 4: JobState.PUBLISHED}),
            "job",
            "2 jobs",
            "which is signed-pending-publish and job 5, which is gone",
        ),
        (
            job(OPEN, waits_for=(3,)),
            around(states={3: JobState.PUBLISHED}),
            "relays",
            "nos.lol",
            "nos.lol",
        ),
        (
            job(JobState.PARKED, finished_at=NOW, error=unsigned("you said no", "USER_REJECTED")),
            around(KEYED),
            "person",
            "you",
            "(you said no): then run `postrich queue retry 7`",
        ),
        (
            job(
                JobState.PARKED,
                finished_at=NOW,
                error=JobError(Phase.PUBLISH, "SIGNER", "auth-required: who are you?"),
            ),
            around(BUNKERED),
            "signer",
            "your bunker (work)",
            "to tell the relay who you are (auth-required: who are you?)",
        ),
    ],
)
def test_who_or_what_a_job_waits_for(
    found: Job, known: Around, what: str, short: str, said: str
) -> None:
    wait = waits_for_what(found, known)
    assert wait is not None
    assert (wait.what, wait.short) == (what, short)
    assert said in wait.text
    assert wait.text.endswith(".")


@pytest.mark.parametrize(
    "state", [JobState.PUBLISHED, JobState.FAILED, JobState.CANCELLED, JobState.SUPERSEDED]
)
def test_what_is_done_waits_for_nothing(state: JobState) -> None:
    assert waits_for_what(job(state, finished_at=NOW), around(KEYED)) is None
    assert wait_word(job(state, finished_at=NOW), around(KEYED)) == "–"


@pytest.mark.parametrize("state", list(JobState))
def test_whatever_is_not_done_waits_for_something(state: JobState) -> None:
    """A job of which nothing is known is never without an answer."""
    is_open = state in (UNSIGNED, OPEN, JobState.SCHEDULED, JobState.PUBLISHED, JobState.PARKED)
    wait = waits_for_what(job(state, deliveries=()), around())
    assert (wait is not None) is is_open
    assert wait is None or (wait.what in What and wait.short)


def test_the_column_has_its_width() -> None:
    account = Account(ME, "a name of forty visible characters or so", bunker=BUNKER)
    late = job(UNSIGNED, next_at=NOW + 59 * 60_000)
    word = wait_word(late, around(account))
    assert word == "your bunker (a…, in 59 min"
    assert len(word) == 26


def test_a_strangers_words_stay_on_the_line() -> None:
    """Errors and names may hold what acts on a terminal."""
    account = Account(ME, "evil\x1b[2J", bunker=BUNKER)
    wait = waits_for_what(job(UNSIGNED, error=unsigned("no\x1b[1m\nway")), around(account))
    assert wait is not None
    assert not {"\x1b", "\n"} & set(wait.text + wait.short)
