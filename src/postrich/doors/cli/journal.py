"""The log of `serve`: structlog on stderr, for people or as JSON lines (B11).

Promises: every line passes the redactor, so that no secret reaches a log (B7).
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog
from structlog.typing import EventDict

from postrich.rules.redact import redact

_SHARED: list[Any] = [
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.stdlib.PositionalArgumentsFormatter(),
]


def open_journal(verbose: bool, as_json: bool) -> None:
    """From now on, what Postrich logs goes to stderr."""
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(as_json))
    root = logging.getLogger("postrich")
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    root.propagate = False


def _formatter(as_json: bool) -> logging.Formatter:
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0)
    )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_SHARED,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _without_secrets,
            renderer,
        ],
    )


def _without_secrets(_logger: object, _method: str, entry: EventDict) -> EventDict:
    for name, value in entry.items():
        if isinstance(value, str) and name != "exception":
            entry[name] = redact(value)
    if "exception" in entry:
        lines = str(entry["exception"]).splitlines()
        entry["exception"] = "\n".join(redact(line) for line in lines)
    return entry
