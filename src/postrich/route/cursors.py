"""How far a backfill has come, in small files: one for each author, target, source and choice.

Promises: a file is replaced whole or not at all; two backfills that differ never write the same
one. What cannot be read counts as not there: the copying begins anew, which harms nothing.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

import msgspec


class Key(msgspec.Struct, frozen=True):
    """Which copying is meant; `since` as its owner said it."""

    author: str
    relay: str
    source: str
    kinds: tuple[int, ...] = ()
    since: str = ""


class Cursor(msgspec.Struct, frozen=True):
    """Seconds. `newest`: all up to there was copied. `until`: a sweep has come down to there
    from `top`, and is not at its end."""

    newest: int | None = None
    until: int | None = None
    top: int | None = None


class _Record(msgspec.Struct, frozen=True):
    key: Key
    cursor: Cursor


class Cursors:
    """The cursors in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, key: Key) -> Cursor:
        try:
            record = msgspec.json.decode(self._path(key).read_bytes(), type=_Record)
        except (OSError, msgspec.DecodeError, UnicodeError, RecursionError):
            return Cursor()
        return record.cursor if record.key == key else Cursor()

    def save(self, key: Key, cursor: Cursor) -> None:
        path = self._path(key)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        half = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            with half.open("wb") as file:
                file.write(msgspec.json.encode(_Record(key, cursor)) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            half.replace(path)
        finally:
            half.unlink(missing_ok=True)

    def _path(self, key: Key) -> Path:
        name = hashlib.sha256(msgspec.json.encode(key)).hexdigest()[:24]
        return self._folder / f"{name}.json"
