"""What a scheduled post must be, as a function of the time (F2, F3, F5).

An event goes out with the `created_at` it was signed with. Relays refuse events from the future,
and readers sort by that time: it may not be after the hour at which the event goes out.
"""

from __future__ import annotations

from postrich.errors import CallerError, Conflict
from postrich.model.job import JobState

#: Clocks differ: what is due a minute ago by ours may be due now by the caller's.
TOLERANCE_MS = 60_000
#: Past that an hour is a slip.
FARTHEST_MS = 10 * 366 * 86_400_000
#: Times before 2001 in milliseconds are seconds that somebody forgot to multiply.
_SECONDS = 1_000_000_000_000
#: An event this much older than its hour appears where nobody looks any more.
STALE_S = 15 * 60

LONGEST_NAME = 200


class PastHour(CallerError):
    """The hour is over."""


def check_hour(due_at: int, now: int) -> int:
    """The hour in milliseconds, if something can be scheduled for it."""
    if due_at < now - TOLERANCE_MS:
        if due_at < _SECONDS <= due_at * 1000:
            raise PastHour(
                f"scheduledAt {due_at} looks like seconds: it must be in milliseconds since 1970"
            )
        raise PastHour("scheduledAt is in the past")
    if due_at > now + FARTHEST_MS:
        raise CallerError("scheduledAt is more than ten years ahead")
    return due_at


def check_created_at(created_at: int, due_at: int) -> None:
    """Refuse an event that would be from the future when it goes out."""
    if created_at * 1000 > due_at + TOLERANCE_MS:
        raise CallerError(
            f"the event's created_at ({created_at}) is after its hour ({due_at // 1000}): relays"
            " refuse events from the future; sign it with created_at at or before scheduledAt"
        )


def check_new_hour(created_at: int, due_at: int) -> str:
    """Whether a signed event may go out at another hour; returns what its owner should know."""
    if created_at * 1000 > due_at + TOLERANCE_MS:
        raise Conflict(
            f"the event is signed for {created_at} and cannot go out before that, at"
            f" {due_at // 1000}: send a new signed event whose created_at is the new time"
        )
    if due_at // 1000 - created_at > STALE_S:
        return (
            "the signature is kept, and with it the event's old created_at: readers will see it"
            " further down; send a new signed event to have it at the new time"
        )
    return ""


def check_name(name: str) -> str:
    """A post's id, if it may be one."""
    if not 0 < len(name) <= LONGEST_NAME:
        raise CallerError(f"id must have 1 to {LONGEST_NAME} characters")
    if any(ord(char) < 0x20 or char in "/?#" or ord(char) == 0x7F for char in name):
        raise CallerError("id may not contain control characters, '/', '?' or '#'")
    if name in RESERVED:
        raise CallerError(f"id may not be one of {', '.join(sorted(RESERVED))}")
    return name


#: Paths beside `/api/schedule/{id}`.
RESERVED = frozenset({".", "..", "status", "sweep", "bulk", "export", "import", "slots"})

_WORDS = {
    JobState.PENDING_SIGN: "pending",
    JobState.SCHEDULED: "pending",
    JobState.PENDING_PUBLISH: "pending",
    JobState.PARKED: "pending",
    JobState.PUBLISHED: "published",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "cancelled",
    JobState.SUPERSEDED: "cancelled",
}


def status_word(state: JobState) -> str:
    """A job's state in the words of the schedule API: pending, published, failed, cancelled."""
    return _WORDS[state]
