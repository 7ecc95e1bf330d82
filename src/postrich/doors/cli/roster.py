"""Who posts here: the account of the environment first, then those of the home.

Promises: whoever can sign without being asked for is at hand; who cannot is named with the
reason. A key that is locked refuses no note: its drafts wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from postrich.doors.cli.home import Home
from postrich.doors.cli.keys import (
    NSEC,
    Locked,
    environment_pubkey,
    environment_signer,
    npub_of,
)
from postrich.doors.cli.locksmith import Locksmith
from postrich.errors import KeyProblem
from postrich.sign.accounts import Account
from postrich.sign.chooser import Means
from postrich.sign.secret import SecretSigner
from postrich.sign.signer import Signer


@dataclass(frozen=True)
class Author:
    """Who posts a note. `key`: it signs at once; else `bunker` is asked, or the draft waits."""

    account: Account
    key: SecretSigner | None = None
    bunker: Signer | None = None
    trouble: str = ""

    def signers(self, wait: float) -> list[Signer]:
        """Who is to be asked by somebody who waits so long for the answer."""
        asked = (self.key, self.bunker if wait > 0 else None)
        return [signer for signer in asked if signer is not None]


class Roster:
    """The accounts of a process, and the keys that it has opened."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self.accounts = home.accounts
        self.environment = environment_signer()
        self.locksmith = Locksmith(self.accounts)

    def everyone(self) -> list[Account]:
        """All accounts, the one that posts by default first."""
        pubkey = self.environment.pubkey if self.environment is not None else None
        return with_environment(self.accounts.all(), pubkey)

    def find(self, name: str | None) -> Account:
        """The account meant; without a name the default, or `KeyProblem` with what to do."""
        everyone = self.everyone()
        if name is not None:
            if self.environment is not None and _is_named(everyone[0], name):
                return everyone[0]
            return self.accounts.find(name)
        if not everyone:
            raise KeyProblem(
                f"there is no account in {self._home.path}: `postrich init` makes one, "
                f"`postrich account connect` uses your bunker's, or set {NSEC}"
            )
        return everyone[0]

    def author(self, name: str | None) -> Author:
        """Who posts, with what signs; a wrong passphrase is an error, a missing one is not."""
        account = self.find(name)
        if self._is_environment(account):
            return Author(account, self.environment)
        trouble = ""
        if account.key is not None:
            try:
                return Author(account, self.locksmith.open(account))
            except Locked as problem:
                trouble = str(problem)
        bunker = self.accounts.bunker_signer(account) if account.bunker else None
        return Author(account, None, bunker, trouble)

    def open_keys(self, accounts: Iterable[Account], *, may_ask: bool) -> None:
        """Open the keys of these accounts, as far as that is possible."""
        keys = [account for account in accounts if not self._is_environment(account)]
        self.locksmith.open_all(keys, may_ask=may_ask)

    def signers(self, accounts: Iterable[Account], *, may_ask: bool) -> list[Signer]:
        """All that can sign for these accounts; `locksmith.shut` says which keys cannot."""
        meant = list(accounts)
        self.open_keys(meant, may_ask=may_ask)
        found: list[Signer] = []
        for account in meant:
            if self.environment is not None and account.pubkey == self.environment.pubkey:
                found.append(self.environment)
            elif account.pubkey in self.locksmith.opened:
                found.append(self.locksmith.opened[account.pubkey])
            if account.bunker is not None:
                found += self._bunker_of(account)
        return found

    def _is_environment(self, account: Account) -> bool:
        return self.environment is not None and self.environment.pubkey == account.pubkey

    def _bunker_of(self, account: Account) -> list[Signer]:
        try:
            return [self.accounts.bunker_signer(account)]
        except KeyProblem as problem:
            self.locksmith.shut.setdefault(account.pubkey, str(problem))
            return []


def all_signers(home: Home, wait: float) -> list[Signer]:
    """Everybody who can sign here without a question.

    A bunker shows what it is asked to a person: not by who does not wait for the answer.
    """
    roster = Roster(home)
    found = roster.signers(roster.everyone(), may_ask=False)
    return [signer for signer in found if wait > 0 or signer.means is not Means.NIP46]


def known_accounts(home: Home) -> list[Account]:
    """All accounts as one can tell without opening anything, the default first."""
    return with_environment(home.accounts.all(), environment_pubkey())


def with_environment(accounts: list[Account], pubkey: str | None) -> list[Account]:
    """The environment's account before the others."""
    if pubkey is None:
        return accounts
    known = [account for account in accounts if account.pubkey == pubkey] or [Account(pubkey)]
    return known + [account for account in accounts if account.pubkey != pubkey]


def _is_named(account: Account, name: str) -> bool:
    """Whether that is its name, its npub, or the start of its hex key."""
    text = name.strip().lower()
    starts_so = len(text) >= 4 and account.pubkey.startswith(text)
    return starts_so or account.name == name or npub_of(account.pubkey) == text
