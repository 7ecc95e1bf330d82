"""What PostgreSQL and the way to it can do wrong, as errors of ours: one sentence each.

Never lets an exception of asyncpg out, nor anything that holds a password.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from postrich.errors import (
    PostrichError,
    StoreAway,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreUnusable,
)

#: Somebody else was in the way, or the schema was just extended, and nothing was done: the
#: transaction may simply be run again.
CONFLICTS = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.InvalidCachedStatementError,
)

#: The connection is gone or cannot be had.
_AWAY = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.IdleSessionTimeoutError,
    asyncpg.InternalClientError,  # a connection that lost its thread, as by a last word while idle
    OSError,
    EOFError,
)
_BUSY = (
    *CONFLICTS,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    TimeoutError,
)
_FULL = (asyncpg.DiskFullError, asyncpg.OutOfMemoryError, asyncpg.ConfigurationLimitExceededError)
_REFUSED = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidPasswordError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
)


def is_away(problem: BaseException) -> bool:
    """Whether the connection is the trouble, so that another one may do.

    asyncpg has no type of its own for the use of one that was lost meanwhile.
    """
    if isinstance(problem, asyncpg.InterfaceError):
        return any(word in str(problem) for word in ("closed", "closing", "released"))
    return isinstance(problem, _AWAY) and not isinstance(problem, TimeoutError)


def is_read_only(problem: BaseException) -> bool:
    return isinstance(problem, asyncpg.ReadOnlySQLTransactionError)


@contextmanager
def translated(shown: str) -> Iterator[None]:
    """Database faults as errors of ours; `shown` is the address without its password."""
    try:
        yield
    except PostrichError:
        raise
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, EOFError) as problem:
        raise _error(problem, shown) from None
    except asyncpg.InternalClientError as problem:
        raise _error(problem, shown) from None
    except UnicodeError:
        raise StoreError(f"{shown}: a text that cannot be written as UTF-8") from None


def _error(problem: Exception, shown: str) -> StoreError:
    if isinstance(problem, asyncpg.TooManyConnectionsError):
        return StoreAway(
            f"{shown} has no connection left; raise its max_connections or lower our pool_size"
        )
    if isinstance(problem, _BUSY):
        return StoreBusy(f"{shown} was busy for longer than we wait; try again")
    if isinstance(problem, _FULL):
        return StoreFull(f"no space is left for {shown}; free some and try again")
    if is_read_only(problem):
        return StoreUnusable(
            f"{shown} is read-only, as a standby is; give the address of the primary"
        )
    if isinstance(problem, _REFUSED):
        return StoreUnusable(f"{shown} does not let us in; check user, password, database, rights")
    if isinstance(problem, asyncpg.DataError | asyncpg.ClientConfigurationError):
        return StoreError(f"{shown}: a value or setting that PostgreSQL does not take")
    if is_away(problem):
        return StoreAway(f"{shown} cannot be reached now; check that it runs, then try again")
    code = getattr(problem, "sqlstate", None) or type(problem).__name__
    text = getattr(problem, "message", None) or "asyncpg cannot go on"
    return StoreError(f"{shown}: {text} ({code})")  # without details: those may show data
