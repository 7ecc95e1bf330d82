"""`worker`, `workers`, `migrate` and `move`: an outbox that many work on, and where it is kept."""

from typing import Annotated

import typer

from postrich.doors.cli import options
from postrich.doors.cli.outset import home_of, run

migrate_app = typer.Typer(
    name="migrate",
    help="The store's schema: what it is, bring it up to date.",
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Put the commands into the app."""
    for command in (worker, workers, move):
        app.command()(command)
    app.add_typer(migrate_app)


def worker(
    ctx: typer.Context, verbose: options.Verbose = False, log_json: options.LogJson = False
) -> int:
    """Deliver until Ctrl-C, beside as many others as you like."""
    from postrich.doors.cli import serving

    return serving.work(home_of(ctx), verbose, log_json)


def workers(ctx: typer.Context, as_json: options.AsJson = False) -> int:
    """Who works on this outbox, and what each holds."""
    from postrich.doors.cli import crew_book

    return run(crew_book.show_workers(home_of(ctx), as_json))


def move(
    ctx: typer.Context,
    to: Annotated[
        str,
        typer.Option("--to", help="An empty place: postgresql://… or a file.", metavar="ADDRESS"),
    ],
    as_json: options.AsJson = False,
) -> int:
    """Copy the whole outbox to another place, and check the copy."""
    from postrich.doors.cli import moving

    return run(moving.move(home_of(ctx), to, as_json))


@migrate_app.callback(invoke_without_command=True)
def migrate(ctx: typer.Context, as_json: options.AsJson = False) -> int:
    if ctx.invoked_subcommand is None:
        return status(ctx, as_json)
    return 0


@migrate_app.command()
def status(ctx: typer.Context, as_json: options.AsJson = False) -> int:
    """Which schema the store has, and what is to be done."""
    from postrich.doors.cli import migrating

    return run(migrating.show(home_of(ctx), as_json))


@migrate_app.command()
def up(
    ctx: typer.Context,
    contract: Annotated[
        bool,
        typer.Option("--contract", help="Also take away what only older versions use."),
    ] = False,
    as_json: options.AsJson = False,
) -> int:
    """Apply what is pending."""
    from postrich.doors.cli import migrating

    return run(migrating.bring_up_to_date(home_of(ctx), contract, as_json))
