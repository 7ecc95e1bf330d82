"""Every error that leaves Postrich, in one tree that says whose fault it is.

Refusals of the ordinary kind (a relay said no, a signer is away) are values, not exceptions.
An error's text is one sentence for a person and never holds a secret.
"""

from __future__ import annotations


class PostrichError(Exception):
    """The root: catch this to catch everything that Postrich raises on purpose."""


class CallerError(PostrichError):
    """What was asked for cannot be done as asked; nothing was stored."""


class InvalidEvent(CallerError):
    """The event or draft breaks the protocol's rules; the text names the field."""


class RefusedKind(CallerError):
    """The event is well formed, but of a kind that must never be published or queued."""


class UnknownJob(CallerError):
    """No job has that number, event id or prefix."""


class UnknownHook(CallerError):
    """No hook has that id, or none of its messages has."""


class UnknownSeries(CallerError):
    """No series has that name, or it does not happen then."""


class IllegalMove(CallerError):
    """The job's or series' state does not allow this action."""


class Conflict(CallerError):
    """What was asked for contradicts what is kept already; the text says what that is."""


class ChangedMeanwhile(IllegalMove):
    """Somebody else changed it between our look and our act: look again, then act."""


class SlotTaken(Conflict):
    """Another post of the author is due at that very time."""


class UnknownGrid(CallerError):
    """The author has no weekly grid of that name."""


class TooLate(IllegalMove):
    """The job is on its way already: what was asked for cannot be promised any more."""


class QuotaExceeded(CallerError):
    """So many may wait at once, and so many do. `retry_after`: seconds until one less does."""

    def __init__(self, text: str, retry_after: int) -> None:
        super().__init__(text)
        self.retry_after = retry_after


class TooOften(CallerError):
    """Too many requests. `retry_after`: seconds until the next one is taken."""

    def __init__(self, text: str, retry_after: float) -> None:
        super().__init__(text)
        self.retry_after = retry_after


class Forbidden(CallerError):
    """Who asks is known, and may not do this."""


class BadSetting(CallerError):
    """A setting has a value that cannot work; the text names it."""


class InvalidTime(CallerError):
    """A time, time zone or weekly grid cannot be understood, or lies in the past."""


class InvalidRecurrence(CallerError):
    """A recurrence cannot be understood, or would never happen."""


class NotAuthorised(CallerError):
    """A request does not show who makes it (NIP-98); the text says what is wrong."""


class StoreError(PostrichError):
    """The store could not do its work: disk, file, lock or schema."""


class StoreFull(StoreError):
    """The disk or the database's quota is full; nothing of the failed call was kept."""


class StoreBusy(StoreError):
    """Others kept the file or the database busy for longer than we wait."""


class StoreAway(StoreError):
    """The database cannot be reached; what was asked may or may not have been kept: ask again."""


class StoreUnusable(StoreError):
    """The file or database is not an outbox, refuses us, or was made by a newer Postrich."""


class LeaseLost(StoreError):
    """Another worker holds this lane now; the results that came with the call were not written."""


class AlreadyServed(StoreError):
    """Another `postrich serve` works on this outbox."""


class SignerError(PostrichError):
    """A signer did not sign. `code` is one of the stable codes of requirement A5."""

    code = "SIGNER_UNAVAILABLE"
    #: Asking again changes nothing before a person has acted.
    needs_person = False


class SignerUnavailable(SignerError):
    """No signer for this account can be reached now."""


class SignerRejected(SignerError):
    """The person said no."""

    code = "USER_REJECTED"
    needs_person = True


class UnknownClient(SignerRejected):
    """The bunker does not know us any more: it must be connected to anew."""


class SignerFault(SignerError):
    """The signer answered with something else than what it was asked for."""

    code = "SIGNER_FAULT"
    needs_person = True


class SignerTimeout(SignerError):
    """The signer did not answer in time."""

    code = "TIMEOUT"


class KeyProblem(PostrichError):
    """A key file or key text cannot be used: wrong passphrase, wrong form, not there."""


class RelayError(PostrichError):
    """A relay could not be reached or broke the protocol."""


class ForbiddenRelay(RelayError, OSError):
    """A stranger named a relay that leads where strangers may not send us.

    To those who try one address after the other it is one that cannot be connected to.
    """


class JobFailed(PostrichError):
    """Raised to who waits for a job that ended without being published."""
