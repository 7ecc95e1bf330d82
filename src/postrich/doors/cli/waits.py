"""Who or what a job waits for: one pure function over the job and what is known around it.

Promises: every job that is not done waits for exactly one thing, named as a person would name
it, with what is to be done about it where a person can do something.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from postrich.doors.cli.words import count, plain, relay_name, snippet, when
from postrich.model.delivery import Delivery, DeliveryState
from postrich.model.job import Job, JobState
from postrich.model.relay import RelayHealth
from postrich.sign.accounts import Account
from postrich.sign.chooser import SPOKEN, Means

#: How the faults read that may be our own network's (`rules.replies.fault_of`); health is
#: kept as text only.
_NETWORK_FAULTS = ("host name cannot be resolved", "no connection in time", "cannot be reached")
_NAME_WIDTH = 10
_RELAY_WIDTH = 16
_SIGNER_WANTED = "SIGNER"


class What(enum.StrEnum):
    """The kinds of things that a job can wait for."""

    SIGNER = "signer"
    HOUR = "hour"
    JOB = "job"
    RELAYS = "relays"
    NETWORK = "network"
    PERSON = "person"


class Wait(msgspec.Struct, frozen=True):
    """What a job waits for: by kind for programs, in a word or two, and as a sentence."""

    what: What
    short: str
    text: str


class Around(msgspec.Struct, frozen=True):
    """What is known beside the job itself."""

    now: int
    accounts: Sequence[Account] = ()
    states: Mapping[int, JobState] = {}
    health: Mapping[str, RelayHealth] = {}


def waits_for_what(job: Job, around: Around) -> Wait | None:
    """The one thing that the job waits for; None where nothing more will happen to it."""
    if job.state is JobState.PARKED:
        return _for_auth(job, around) or _for_person(job)
    if job.is_finished:
        return None
    match job.state:
        case JobState.PENDING_SIGN:
            return _for_signer(job, around)
        case JobState.SCHEDULED:
            at = job.due_at if job.due_at is not None else around.now
            return Wait(What.HOUR, "its hour", f"It is scheduled for {when(at, around.now)}.")
        case JobState.PENDING_PUBLISH | JobState.PUBLISHED:
            return _for_jobs(job, around) or _for_relays(job, around)
        case _:
            return None


# -- signers -----------------------------------------------------------------------------------


class _Signing(NamedTuple):
    """Who signs for a job: in a word or two, in full, and what a person can do about it."""

    short: str
    who: str
    advice: str


def _signing(job: Job, around: Around) -> _Signing:
    account = next((known for known in around.accounts if known.pubkey == job.pubkey), None)
    if account is None:
        advice = "`postrich account import` or `postrich account connect` adds the account"
        return _Signing("a signer", f"a signer of {job.pubkey[:8]}…", advice)
    means = account.means or [Means.SECRET]  # the environment's account has its key there
    who = " or ".join(SPOKEN[one] for one in means)
    name = f" ({plain(account.name)})" if account.name else ""
    short_name = f" ({snippet(account.name, _NAME_WIDTH)})" if account.name else ""
    return _Signing(SPOKEN[means[-1]] + short_name, who + name, _advice(account))


def _advice(account: Account) -> str:
    if account.bunker is not None:
        return "`postrich serve` or `postrich sign --wait` waits for it"
    if account.key == "file":
        return "`postrich sign` asks for its passphrase"
    return "`postrich sign` signs it"


def _for_signer(job: Job, around: Around) -> Wait:
    short, who, advice = _signing(job, around)
    trouble = f" ({plain(job.error.message)})" if job.error else ""
    again = ""
    if job.next_at is not None and job.next_at > around.now:
        again = f"; next try {when(job.next_at, around.now)}"
    return Wait(What.SIGNER, short, f"It waits for {who} to sign it{trouble}{again}: {advice}.")


def _for_auth(job: Job, around: Around) -> Wait | None:
    """A relay wants to know who posts: goes on by itself as soon as a signer comes."""
    if job.error is None or job.error.code != _SIGNER_WANTED:
        return None
    short, who, advice = _signing(job, around)
    why = plain(job.error.message)
    text = f"It waits for {who} to tell the relay who you are ({why}): {advice}."
    return Wait(What.SIGNER, short, text)


# -- people ------------------------------------------------------------------------------------


def _for_person(job: Job) -> Wait:
    why = f" ({plain(job.error.message)})" if job.error else ""
    text = (
        f"It waits for you{why}: then run `postrich queue retry {job.id}`, "
        f"or `postrich queue cancel {job.id}`."
    )
    return Wait(What.PERSON, "you", text)


# -- jobs and relays ---------------------------------------------------------------------------


def _for_jobs(job: Job, around: Around) -> Wait | None:
    """Other jobs; a job that was sent on its way, or is about to be, waits for none."""
    if job.next_at is not None or job.state is JobState.PUBLISHED:
        return None
    unmet = [n for n in job.waits_for if around.states.get(n) is not JobState.PUBLISHED]
    if not unmet:
        return None
    named = " and ".join(_job_named(number, around) for number in unmet)
    short = f"job {unmet[0]}" if len(unmet) == 1 else count(len(unmet), "job")
    return Wait(What.JOB, short, f"It waits for {named}.")


def _job_named(number: int, around: Around) -> str:
    state = around.states.get(number)
    return f"job {number}, which is {state if state is not None else 'gone'}"


def _for_relays(job: Job, around: Around) -> Wait:
    waiting = [d for d in job.deliveries if d.state is DeliveryState.WAITING]
    names = ", ".join(relay_name(delivery.relay) for delivery in waiting)
    if waiting and all(_is_offline(delivery, around) for delivery in waiting):
        text = f"It waits for the network: none of its relays can be reached ({names})."
        return Wait(What.NETWORK, "the network", text)
    short = snippet(names, _RELAY_WIDTH) if len(waiting) == 1 else count(len(waiting), "relay")
    return Wait(What.RELAYS, short, f"It waits for {names or 'its relays'}.")


def _is_offline(delivery: Delivery, around: Around) -> bool:
    known = around.health.get(delivery.relay)
    return known is not None and known.state == "open" and known.detail.startswith(_NETWORK_FAULTS)
