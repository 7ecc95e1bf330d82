"""The SQL of one dialect, read from its `.sql` files once."""

from __future__ import annotations

import functools
from importlib import resources


@functools.cache
def queries(dialect: str) -> dict[str, str]:
    """Name → SQL text of every verb file."""
    folder = resources.files("postrich.store").joinpath("sql", dialect)
    return {
        entry.name.removesuffix(".sql"): entry.read_text("utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".sql")
    }


@functools.cache
def migrations(dialect: str) -> dict[int, str]:
    """Number → SQL text of every migration, in order."""
    folder = resources.files("postrich.store").joinpath("sql", dialect, "migrations")
    texts = {
        int(entry.name.split("_", 1)[0]): entry.read_text("utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".sql")
    }
    return dict(sorted(texts.items()))
