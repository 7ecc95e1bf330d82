"""The commands and what they take. Each imports what it needs when it is run."""

from typing import Annotated

import typer

from postrich.doors.cli import options
from postrich.doors.cli.outset import home_of, run

WAIT = 20.0


def register(app: typer.Typer) -> None:
    """Put the commands into the app, in the order of a beginner's day."""
    for command in (init, post, status, why, serve, doctor, version):
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
        bool, typer.Option("--no-key", help="Make no key: signed events only, or POSTRICH_NSEC.")
    ] = False,
) -> int:
    """Make a home with settings and an encrypted key."""
    from postrich.doors.cli import setting_up

    return setting_up.init(home_of(ctx), relay or [], import_key, no_key)


def post(
    ctx: typer.Context,
    text: options.Texts = None,
    file: options.TextFile = None,
    event: options.EventFile = None,
    relay: options.Relays = None,
    kind: options.Kind = 1,
    tag: options.Tags = None,
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
        if text or file or tag or kind != 1:
            raise posting.event_alone()
        return posting.post_events(home_of(ctx), event, wishes, manner)
    note = posting.Note(posting.read_text(text or [], file, kind), kind, tag or [])
    return run(posting.post_note(home_of(ctx), note, wishes, manner))


def status(ctx: typer.Context, as_json: options.AsJson = False) -> int:
    """What waits, how the relays are, and who delivers."""
    from postrich.doors.cli import standing

    return run(standing.show_status(home_of(ctx), as_json))


def why(ctx: typer.Context, job: options.Job, as_json: options.AsJson = False) -> int:
    """The whole story of a job, and what it waits for."""
    from postrich.doors.cli import story

    return run(story.tell(home_of(ctx), job, as_json))


def serve(
    ctx: typer.Context,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log every attempt.")] = False,
    log_json: Annotated[bool, typer.Option("--log-json", help="Log as JSON lines.")] = False,
    demo: Annotated[
        bool, typer.Option("--demo", help="Show it all at work on this machine, with a toy key.")
    ] = False,
) -> int:
    """Deliver until Ctrl-C."""
    if demo:
        from postrich.doors.cli.demo import run_demo

        return run(run_demo())
    from postrich.doors.cli import serving

    return serving.serve(home_of(ctx), verbose, log_json)


def doctor(ctx: typer.Context, as_json: options.AsJson = False) -> int:
    """Check the home, the clock, the key and the relays."""
    from postrich.doors.cli.doctor import examine

    return run(examine(home_of(ctx), as_json))


def version() -> int:
    """Show the version."""
    return say_version()


def say_version() -> int:
    from postrich import __version__

    typer.echo(f"postrich {__version__}")
    return 0
