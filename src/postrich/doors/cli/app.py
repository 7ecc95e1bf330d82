"""The command line's frame: global options, and what becomes of errors and exit codes.

Must never let an exception out: whatever happens ends in a sentence and a code.
"""

import contextlib
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from postrich.doors.cli import (
    account_commands,
    commands,
    queue_commands,
    relay_commands,
    routing_commands,
    schedule_commands,
    store_commands,
)
from postrich.doors.cli.outset import FAILED, INTERRUPTED, USAGE, Outset

app = typer.Typer(
    help="A durable outbox for Nostr: it keeps your notes and delivers them "
    "until every relay has said so.",
    add_completion=False,
    rich_markup_mode=None,  # rich's help takes longer to load than all of --help may
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
commands.register(app)
routing_commands.register(app)
store_commands.register(app)
app.add_typer(account_commands.app, name="account")
app.add_typer(queue_commands.app, name="queue")
app.add_typer(relay_commands.app, name="relays")
app.add_typer(schedule_commands.app, name="schedule")


@app.callback(invoke_without_command=True)
def frame(
    ctx: typer.Context,
    home: Annotated[
        Path | None,
        typer.Option(help="Where everything is kept.", envvar="POSTRICH_HOME", metavar="DIR"),
    ] = None,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks.", envvar="POSTRICH_DEBUG")
    ] = False,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> int:
    outset = ctx.ensure_object(Outset)
    outset.home_option = home
    outset.debug = debug
    if version:
        commands.say_version()
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())
    return 0


def main() -> None:
    """Run `postrich` with this process's arguments."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    sys.exit(carry_out(sys.argv[1:]))


def carry_out(arguments: list[str]) -> int:
    """Run one command line; its exit code."""
    outset = Outset()
    try:
        code = app(arguments, prog_name="postrich", standalone_mode=False, obj=outset)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        _abandon_stdout()
        return FAILED
    except Exception as problem:  # noqa: BLE001 - people get a sentence, whatever it was
        return _explain(problem, outset.debug)
    return code if isinstance(code, int) else 0


def _explain(problem: Exception, debug: bool) -> int:
    """Say what went wrong in one sentence; the exit code that goes with it."""
    from postrich.rules.redact import redact

    if debug:
        import traceback

        for line in "".join(traceback.format_exception(problem)).splitlines():
            indent = line[: len(line) - len(line.lstrip())]
            typer.echo(indent + redact(line), err=True)
    code, sentence = _sentence_of(problem)
    typer.echo(f"postrich: {redact(sentence)}", err=True)
    return code


def _sentence_of(problem: Exception) -> tuple[int, str]:
    from postrich.errors import PostrichError

    if (spoken := getattr(problem, "format_message", None)) is not None:
        return USAGE, _usage_sentence(problem, spoken())
    if isinstance(problem, PostrichError):
        return FAILED, str(problem)
    if isinstance(problem, OSError) and problem.strerror and problem.filename:
        return FAILED, f"{problem.filename}: {problem.strerror}"
    kind = type(problem).__name__
    return FAILED, f"unexpected {kind}: {problem}; run `postrich --debug …` for details"


def _usage_sentence(problem: Exception, text: str) -> str:
    context = getattr(problem, "ctx", None)
    path = context.command_path if context is not None else "postrich"
    return f"{text.rstrip('.')}; see `{path} --help`"


def _abandon_stdout() -> None:
    """Who read us has left: what is still buffered must not complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
