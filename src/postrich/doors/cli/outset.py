"""What every command starts from: the global options, the home, the exit codes, the loop.

Loads nothing heavy: even `--help` imports this.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from postrich.doors.cli.home import Home

PUBLISHED = 0
FAILED = 1
USAGE = 2
QUEUED = 3
INTERRUPTED = 130


@dataclass
class Outset:
    """The options before the command's name."""

    home_option: Path | None = None
    debug: bool = False


def home_of(ctx: typer.Context) -> Home:
    """The home that this command line means."""
    from postrich.doors.cli.home import Home, default_home

    chosen = ctx.ensure_object(Outset).home_option
    return Home(chosen.expanduser() if chosen else default_home())


def tune() -> None:
    """Set the interpreter for the engine, in a process that is ours alone.

    It makes many short-lived objects and no cycles: looking for cycles less often makes it a
    tenth faster. The writer thread needs the lock for moments only: so does handing it over
    sooner than after 5 ms.
    """
    gc.set_threshold(50_000, 20, 100)
    sys.setswitchinterval(0.0002)


def run(work: Coroutine[Any, Any, int]) -> int:
    """Run a command's work to its exit code, on uvloop where there is one."""
    tune()
    try:
        import uvloop
    except ImportError:  # there is none for Windows
        import asyncio

        return asyncio.run(work)
    return uvloop.run(work)


def misuse(message: str, option: str | None = None) -> typer.BadParameter:
    """The error for a command line that cannot be understood (exit code 2)."""
    if option is None:
        return _Misuse(message)
    return typer.BadParameter(message, param_hint=option)


class _Misuse(typer.BadParameter):
    def format_message(self) -> str:
        return self.message
