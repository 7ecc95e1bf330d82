"""Lets the verbs' plain code wait for asyncpg, on the event loop and without a thread.

The verbs are written once, for SQLite's threads and for this: their code runs in a greenlet, and
where it asks the database, the coroutine that carries it awaits the answer (docs/decisions/0013).
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from greenlet import getcurrent, greenlet

T = TypeVar("T")


async def carry(plain: Callable[[], T]) -> T:
    """Run plain code that may call `wait`; other tasks go on meanwhile."""
    code = greenlet(plain)
    step: Any = code.switch()
    while not code.dead:
        try:
            answer = await step
        except BaseException:  # noqa: BLE001 - it belongs to the code that waits
            step = code.throw(*sys.exc_info())
        else:
            step = code.switch(answer)
    return cast("T", step)


def wait(awaitable: Awaitable[T]) -> T:
    """The awaitable's result; only within `carry`."""
    return cast("T", getcurrent().parent.switch(awaitable))
