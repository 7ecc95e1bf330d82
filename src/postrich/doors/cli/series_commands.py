"""`postrich schedule series …` and what its commands take."""

from typing import Annotated

import typer

from postrich.doors.cli import options
from postrich.doors.cli.outset import home_of, run

app = typer.Typer(help="Recurring posts; `schedule add --every` makes them.", rich_markup_mode=None)

As = Annotated[
    str | None,
    typer.Option(
        "--as", "--account", help="The account: a name, npub, or hex key.", metavar="ACCOUNT"
    ),
]
Id = Annotated[str, typer.Argument(metavar="ID", help="The series' id.")]


@app.callback(invoke_without_command=True)
def series(ctx: typer.Context) -> int:
    return list_series(ctx) if ctx.invoked_subcommand is None else 0


@app.command("list")
def list_series(
    ctx: typer.Context,
    account: As = None,
    everything: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
    as_json: options.AsJson = False,
) -> int:
    """Your series, and when each happens next."""
    from postrich.doors.cli import series_book

    return run(series_book.show_list(home_of(ctx), account, everything, as_json))


@app.command()
def show(ctx: typer.Context, name: Id, as_json: options.AsJson = False) -> int:
    """One series and its next occurrences."""
    from postrich.doors.cli import series_book

    return run(series_book.show_series(home_of(ctx), name, as_json))


@app.command()
def pause(ctx: typer.Context, name: Id, as_json: options.AsJson = False) -> int:
    """Stop a series until `resume`."""
    return _move(ctx, name, "pause", as_json)


@app.command()
def resume(ctx: typer.Context, name: Id, as_json: options.AsJson = False) -> int:
    """Go on with a series; what passed meanwhile is not made up for."""
    return _move(ctx, name, "resume", as_json)


@app.command()
def end(ctx: typer.Context, name: Id, as_json: options.AsJson = False) -> int:
    """End a series for good."""
    return _move(ctx, name, "end", as_json)


def _move(ctx: typer.Context, name: str, deed: str, as_json: bool) -> int:
    from postrich.doors.cli import series_book

    return run(series_book.move(home_of(ctx), name, deed, as_json))


@app.command()
def skip(
    ctx: typer.Context,
    name: Id,
    at: Annotated[
        str | None, typer.Option(help="Which one; else the next.", metavar="TIME")
    ] = None,
    zone: Annotated[
        str | None, typer.Option(help="Time zone of --at; else the series' own.", metavar="ZONE")
    ] = None,
    as_json: options.AsJson = False,
) -> int:
    """Leave one occurrence out."""
    from postrich.doors.cli import hours, series_book

    where = None if zone is None else hours.zone_meant(zone)
    return run(series_book.skip(home_of(ctx), name, at, where, as_json))
