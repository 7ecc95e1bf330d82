"""The home: the one folder that holds all state of an outbox.

Promises: nothing is kept anywhere else, but for a store that the owner has put elsewhere (`store`
in the settings); the folder is its owner's alone; one `serve` at a time works in it, and its lock
is the kernel's, so that a killed one leaves nothing behind.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from postrich.config import Settings, read_settings, read_store
from postrich.errors import AlreadyServed, BadSetting
from postrich.outbox import Outbox
from postrich.sign.accounts import Accounts
from postrich.sign.signer import Signer
from postrich.store.places import Place, place_of

LOCK_TRIES = 5
LOCK_PAUSE = 0.02


def default_home() -> Path:
    """Where the platform keeps what programs know."""
    from platformdirs import user_data_path

    return user_data_path("postrich", appauthor=False)


@dataclass(frozen=True)
class Home:
    """A folder and the files in it."""

    path: Path

    def place(self) -> Place:
        """Where the outbox is kept: a file, this home's own unless told otherwise, or a database.

        Raises `BadSetting` where the settings do not say so in a way that can be read.
        """
        return place_of(read_store(self.settings_file, os.environ), self.path)

    @property
    def settings_file(self) -> Path:
        return self.path / "postrich.toml"

    @property
    def accounts(self) -> Accounts:
        return Accounts(self.path)

    @property
    def lock_file(self) -> Path:
        return self.path / "serve.lock"

    def settings(self) -> Settings:
        """The owner's settings, the environment's over them."""
        return read_settings(self.settings_file, os.environ)

    def make(self) -> None:
        """Make the folder, for its owner's eyes only."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def has_store(self) -> bool:
        """Whether there is a file to look into; of a database one knows only when it is opened."""
        place = self.place()
        return place.is_postgres or place.path.is_file()

    def check(self) -> None:
        """Refuse to look at an outbox that is not there, rather than make an empty one.

        A database is asked when it is opened (`looking`).
        """
        if self.has_store():
            return
        if (place := self.place()).path.parent == self.path:
            raise BadSetting(f"there is no outbox in {self.path} yet: `postrich init` makes one")
        raise _no_outbox(place)

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[Outbox]:
        """The outbox, to look at and to change; it delivers nothing."""
        self.check()
        settings, place = self.settings(), self.place()
        if place.is_postgres:
            await check_database(place)
        async with Outbox.open(
            place.text, settings=settings, deliver=False, home=self.path
        ) as outbox:
            yield outbox

    @asynccontextmanager
    async def working(self, role: str, signers: Iterable[Signer] = ()) -> AsyncIterator[Outbox]:
        """The outbox with its engine running, and those who sign."""
        self.make()
        settings, place = self.settings(), self.place()
        async with Outbox.open(place.text, settings=settings, role=role, home=self.path) as outbox:
            for signer in signers:
                outbox.add_signer(signer)
            yield outbox

    # -- who serves --------------------------------------------------------------------------

    @contextmanager
    def serve_lock(self) -> Iterator[None]:
        """Be the one `serve` of this home, or `AlreadyServed`."""
        self.make()
        with self.lock_file.open("a+b") as file:
            if not _lock(file.fileno(), fcntl.LOCK_EX, LOCK_TRIES):
                raise AlreadyServed(
                    f"another `postrich serve` (pid {self._noted_pid() or 'unknown'}) "
                    f"already works in {self.path}"
                )
            file.truncate(0)
            file.write(str(os.getpid()).encode())
            file.flush()
            yield

    def serving_pid(self) -> int | None:
        """The process that serves this home; 0 where its number is not known yet."""
        try:
            with self.lock_file.open("rb") as file:
                if _lock(file.fileno(), fcntl.LOCK_SH, 1):
                    return None
        except OSError:
            return None
        return self._noted_pid()

    def _noted_pid(self) -> int:
        text = self.lock_file.read_bytes()
        return int(text) if text.isdigit() else 0


async def check_database(place: Place) -> None:
    """Refuse to look at a database that has no outbox yet."""
    from postrich.store.schema import schema_status

    if (await schema_status(place)).version == 0:
        raise _no_outbox(place)


def _no_outbox(place: Place) -> BadSetting:
    return BadSetting(f"there is no outbox at {place.shown} yet: `postrich migrate up` makes one")


def _lock(handle: int, kind: int, tries: int) -> bool:
    """Take the lock. Who looks holds it for a moment too, so that one failure proves nothing."""
    for attempt in range(tries):
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt + 1 < tries:
                time.sleep(LOCK_PAUSE)
        else:
            return True
    return False
