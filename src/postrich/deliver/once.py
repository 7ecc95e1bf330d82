"""One event to some relays, now, without a store (C1): for scripts that keep nothing.

All relays at once, each with its own time; the truth per relay comes back as a value.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Iterable

import msgspec

from postrich.clock import SystemClock
from postrich.errors import InvalidEvent, SignerError
from postrich.model.delivery import Flight, Outcome, Parcel, Target, Verdict, event_frame
from postrich.model.event import Event, is_signed, refuse_kind
from postrich.rules.replies import fault_of
from postrich.rules.routing import fixed_plan
from postrich.rules.session import AuthRequest, Session
from postrich.sign.signer import Signer
from postrich.wire.connection import Connection


class RelayStatus(enum.StrEnum):
    """How it ended at one relay."""

    OK = "ok"
    ERROR = "error"
    TIMEOUT = "timeout"
    UNKNOWN = "unknown"
    REFUSED = "refused"
    PARKED = "parked"
    SKIPPED = "skipped"


class RelayResult(msgspec.Struct, frozen=True):
    """One relay's part of the truth."""

    status: RelayStatus
    code: str
    reason: str


class PublishResult(msgspec.Struct, frozen=True):
    """Every relay's answer. `any_success`: at least `threshold` relays have the event."""

    any_success: bool
    per_relay: dict[str, RelayResult]


_STATUS = {
    Outcome.DELIVERED: RelayStatus.OK,
    Outcome.SUPERSEDED: RelayStatus.SKIPPED,
    Outcome.RETRY: RelayStatus.ERROR,
    Outcome.AUTHENTICATE: RelayStatus.PARKED,
    Outcome.UNKNOWN: RelayStatus.UNKNOWN,
    Outcome.PARKED: RelayStatus.PARKED,
    Outcome.REFUSED: RelayStatus.REFUSED,
    Outcome.SKIPPED: RelayStatus.SKIPPED,
}


async def publish_to_relays(
    event: Event,
    relays: Iterable[str],
    *,
    patience: float = 10.0,
    threshold: int = 1,
    signer: Signer | None = None,
) -> PublishResult:
    """Send a signed event to every relay; `signer` is asked only where a relay wants AUTH."""
    refuse_kind(event.kind)
    if not is_signed(event):
        raise InvalidEvent("the signature is not the author's")
    targets = fixed_plan(relays, ())
    results = await asyncio.gather(*(_to_one(event, t, patience, signer) for t in targets))
    per_relay = dict(zip((target.url for target in targets), results, strict=True))
    oks = sum(result.status is RelayStatus.OK for result in results)
    return PublishResult(oks >= threshold, per_relay)


async def _to_one(
    event: Event, target: Target, patience: float, signer: Signer | None
) -> RelayResult:
    verdict = await _attempt(event, target.url, patience, None)
    if isinstance(verdict, RelayResult):
        return verdict
    if verdict.outcome is Outcome.AUTHENTICATE and signer and signer.pubkey == event.pubkey:
        again = await _attempt(event, target.url, patience, signer)
        if isinstance(again, RelayResult):
            return again
        verdict = again
    status = _STATUS[verdict.outcome]
    if verdict.code == "timeout":
        status = RelayStatus.TIMEOUT
    return RelayResult(status, verdict.code, verdict.text)


async def _attempt(
    event: Event, url: str, patience: float, signer: Signer | None
) -> Verdict | RelayResult:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Verdict] = loop.create_future()

    def on_progress(connection: Connection) -> None:
        for _, verdict in connection.session.outcomes:
            if not answer.done():
                answer.set_result(verdict)

    session = Session(url, patience, signer.pubkey if signer else None)
    try:
        link = await Connection.dial(session, on_progress, _authenticator(signer), patience)
    except Exception as problem:  # noqa: BLE001 - every fault of dialling is the relay's
        fault = fault_of(problem)
        is_late = fault.code == "timeout"
        status = RelayStatus.TIMEOUT if is_late else RelayStatus.ERROR
        return RelayResult(status, fault.code, fault.text)
    try:
        parcel = Parcel(
            0, event.id, event.pubkey, event.created_at, 0, 0, "", event_frame(event.raw)
        )
        session.publish(Flight(parcel, 0), loop.time())
        link.flush()
        return await answer
    finally:
        session.abandon()
        await link.close()


def _authenticator(signer: Signer | None):  # type: ignore[no-untyped-def]
    if signer is None:
        return None

    async def authenticate(request: AuthRequest) -> Event | Verdict:
        try:
            return await signer.sign(request.draft(signer.pubkey, SystemClock().now()))
        except SignerError as problem:
            return Verdict(Outcome.PARKED, "auth-required", f"AUTH was not signed: {problem}")

    return authenticate
