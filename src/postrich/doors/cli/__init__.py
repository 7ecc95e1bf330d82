"""The command line: `postrich …`.

Promises: stdout carries answers only (`--json`: one document), stderr one sentence per error,
exit codes 0 published, 3 queued, 1 failed, 2 usage; never a traceback unless asked, never a
secret. `--help` loads nothing but typer: what works is imported by the command that needs it.
"""


def main() -> None:
    """The console script."""
    from postrich.doors.cli.app import main as run

    run()
