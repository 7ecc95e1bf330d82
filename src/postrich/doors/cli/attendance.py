"""The signers of a `serve`: all accounts of the home, in step with `accounts.json`.

Promises: who is added, connected or removed while it runs is attached or detached within
seconds; a key that stays locked is named once, and holds up nobody else.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import structlog

from postrich.doors.cli.keys import called, npub_of
from postrich.doors.cli.roster import Roster
from postrich.errors import KeyProblem
from postrich.outbox import Outbox
from postrich.sign.accounts import Account
from postrich.sign.chooser import SPOKEN, Means
from postrich.sign.signer import Signer

LOOK_EVERY = 1.0


class _Present(NamedTuple):
    """A signer that is attached, and by what one sees that it is another one now."""

    mark: object
    signer: Signer


class Attendance:
    """Attaches signers to an outbox. `roster` has opened the keys that it could."""

    def __init__(self, outbox: Outbox, roster: Roster, log: structlog.stdlib.BoundLogger) -> None:
        self._outbox = outbox
        self._roster = roster
        self._log = log
        self._seen: tuple[int, int] | None = None
        self._present: dict[tuple[str, Means], _Present] = {}
        self._missed: dict[tuple[str, Means], str] = {}

    async def keep(self) -> None:
        """Stay in step until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            try:
                await self.look()
            except OSError as problem:
                self._log.error("accounts", trouble=f"{problem.filename}: {problem.strerror}")

    async def look(self) -> None:
        """One look: attach who came, detach who left."""
        version = self._roster.accounts.version
        if version == self._seen:
            return
        self._seen = version
        try:
            accounts = self._roster.everyone()
        except KeyProblem as problem:
            self._log.error("accounts", trouble=str(problem))
            return
        wanted = {(a.pubkey, means): a for a in accounts for means in self._means_of(a)}
        for place in [place for place in self._present if place not in wanted]:
            self._leave(*place)
        for place in [place for place in self._missed if place not in wanted]:
            self._forget(*place)
        for (_, means), account in wanted.items():
            await self._come(account, means)

    @property
    def is_empty(self) -> bool:
        return not self._present

    def _means_of(self, account: Account) -> list[Means]:
        return account.means or [Means.SECRET]  # the environment's account has its key there

    def _leave(self, pubkey: str, means: Means) -> None:
        gone = self._present.pop((pubkey, means))
        self._outbox.remove_signer(gone.signer)
        self._forget(pubkey, means)
        self._log.info("account", account=npub_of(pubkey), signs=f"no more by {SPOKEN[means]}")

    def _forget(self, pubkey: str, means: Means) -> None:
        self._missed.pop((pubkey, means), None)
        if means is Means.SECRET:
            self._roster.locksmith.forget(pubkey)

    async def _come(self, account: Account, means: Means) -> None:
        place = account.pubkey, means
        try:
            mark = self._mark(account, means)
            if place in self._present and self._present[place].mark == mark:
                return
            signer = await self._signer_of(account, means)
        except (KeyProblem, OSError) as problem:
            self._miss(account, means, str(problem))
            return
        self._present[place] = _Present(mark, signer)
        self._missed.pop(place, None)
        self._outbox.add_signer(signer)
        self._log.info(
            "account",
            name=called(account),
            account=npub_of(account.pubkey),
            signs=f"by {SPOKEN[means]}",
        )

    def _mark(self, account: Account, means: Means) -> object:
        if means is Means.SECRET:
            return account.key
        found = self._roster.accounts.bunker_file(account.pubkey).stat()
        return account.bunker, found.st_mtime_ns, found.st_ino

    async def _signer_of(self, account: Account, means: Means) -> Signer:
        roster = self._roster
        if means is Means.NIP46:
            return roster.accounts.bunker_signer(account)
        if roster.environment is not None and roster.environment.pubkey == account.pubkey:
            return roster.environment
        smith = roster.locksmith
        if account.pubkey not in smith.opened and account.pubkey not in smith.shut:
            await asyncio.to_thread(smith.open_quietly, account)
        if account.pubkey not in smith.opened:
            raise KeyProblem(smith.shut[account.pubkey])
        return smith.opened[account.pubkey]

    def _miss(self, account: Account, means: Means, why: str) -> None:
        place = account.pubkey, means
        if self._missed.get(place) != why:
            self._missed[place] = why
            self._log.warning(
                f"drafts wait for {SPOKEN[means]}",
                name=called(account),
                account=npub_of(account.pubkey),
                trouble=why,
            )
