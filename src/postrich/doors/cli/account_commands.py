"""`postrich account …` and what its commands take."""

from typing import Annotated

import typer

from postrich.doors.cli import options
from postrich.doors.cli.outset import home_of, misuse, run

WAIT = 300.0

app = typer.Typer(help="Who posts here, and how each signs.", rich_markup_mode=None)

Name = Annotated[str, typer.Option(help="What to call the account.", metavar="NAME")]
Default = Annotated[bool, typer.Option("--default", help="It posts when no account is named.")]
Keyring = Annotated[
    bool, typer.Option("--keyring", help="Keep the key in the keyring, without a passphrase.")
]
Check = Annotated[bool, typer.Option("--check", help="Ask bunkers whether they are there.")]
Account = Annotated[
    str, typer.Argument(metavar="ACCOUNT", help="A name, npub, or the start of a hex key.")
]


@app.callback(invoke_without_command=True)
def account(ctx: typer.Context, check: Check = False, as_json: options.AsJson = False) -> int:
    if ctx.invoked_subcommand is not None:
        if check or as_json:
            raise misuse(f"options of `account {ctx.invoked_subcommand}` come after its name")
        return 0
    return list_accounts(ctx, check, as_json)


@app.command("list")
def list_accounts(ctx: typer.Context, check: Check = False, as_json: options.AsJson = False) -> int:
    """The accounts, the default first."""
    from postrich.doors.cli.account_book import show_accounts

    return run(show_accounts(home_of(ctx), check, as_json))


@app.command()
def add(
    ctx: typer.Context,
    name: Name = "",
    keyring: Keyring = False,
    default: Default = False,
    as_json: options.AsJson = False,
) -> int:
    """A new account, with a new key."""
    from postrich.doors.cli import adding

    name = adding.checked_name(name)
    return adding.add(home_of(ctx), adding.new_key(keyring), name, default, as_json)


@app.command("import")
def import_key(
    ctx: typer.Context,
    name: Name = "",
    keyring: Keyring = False,
    default: Default = False,
    as_json: options.AsJson = False,
) -> int:
    """An account of yours: asks for its key, or reads stdin."""
    from postrich.doors.cli import adding

    name = adding.checked_name(name)
    return adding.add(home_of(ctx), adding.imported_key(keyring), name, default, as_json)


@app.command()
def connect(
    ctx: typer.Context,
    surplus: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    bunker: Annotated[
        bool, typer.Option("--bunker", help="Take a bunker:// address from a prompt or from stdin.")
    ] = False,
    relay: Annotated[
        list[str] | None,
        typer.Option("--relay", help="Meet your signer here (repeatable).", metavar="URL"),
    ] = None,
    name: Name = "",
    default: Default = False,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for your signer.", min=1, metavar="SECONDS")
    ] = WAIT,
    as_json: options.AsJson = False,
) -> int:
    """An account whose key stays in your bunker or signer app (NIP-46)."""
    from postrich.doors.cli import adding, connecting

    if surplus:
        raise connecting.secret_argument()
    terms = connecting.Terms(adding.checked_name(name), default, wait, as_json)
    if not bunker:
        return run(connecting.connect_by_invitation(home_of(ctx), relay or [], terms))
    if relay:
        raise misuse("a bunker's address names its relays: give no --relay with --bunker")
    return run(connecting.connect_by_address(home_of(ctx), terms))


@app.command()
def remove(
    ctx: typer.Context,
    account: Account,
    only: Annotated[
        str | None,
        typer.Option(help="Only this way to sign: secret or nip46.", metavar="MEANS"),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: options.AsJson = False,
) -> int:
    """Forget an account and delete its key; its drafts stay."""
    from postrich.doors.cli import removing

    return run(removing.remove(home_of(ctx), account, only, yes, as_json))


@app.command()
def default(ctx: typer.Context, account: Account, as_json: options.AsJson = False) -> int:
    """Post as this account when none is named."""
    from postrich.doors.cli import adding

    return adding.make_default(home_of(ctx), account, as_json)
