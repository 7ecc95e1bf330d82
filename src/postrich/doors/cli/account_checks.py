"""The doctor's look at accounts: are their keys there, whole, and their owner's alone?

Promises: asks for no passphrase; what the environment gives is tried, since a wrong one would
be found out only when something must be signed.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec

from postrich.doors.cli.account_book import check_bunkers
from postrich.doors.cli.home import Home
from postrich.doors.cli.keys import (
    NSEC,
    OTHERS,
    PASSPHRASE,
    PASSPHRASE_FILE,
    Locked,
    called,
    check_encrypted,
    environment_signer,
    given_passphrase,
    npub_of,
)
from postrich.errors import KeyProblem
from postrich.sign.accounts import Account


class Check(msgspec.Struct, frozen=True):
    """One finding; `advice` says what to do where it is bad."""

    name: str
    ok: bool
    text: str
    advice: str = ""


async def check_accounts(home: Home) -> list[Check]:
    """Every account, every way it signs."""
    checks = _check_environment()
    try:
        accounts = home.accounts.all()
    except (KeyProblem, OSError) as problem:
        return [*checks, Check("accounts", False, str(problem), "put a backup in its place")]
    if not accounts and not os.environ.get(NSEC):
        advice = "run `postrich init` or `postrich account connect`; signed events need none"
        return [*checks, Check("accounts", False, "there is none", advice)]
    keys = [account for account in accounts if account.key is not None]
    checks += await asyncio.gather(*(asyncio.to_thread(_check_key, home, a) for a in keys))
    return checks + await _check_bunkers(home, accounts)


def _check_environment() -> list[Check]:
    checks = []
    if os.environ.get(PASSPHRASE) or os.environ.get(PASSPHRASE_FILE):
        try:
            given_passphrase()
        except KeyProblem as problem:
            checks.append(Check("passphrase", False, str(problem), "correct the file or its name"))
    if os.environ.get(NSEC):
        checks.append(_check_environment_key())
    return checks


def _check_environment_key() -> Check:
    name = f"key in {NSEC}"
    try:
        signer = environment_signer(may_ask=False)
    except Locked:
        return Check(name, True, "encrypted; its passphrase is asked for when it must sign")
    except KeyProblem as problem:
        return Check(name, False, str(problem), f"correct {NSEC} or its passphrase")
    assert signer is not None
    return Check(name, True, f"it is that of {npub_of(signer.pubkey)}")


def _check_key(home: Home, account: Account) -> Check:
    name = f"key of {called(account)}"
    if account.key == "keyring":
        try:
            home.accounts.unlock(account, None)
        except KeyProblem as problem:
            return Check(name, False, str(problem), "unlock the keyring, or import the key again")
        return Check(name, True, "in the keyring")
    path = home.accounts.key_file(account.pubkey)
    trouble = _check_file(name, path, "import the key again")
    return trouble or _check_lock(home, account, name, path)


def _check_file(name: str, path: Path, advice: str) -> Check | None:
    if not path.is_file():
        return Check(name, False, f"{path} is not there", f"put a backup in its place, or {advice}")
    if path.stat().st_mode & OTHERS:
        return Check(name, False, f"{path} can be read by others", f"run `chmod 600 {path}`")
    return None


def _check_lock(home: Home, account: Account, name: str, path: Path) -> Check:
    try:
        check_encrypted(path.read_text("utf-8", "replace"), path.name)
        given = given_passphrase()
    except KeyProblem as problem:
        return Check(name, False, str(problem), "put a backup in its place")
    if given is None:
        return Check(name, True, "encrypted, yours alone; locked until you give its passphrase")
    try:
        home.accounts.unlock(account, given.text)
    except KeyProblem:
        advice = "give the passphrase of this key, or run `postrich sign` where it can ask for it"
        return Check(name, False, f"{given.source} does not open it", advice)
    return Check(name, True, f"encrypted, yours alone; {given.source} opens it")


async def _check_bunkers(home: Home, accounts: list[Account]) -> list[Check]:
    with_bunker = [account for account in accounts if account.bunker is not None]
    troubles = await check_bunkers(home, with_bunker)
    return [_check_bunker(home, account, troubles[account.pubkey]) for account in with_bunker]


def _check_bunker(home: Home, account: Account, trouble: str) -> Check:
    name = f"bunker of {called(account)}"
    path = home.accounts.bunker_file(account.pubkey)
    bad = _check_file(name, path, "run `postrich account connect` again")
    if bad is not None:
        return bad
    if trouble:
        advice = "start it, or see to its relays; drafts wait meanwhile"
        return Check(name, False, trouble, advice)
    return Check(name, True, "it is there")
