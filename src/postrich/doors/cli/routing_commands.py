"""`plan`, `lists` and `backfill`: where events go, and what these commands take."""

from typing import Annotated

import typer

from postrich.doors.cli import options
from postrich.doors.cli.outset import home_of, misuse, run

RATE = 20.0

PlanRelays = Annotated[
    list[str] | None,
    typer.Option("--relay", help="As if posted to this relay only (repeatable).", metavar="URL"),
]
PlanEvent = Annotated[
    str | None,
    typer.Option(
        "--event", help="A signed event instead of a note; - reads stdin.", metavar="FILE"
    ),
]


def register(app: typer.Typer) -> None:
    """Put the commands into the app."""
    for command in (plan, lists, backfill):
        app.command()(command)


def plan(
    ctx: typer.Context,
    text: options.Texts = None,
    file: options.TextFile = None,
    event: PlanEvent = None,
    job: Annotated[
        str | None, typer.Option(help="A job that is there already.", metavar="JOB")
    ] = None,
    account: options.As = None,
    relay: PlanRelays = None,
    kind: options.Kind = 1,
    tag: options.Tags = None,
    check: Annotated[
        bool, typer.Option("--check", help="Ask each relay what it takes (NIP-11).")
    ] = False,
    as_json: options.AsJson = False,
) -> int:
    """Where a note or event would go, and why. Sends and keeps nothing."""
    from postrich.doors.cli import planning, posting

    is_note = bool(text or file or tag or kind != 1 or account)
    if sum((is_note, event is not None, job is not None)) > 1:
        raise misuse("give one of: a note with its options, --event, or --job")
    if job is not None and relay:
        raise misuse("a job has its relays already: give no --relay with --job")
    note = None
    if event is None and job is None:
        note = posting.Note(posting.read_text(text or [], file, kind), kind, tag or [])
    wish = planning.Wish(note, event, job, account, tuple(relay or ()), check)
    return run(planning.show_plan(home_of(ctx), wish, as_json))


def lists(
    ctx: typer.Context,
    person: Annotated[
        str,
        typer.Argument(metavar="PERSON", help="An npub, hex key, name@domain, or your account."),
    ],
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Look again, however fresh what is known.")
    ] = False,
    as_json: options.AsJson = False,
) -> int:
    """The relay lists that somebody published."""
    from postrich.doors.cli import directory

    return run(directory.show_lists(home_of(ctx), person, refresh, as_json))


def backfill(
    ctx: typer.Context,
    relay: Annotated[str, typer.Argument(metavar="RELAY", help="The relay that shall have them.")],
    author: Annotated[
        str | None,
        typer.Option(help="Whose events: an account or npub; without it yours.", metavar="WHO"),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--from", help="Read from this relay (repeatable), not the author's.", metavar="URL"
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(help="Nothing older: 2024-05-31, 30d, 12h or a Unix time.", metavar="WHEN"),
    ] = None,
    kinds: Annotated[
        str | None, typer.Option(help="Only these kinds: 1,6,30023.", metavar="KINDS")
    ] = None,
    rate: Annotated[
        float, typer.Option(help="At most that many events a second.", min=0.1, metavar="N")
    ] = RATE,
    again: Annotated[
        bool, typer.Option("--again", help="From the beginning, whatever was copied before.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the relay has answered for each.")
    ] = False,
    as_json: options.AsJson = False,
) -> int:
    """Copy past events to another relay; goes on where it was stopped."""
    from postrich.doors.cli import backfilling

    wish = backfilling.Wish(relay, author, tuple(source or ()), since, kinds, rate, again, wait)
    return run(backfilling.backfill(home_of(ctx), wish, as_json))
