"""`postrich relays …` and what its commands take."""

from typing import Annotated

import typer

from postrich.doors.cli import options
from postrich.doors.cli.commands import WAIT
from postrich.doors.cli.outset import home_of, misuse, run

app = typer.Typer(
    help="The relays: yours, those of your lists, how they are.", rich_markup_mode=None
)

Url = Annotated[str, typer.Argument(metavar="URL", help="A relay, such as wss://relay.example.")]
Refresh = Annotated[bool, typer.Option("--refresh", help="Look your relay lists up now.")]
Anyway = Annotated[
    bool, typer.Option("--anyway", help="Also if your present list cannot be read now.")
]


@app.callback(invoke_without_command=True)
def relays(ctx: typer.Context, refresh: Refresh = False, as_json: options.AsJson = False) -> int:
    if ctx.invoked_subcommand is not None:
        if refresh or as_json:
            raise misuse(f"options of `relays {ctx.invoked_subcommand}` come after its name")
        return 0
    return list_relays(ctx, refresh, as_json)


@app.command("list")
def list_relays(
    ctx: typer.Context, refresh: Refresh = False, as_json: options.AsJson = False
) -> int:
    """All relays that are known here, and how they are."""
    from postrich.doors.cli import relay_book

    return run(relay_book.show_relays(home_of(ctx), refresh, as_json))


@app.command()
def show(ctx: typer.Context, url: Url, as_json: options.AsJson = False) -> int:
    """One relay: what it says of itself, how it is, what waits for it."""
    from postrich.doors.cli import relay_book

    return run(relay_book.show_relay(home_of(ctx), url, as_json))


@app.command()
def add(ctx: typer.Context, url: Url, as_json: options.AsJson = False) -> int:
    """Make a relay one of yours, in postrich.toml."""
    from postrich.doors.cli import relay_book

    return relay_book.add_relay(home_of(ctx), url, as_json)


@app.command()
def remove(ctx: typer.Context, url: Url, as_json: options.AsJson = False) -> int:
    """Take a relay out of postrich.toml."""
    from postrich.doors.cli import relay_book

    return relay_book.remove_relay(home_of(ctx), url, as_json)


@app.command()
def block(
    ctx: typer.Context,
    url: Url,
    account: options.As = None,
    anyway: Anyway = False,
    wait: options.Wait = WAIT,
    no_wait: options.NoWait = False,
    as_json: options.AsJson = False,
) -> int:
    """Block a relay: publishes a new version of your list of blocked relays."""
    return _change_block(ctx, url, True, account, anyway, 0.0 if no_wait else wait, as_json)


@app.command()
def unblock(
    ctx: typer.Context,
    url: Url,
    account: options.As = None,
    anyway: Anyway = False,
    wait: options.Wait = WAIT,
    no_wait: options.NoWait = False,
    as_json: options.AsJson = False,
) -> int:
    """Take a relay off your list of blocked relays, and publish that."""
    return _change_block(ctx, url, False, account, anyway, 0.0 if no_wait else wait, as_json)


def _change_block(
    ctx: typer.Context,
    url: str,
    block: bool,
    account: str | None,
    anyway: bool,
    wait: float,
    as_json: bool,
) -> int:
    from postrich.doors.cli import blocking

    wish = blocking.Wish(url, block, account, anyway, wait)
    return run(blocking.change_block(home_of(ctx), wish, as_json))
