"""Opening the keys of accounts: with what the environment gives, or what a person types.

Promises: one passphrase is tried on every file before another is asked for; a passphrase from
the environment that opens nothing is an error; what stays shut is named with the reason, and
keeps nobody else from signing.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from postrich.doors.cli.keys import (
    PASSPHRASE,
    Locked,
    ask_until_right,
    called,
    check_encrypted,
    given_passphrase,
    somebody_is_there,
    unlock,
)
from postrich.errors import KeyProblem
from postrich.sign.accounts import Account, Accounts
from postrich.sign.secret import SecretSigner


class Locksmith:
    """Opens keys. `opened` are those of files and keyring that are open, by account; `shut`
    says why others are not."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._passphrases: list[str] = []
        self.opened: dict[str, SecretSigner] = {}
        self.shut: dict[str, str] = {}

    def open(self, account: Account) -> SecretSigner:
        """One account's key, by all means; `Locked` where nobody can be asked."""
        if account.key == "keyring":
            return self._from_keyring(account)
        self._check(account)
        return unlock(partial(self._accounts.unlock, account), self.whose(account))

    def open_all(self, accounts: Iterable[Account], *, may_ask: bool) -> None:
        """Open what can be opened; a person may leave out what they will not open."""
        files = []
        for account in accounts:
            try:
                if account.key == "keyring":
                    self._note(account, self._from_keyring(account))
                elif account.key == "file":
                    self._check(account)
                    files.append(account)
            except KeyProblem as problem:
                self.shut[account.pubkey] = str(problem)
        remaining = self._try_given(files)
        if may_ask and somebody_is_there():
            self._ask_for(remaining)

    def open_quietly(self, account: Account) -> None:
        """Open a key that came later, by a passphrase that opened another one."""
        try:
            if account.key == "keyring":
                self._note(account, self._from_keyring(account))
                return
            self._check(account)
            for passphrase in self._passphrases:
                self._try(passphrase, [account])
        except KeyProblem as problem:
            self.shut[account.pubkey] = str(problem)
        if account.pubkey not in self.opened:
            self.shut.setdefault(account.pubkey, "its passphrase is not known here")

    def forget(self, pubkey: str) -> None:
        """The key is not kept any more."""
        self.opened.pop(pubkey, None)
        self.shut.pop(pubkey, None)

    # -- inside ------------------------------------------------------------------------------

    def _check(self, account: Account) -> None:
        """A file that no passphrase can open is no reason to ask for one."""
        path = self._accounts.key_file(account.pubkey)
        if not path.is_file():
            raise KeyProblem(f"{path} is gone: import the key again")
        check_encrypted(path.read_text("utf-8", "replace"), str(path))

    def whose(self, account: Account) -> str:
        """The key in question, for people: by name where there are several."""
        is_only = len(self._accounts.all()) == 1
        return "your key" if is_only and not account.name else f"the key of {called(account)}"

    def _from_keyring(self, account: Account) -> SecretSigner:
        try:
            return self._accounts.unlock(account, None)
        except KeyProblem as problem:
            raise Locked(str(problem)) from None

    def _note(self, account: Account, signer: SecretSigner) -> None:
        self.opened[account.pubkey] = signer
        self.shut.pop(account.pubkey, None)

    def _try_given(self, files: list[Account]) -> list[Account]:
        """Try the passphrase of the environment; those that it does not open."""
        given = given_passphrase()
        if given is None:
            for account in files:
                self.shut[account.pubkey] = f"it is locked, and {PASSPHRASE} is not set"
            return files
        remaining = self._try(given.text, files)
        if files and len(remaining) == len(files):
            keys = " nor ".join(self.whose(account) for account in files)
            raise KeyProblem(f"the passphrase is wrong: {given.source} does not open {keys}")
        for account in remaining:
            self.shut[account.pubkey] = f"{given.source} does not open it"
        return remaining

    def _try(self, passphrase: str, files: list[Account]) -> list[Account]:
        remaining = []
        for account in files:
            try:
                self._note(account, self._accounts.unlock(account, passphrase))
            except KeyProblem:
                remaining.append(account)
        if len(remaining) < len(files) and passphrase not in self._passphrases:
            self._passphrases.append(passphrase)
        return remaining

    def _ask_for(self, files: list[Account]) -> None:
        while files:
            first, *files = files
            prompt = f"Passphrase of {self.whose(first)} (empty: go on without it): "
            if ask_until_right(partial(self._open_by, first), prompt) is None:
                self.shut[first.pubkey] = "its passphrase was not given"
            else:
                files = self._try(self._passphrases[-1], files)

    def _open_by(self, account: Account, passphrase: str) -> SecretSigner:
        signer = self._accounts.unlock(account, passphrase)
        self._note(account, signer)
        self._passphrases.append(passphrase)
        return signer
