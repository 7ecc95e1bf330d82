"""The commands and what they take. Each imports what it needs when it is run."""

import math
from typing import Annotated

import typer

from postrich.doors.cli import options
from postrich.doors.cli.outset import home_of, misuse, run

WAIT = 20.0


def register(app: typer.Typer) -> None:
    """Put the commands into the app, in the order of a beginner's day."""
    for command in (init, post, sign, status, why, serve, doctor, version):
        app.command()(command)


def init(
    ctx: typer.Context,
    relay: Annotated[
        list[str] | None,
        typer.Option("--relay", help="A relay of yours (repeatable).", metavar="URL"),
    ] = None,
    import_key: Annotated[
        bool, typer.Option("--import", help="Take your own key from a prompt or from stdin.")
    ] = False,
    no_key: Annotated[
        bool,
        typer.Option("--no-key", help="Make no key: a bunker, POSTRICH_NSEC, or signed events."),
    ] = False,
    keyring: Annotated[
        bool, typer.Option("--keyring", help="Keep the key in the keyring, without a passphrase.")
    ] = False,
    name: Annotated[str, typer.Option(help="What to call the account.", metavar="NAME")] = "",
    store: Annotated[
        str,
        typer.Option(help="Where to keep it: postgresql://… or a file.", metavar="ADDRESS"),
    ] = "",
) -> int:
    """Make a home with settings and an encrypted key."""
    from postrich.doors.cli import setting_up

    wish = setting_up.KeyWish(import_key, no_key, keyring, name)
    return setting_up.init(home_of(ctx), relay or [], wish, store)


def post(
    ctx: typer.Context,
    text: options.Texts = None,
    file: options.TextFile = None,
    event: options.EventFile = None,
    account: options.As = None,
    relay: options.Relays = None,
    kind: options.Kind = 1,
    tag: options.Tags = None,
    pow_bits: options.Pow = None,
    priority: options.Priority = "normal",
    policy: options.Policy = None,
    goal: options.Goal = None,
    after: options.After = None,
    key: options.Key = None,
    wait: options.Wait = WAIT,
    no_wait: options.NoWait = False,
    as_json: options.AsJson = False,
) -> int:
    """Keep a note or signed events, and deliver them."""
    from postrich.doors.cli import posting

    wishes = posting.Wishes(relay or [], priority, policy, goal, after or [], key)
    manner = posting.Manner(0.0 if no_wait else wait, as_json)
    if event is not None:
        if text or file or tag or kind != 1 or account or pow_bits:
            raise posting.event_alone()
        return posting.post_events(home_of(ctx), event, wishes, manner)
    content = posting.read_text(text or [], file, kind)
    note = posting.Note(content, kind, tag or [], pow_bits)
    return run(posting.post_note(home_of(ctx), note, account, wishes, manner))


def sign(
    ctx: typer.Context,
    wait: Annotated[bool, typer.Option("--wait", help="Stay until all of it is signed.")] = False,
    within: Annotated[
        float | None,
        typer.Option(help="Seconds to wait for signers.", min=0, metavar="SECONDS"),
    ] = None,
    account: options.As = None,
    as_json: options.AsJson = False,
) -> int:
    """Sign the drafts that wait, with your keys and bunkers."""
    from postrich.doors.cli import signing

    if wait and within is not None:
        raise misuse("--wait and --within exclude each other")
    patience = math.inf if wait else within
    return run(signing.sign(home_of(ctx), patience, account, as_json))


def status(ctx: typer.Context, as_json: options.AsJson = False) -> int:
    """What waits, who signs, how the relays are, and who delivers."""
    from postrich.doors.cli import standing

    return run(standing.show_status(home_of(ctx), as_json))


def why(ctx: typer.Context, job: options.Job, as_json: options.AsJson = False) -> int:
    """The whole story of a job, and what it waits for."""
    from postrich.doors.cli import story

    return run(story.tell(home_of(ctx), job, as_json))


def serve(
    ctx: typer.Context,
    verbose: options.Verbose = False,
    log_json: options.LogJson = False,
    listen: Annotated[
        str,
        typer.Option(
            "--listen", help="Where the HTTP service listens; else as set.", metavar="ADDRESS:PORT"
        ),
    ] = "",
    no_http: Annotated[bool, typer.Option("--no-http", help="Deliver only, no HTTP.")] = False,
    demo: Annotated[
        bool, typer.Option("--demo", help="Show it all at work on this machine, with a toy key.")
    ] = False,
) -> int:
    """Deliver, and serve the HTTP API, until Ctrl-C."""
    if demo:
        from postrich.doors.cli.demo import run_demo

        return run(run_demo())
    from postrich.doors.cli import serving

    return serving.serve(home_of(ctx), verbose, log_json, None if no_http else listen)


def doctor(ctx: typer.Context, as_json: options.AsJson = False) -> int:
    """Check the home, the clock, the accounts and the relays."""
    from postrich.doors.cli.doctor import examine

    return run(examine(home_of(ctx), as_json))


def version() -> int:
    """Show the version."""
    return say_version()


def say_version() -> int:
    from postrich import __version__

    typer.echo(f"postrich {__version__}")
    return 0
