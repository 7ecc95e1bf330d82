"""The options that commands share, each described once. Imports typer only."""

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of text.")]
Job = Annotated[
    str, typer.Argument(metavar="JOB", help="A job's number, event id (or its start), or note1….")
]
Jobs = Annotated[
    list[str] | None,
    typer.Argument(metavar="[JOB]...", help="Numbers, event ids (or their starts), or note1…."),
]
Wait = Annotated[
    float, typer.Option(help="Seconds to wait for news of relays.", min=0, metavar="SECONDS")
]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Do not wait for relays.")]

As = Annotated[
    str | None,
    typer.Option("--as", help="The account: a name, npub, or hex key.", metavar="ACCOUNT"),
]

Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log every attempt.")]
LogJson = Annotated[bool, typer.Option("--log-json", help="Log as JSON lines.")]

# -- what to post ------------------------------------------------------------------------------

Texts = Annotated[
    list[str] | None, typer.Argument(metavar="[TEXT]...", help="The note; - reads stdin.")
]
TextFile = Annotated[
    Path | None, typer.Option("--file", help="Post this file's text.", metavar="FILE")
]
EventFile = Annotated[
    str | None,
    typer.Option(
        "--event", help="Signed events: JSON, or JSONL for many; - reads stdin.", metavar="FILE"
    ),
]
Relays = Annotated[
    list[str] | None,
    typer.Option("--relay", help="Only to this relay (repeatable).", metavar="URL"),
]
Kind = Annotated[int, typer.Option(help="The event's kind.", min=0, max=65_535)]
Tags = Annotated[
    list[str] | None,
    typer.Option(
        "--tag", help='name=value, or \'["name","value",…]\' (repeatable).', metavar="TAG"
    ),
]
Pow = Annotated[
    str | None,
    typer.Option(
        "--pow", help="Proof of work: bits, or `relays` for what they ask for.", metavar="BITS"
    ),
]
Priority = Annotated[
    str, typer.Option(help="urgent, normal, later or bulk.", metavar="WORD", show_default=True)
]
Policy = Annotated[str | None, typer.Option(help="Retry policy by name.", metavar="NAME")]
Goal = Annotated[int | None, typer.Option(help="Published once that many relays have it.", min=1)]
After = Annotated[
    list[str] | None,
    typer.Option("--after", help="Only after this job is published (repeatable).", metavar="JOB"),
]
Key = Annotated[
    str | None, typer.Option(help="Idempotency key: the same key twice is one job.", metavar="TEXT")
]

# -- which jobs --------------------------------------------------------------------------------

States = Annotated[
    list[str] | None,
    typer.Option("--state", help="Only jobs in this state (repeatable).", metavar="STATE"),
]
AtRelay = Annotated[
    str | None, typer.Option("--relay", help="Only jobs that go to this relay.", metavar="URL")
]
OfKind = Annotated[int | None, typer.Option("--kind", help="Only events of this kind.")]
OpenOnly = Annotated[bool, typer.Option("--open", help="Only what is not finished.")]
Limit = Annotated[int, typer.Option(help="At most that many.", min=1)]
Watch = Annotated[bool, typer.Option("--watch", help="Keep showing it until Ctrl-C.")]
Everything = Annotated[bool, typer.Option("--all", help="All jobs that this can be done to.")]
