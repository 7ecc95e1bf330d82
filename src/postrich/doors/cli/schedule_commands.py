"""`postrich schedule …` and what its commands take."""

from typing import Annotated

import typer

from postrich.doors.cli import options, series_commands
from postrich.doors.cli.outset import home_of, misuse, run

app = typer.Typer(help="Posts for later: add, look, change, call off.", rich_markup_mode=None)
slots_app = typer.Typer(
    help="Weekly grids of times; a post can take the next free one.", rich_markup_mode=None
)
app.add_typer(slots_app, name="slots")
app.add_typer(series_commands.app, name="series")

As = Annotated[
    str | None,
    typer.Option(
        "--as", "--account", help="The account: a name, npub, or hex key.", metavar="ACCOUNT"
    ),
]
Zone = Annotated[
    str | None,
    typer.Option(help="Such as Europe/Berlin; else this machine's.", metavar="ZONE"),
]
Id = Annotated[str, typer.Argument(metavar="ID", help="The post's id, job number or event id.")]
Grid = Annotated[str, typer.Argument(metavar="NAME", help="What the grid is called.")]
Rows = Annotated[
    str | None,
    typer.Option("--format", help="jsonl or csv; else the file tells.", metavar="FORMAT"),
]


@app.callback(invoke_without_command=True)
def schedule(ctx: typer.Context) -> int:
    return list_posts(ctx) if ctx.invoked_subcommand is None else 0


@app.command()
def add(
    ctx: typer.Context,
    text: options.Texts = None,
    at: Annotated[
        str | None,
        typer.Option(help='When: "tomorrow 9:00", "in 2 hours", 2026-05-31T09:00.', metavar="TIME"),
    ] = None,
    zone: Zone = None,
    slot: Annotated[
        str | None, typer.Option(help="In the next free slot of this grid.", metavar="NAME")
    ] = None,
    next_slot: Annotated[
        bool, typer.Option("--next-slot", help="In the next free slot of your only grid.")
    ] = False,
    every: Annotated[
        str | None,
        typer.Option(
            help='Repeat: "every weekday 09:00", "every 2 hours", or cron.', metavar="RHYTHM"
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="With --every: the last day or time.", metavar="TIME")
    ] = None,
    count: Annotated[int | None, typer.Option(help="With --every: how many times.", min=1)] = None,
    name: Annotated[
        str, typer.Option("--id", help="A name of your own for it.", metavar="NAME")
    ] = "",
    file: options.TextFile = None,
    event: Annotated[
        str | None,
        typer.Option("--event", help="A signed event's JSON; - reads stdin.", metavar="FILE"),
    ] = None,
    account: As = None,
    relay: options.Relays = None,
    kind: options.Kind = 1,
    tag: options.Tags = None,
    priority: options.Priority = "normal",
    policy: options.Policy = None,
    goal: options.Goal = None,
    as_json: options.AsJson = False,
) -> int:
    """Schedule a note or a signed event, once or again and again."""
    from postrich.doors.cli import hours, posting, scheduling, series_book

    if slot is not None and next_slot:
        raise misuse("--slot and --next-slot exclude each other: give one of them")
    slot = "" if next_slot else slot
    hour = scheduling.Hour(at, slot, hours.zone_meant(zone))
    wishes = posting.Wishes(relay or [], priority, policy, goal, [], None)
    home = home_of(ctx)
    if every is None:
        if until is not None or count is not None:
            raise misuse("--until and --count end a series: say --every with them")
        hour.check()
    else:
        series_book.check_alone(at, slot, event)
    if event is not None:
        if text or file or tag or kind != 1 or account:
            raise misuse("--event brings a whole event: no text, --file, --kind, --tag or --as")
        return run(scheduling.add_event(home, event, hour, name, wishes, as_json))
    note = posting.Note(posting.read_text(text or [], file, kind), kind, tag or [])
    if every is not None:
        rhythm = series_book.Rhythm(every, until, count, hour.zone)
        return run(series_book.add_series(home, note, account, rhythm, name, wishes, as_json))
    return run(scheduling.add_note(home, note, account, hour, name, wishes, as_json))


@app.command("list")
def list_posts(
    ctx: typer.Context,
    account: As = None,
    zone: Zone = None,
    everything: Annotated[bool, typer.Option("--all", help="Also posts that are over.")] = False,
    as_json: options.AsJson = False,
) -> int:
    """Posts to come, the next first."""
    from postrich.doors.cli import hours, schedule_book

    where = hours.zone_meant(zone)
    return run(schedule_book.show_list(home_of(ctx), account, where, everything, as_json))


@app.command()
def show(
    ctx: typer.Context,
    post: Id,
    account: As = None,
    zone: Zone = None,
    as_json: options.AsJson = False,
) -> int:
    """One post: its event, and how it stands at each relay."""
    from postrich.doors.cli import hours, schedule_book

    where = hours.zone_meant(zone)
    return run(schedule_book.show_post(home_of(ctx), post, account, where, as_json))


@app.command()
def edit(
    ctx: typer.Context,
    post: Id,
    at: Annotated[str | None, typer.Option(help="The new hour.", metavar="TIME")] = None,
    zone: Zone = None,
    text: Annotated[str | None, typer.Option(help="The new text.", metavar="TEXT")] = None,
    event: Annotated[
        str | None,
        typer.Option(help="The new signed event's JSON; - reads stdin.", metavar="FILE"),
    ] = None,
    account: As = None,
    as_json: options.AsJson = False,
) -> int:
    """Change a post's hour, text or event, until it is on its way."""
    from postrich.doors.cli import hours, scheduling

    where = hours.zone_meant(zone)
    return run(
        scheduling.edit(
            home_of(ctx), post, account, at=at, text=text, event=event, zone=where, as_json=as_json
        )
    )


@app.command()
def cancel(
    ctx: typer.Context,
    posts: Annotated[list[str], typer.Argument(metavar="ID...", help="The posts' ids.")],
    account: As = None,
    as_json: options.AsJson = False,
) -> int:
    """Call posts off: all of them, or none if one is on its way already."""
    from postrich.doors.cli import scheduling

    return run(scheduling.cancel(home_of(ctx), posts, account, as_json))


@app.command("import")
def import_posts(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSONL or CSV; - reads stdin.")],
    rows: Rows = None,
    zone: Annotated[
        str | None, typer.Option(help="Time zone of times that do not say theirs.", metavar="ZONE")
    ] = None,
    account: As = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would become of each line.")
    ] = False,
    as_json: options.AsJson = False,
) -> int:
    """Schedule a file of posts; running it again changes nothing."""
    from postrich.doors.cli import hours, schedule_files

    kind = schedule_files.format_meant(rows, file)
    where = None if zone is None else hours.zone_meant(zone)
    return run(
        schedule_files.import_posts(
            home_of(ctx), file, kind, account, zone=where, dry_run=dry_run, as_json=as_json
        )
    )


@app.command("export")
def export_posts(
    ctx: typer.Context,
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="Where to; else stdout.")
    ] = None,
    rows: Rows = None,
    account: As = None,
) -> int:
    """Write all posts to come, for `schedule import` or a spreadsheet."""
    from postrich.doors.cli import schedule_files

    kind = schedule_files.format_meant(rows, file)
    return run(schedule_files.export_posts(home_of(ctx), file, kind, account))


@app.command()
def sweep(ctx: typer.Context, as_json: options.AsJson = False) -> int:
    """Send what the alarm lost sight of; there should be nothing."""
    from postrich.doors.cli import scheduling

    return run(scheduling.sweep(home_of(ctx), as_json))


# -- slots -------------------------------------------------------------------------------------


@slots_app.callback(invoke_without_command=True)
def slots(ctx: typer.Context) -> int:
    return list_slots(ctx) if ctx.invoked_subcommand is None else 0


@slots_app.command("list")
def list_slots(ctx: typer.Context, account: As = None, as_json: options.AsJson = False) -> int:
    """Your grids, and their next free slots."""
    from postrich.doors.cli import slot_book

    return run(slot_book.show_grids(home_of(ctx), account, as_json))


@slots_app.command("set")
def set_slots(
    ctx: typer.Context,
    name: Grid,
    grid: Annotated[
        str, typer.Argument(metavar="GRID", help='Such as "mon,wed 09:00 18:00; sat 10:30".')
    ],
    zone: Zone = None,
    account: As = None,
    as_json: options.AsJson = False,
) -> int:
    """Make or change a grid; posts that are scheduled stay as they are."""
    from postrich.doors.cli import hours, slot_book

    where = hours.zone_meant(zone)
    return run(slot_book.set_grid(home_of(ctx), name, grid, where, account, as_json))


@slots_app.command("remove")
def remove_slots(
    ctx: typer.Context, name: Grid, account: As = None, as_json: options.AsJson = False
) -> int:
    """Forget a grid; posts that are scheduled stay as they are."""
    from postrich.doors.cli import slot_book

    return run(slot_book.drop_grid(home_of(ctx), name, account, as_json))


@slots_app.command("next")
def next_slots(
    ctx: typer.Context,
    name: Grid,
    number: Annotated[int, typer.Option("--count", help="How many.", min=1, max=1000)] = 5,
    account: As = None,
    as_json: options.AsJson = False,
) -> int:
    """The next free slots of a grid."""
    from postrich.doors.cli import slot_book

    return run(slot_book.show_free(home_of(ctx), name, number, account, as_json))
