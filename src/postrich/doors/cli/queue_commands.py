"""`postrich queue …` and what its commands take."""

from typing import Annotated

import typer

from postrich.doors.cli import options
from postrich.doors.cli.commands import WAIT
from postrich.doors.cli.outset import home_of, misuse, run

app = typer.Typer(help="Look at the queue and change your mind.", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def queue(
    ctx: typer.Context,
    state: options.States = None,
    relay: options.AtRelay = None,
    kind: options.OfKind = None,
    open_only: options.OpenOnly = False,
    limit: options.Limit = 20,
    watch: options.Watch = False,
    as_json: options.AsJson = False,
) -> int:
    if ctx.invoked_subcommand is not None:
        if any((state, relay, kind is not None, open_only, limit != 20, watch, as_json)):
            raise misuse(f"options of `queue {ctx.invoked_subcommand}` come after its name")
        return 0
    return list_jobs(ctx, state, relay, kind, open_only, limit, watch, as_json)


@app.command("list")
def list_jobs(
    ctx: typer.Context,
    state: options.States = None,
    relay: options.AtRelay = None,
    kind: options.OfKind = None,
    open_only: options.OpenOnly = False,
    limit: options.Limit = 20,
    watch: options.Watch = False,
    as_json: options.AsJson = False,
) -> int:
    """The jobs, newest first."""
    from postrich.doors.cli import queueing, watching

    which = queueing.jobs_meant(state or [], relay, kind, open_only)
    if not watch:
        return run(queueing.show_list(home_of(ctx), which, limit, as_json))
    if as_json:
        raise misuse("--watch is for people and --json for programs: give one of them")
    return run(watching.watch(home_of(ctx), which, limit))


@app.command()
def show(ctx: typer.Context, job: options.Job, as_json: options.AsJson = False) -> int:
    """One job with its event and every relay."""
    from postrich.doors.cli import queueing

    return run(queueing.show_job(home_of(ctx), job, as_json))


@app.command()
def retry(
    ctx: typer.Context,
    jobs: options.Jobs = None,
    everything: options.Everything = False,
    state: options.States = None,
    relay: options.AtRelay = None,
    wait: options.Wait = WAIT,
    no_wait: options.NoWait = False,
    as_json: options.AsJson = False,
) -> int:
    """Try again now, whatever the backoff."""
    from postrich.doors.cli import deeds

    choice = deeds.Choice(jobs or [], everything, state or [], relay)
    return run(deeds.retry(home_of(ctx), choice, 0.0 if no_wait else wait, as_json))


@app.command()
def cancel(
    ctx: typer.Context,
    jobs: options.Jobs = None,
    everything: options.Everything = False,
    state: options.States = None,
    relay: options.AtRelay = None,
    as_json: options.AsJson = False,
) -> int:
    """Stop what is not published yet; it stays for its story."""
    from postrich.doors.cli import deeds

    choice = deeds.Choice(jobs or [], everything, state or [], relay)
    return run(deeds.cancel(home_of(ctx), choice, as_json))


@app.command()
def delete(
    ctx: typer.Context,
    jobs: options.Jobs = None,
    everything: options.Everything = False,
    state: options.States = None,
    relay: options.AtRelay = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: options.AsJson = False,
) -> int:
    """Remove finished jobs and their stories."""
    from postrich.doors.cli import deeds

    choice = deeds.Choice(jobs or [], everything, state or [], relay)
    return run(deeds.delete(home_of(ctx), choice, yes, as_json))
