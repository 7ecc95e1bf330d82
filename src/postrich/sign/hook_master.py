"""Where the master secret of hooks is: in the environment, or in a file of the home (F6).

Promises: it is made when the first hook is, and only then; its file is its owner's alone, and made
whole or not at all, by one process whoever else tries. No text repeats it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from postrich.errors import BadSetting, KeyProblem
from postrich.rules.hooks import check_master

VARIABLE = "POSTRICH_HOOKS_SECRET"
FILE = "hooks.secret"


class HookMaster:
    """One home's master secret. `folder`: None where there is no home, hence no file."""

    def __init__(self, folder: Path | None, environment: Mapping[str, str] = os.environ) -> None:
        self._file = None if folder is None else folder / FILE
        self._environment = environment
        self._found: bytes | None = None

    def find(self) -> bytes | None:
        """The secret, if there is one; `BadSetting` or `KeyProblem` where it is no good."""
        if self._found is None:
            if text := self._environment.get(VARIABLE):
                self._found = check_master(text)
            elif self._file is not None:
                self._found = _read(self._file)
        return self._found

    def need(self) -> bytes:
        """The secret, made now where there is none."""
        found = self.find()
        if found is None:
            if self._file is None:
                raise BadSetting(f"hooks are signed: set {VARIABLE}, to the same for all workers")
            _make(self._file)
            found = self.find()
            assert found is not None
        return found

    def __repr__(self) -> str:
        return "HookMaster(…)"


def _read(path: Path) -> bytes | None:
    try:
        return check_master(path.read_text("ascii"))
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise KeyProblem(f"{path} cannot be read: {problem.strerror}") from None
    except (BadSetting, UnicodeDecodeError):
        raise KeyProblem(f"{path} is damaged: the secrets of all hooks came from it") from None


def _make(path: Path) -> None:
    """Whoever is first makes it; all others find it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        handle = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(half, path)
    finally:
        half.unlink(missing_ok=True)
