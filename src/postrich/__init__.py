"""Postrich: a durable outbox for Nostr."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from postrich.accept import Options
    from postrich.config import Settings
    from postrich.deliver.once import PublishResult, publish_to_relays
    from postrich.errors import PostrichError
    from postrich.model.event import Draft, Event, make_draft, parse_event
    from postrich.model.job import Job, JobFilter, JobState, Priority, QueueStatus, RetryPolicy
    from postrich.model.series import Missed, Occurrence, Series, Template, Terms
    from postrich.outbox import Handle, Outbox
    from postrich.sign.secret import SecretSigner, parse_secret

__all__ = [
    "Draft",
    "Event",
    "Handle",
    "Job",
    "JobFilter",
    "JobState",
    "Missed",
    "Occurrence",
    "Options",
    "Outbox",
    "PostrichError",
    "Priority",
    "PublishResult",
    "QueueStatus",
    "RetryPolicy",
    "SecretSigner",
    "Series",
    "Settings",
    "Template",
    "Terms",
    "make_draft",
    "parse_event",
    "parse_secret",
    "publish_to_relays",
]

_HOMES = {
    "accept": ("Options",),
    "config": ("Settings",),
    "deliver.once": ("PublishResult", "publish_to_relays"),
    "errors": ("PostrichError",),
    "model.event": ("Draft", "Event", "make_draft", "parse_event"),
    "model.job": ("Job", "JobFilter", "JobState", "Priority", "QueueStatus", "RetryPolicy"),
    "model.series": ("Missed", "Occurrence", "Series", "Template", "Terms"),
    "outbox": ("Handle", "Outbox"),
    "sign.secret": ("SecretSigner", "parse_secret"),
}


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is asked for: `postrich --help` needs none of it."""
    import importlib

    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"postrich.{home}"), name)
    raise AttributeError(f"module 'postrich' has no attribute {name!r}")
