"""`account remove`: forget an account, or one way it signs.

Promises: what cannot be undone is asked for first, and says what would be lost; drafts are kept.
"""

from __future__ import annotations

import contextlib
import sys

import msgspec

from postrich.doors.cli.account_book import counted, drafts_of_home
from postrich.doors.cli.home import Home
from postrich.doors.cli.keys import called
from postrich.doors.cli.outset import misuse
from postrich.doors.cli.showing import doing, say, write_json
from postrich.errors import CallerError, KeyProblem
from postrich.sign.accounts import Account
from postrich.sign.chooser import Means

_OFFERED = (Means.SECRET, Means.NIP46)


async def remove(home: Home, name: str, only: str | None, yes: bool, as_json: bool) -> int:
    """Answer `postrich account remove`."""
    means = _means_of(only)
    account = home.accounts.find(name)
    if means is not None and means not in account.means:
        way = "a key that is kept here" if means is Means.SECRET else "a bunker"
        raise KeyProblem(f"{called(account)} does not sign by {way}")
    leaving = account.means if means is None else [means]
    _confirm(account, leaving, yes)
    if Means.NIP46 in leaving:
        await _log_out(home, account)
    home.accounts.remove(account, means)
    drafts = (await drafts_of_home(home))[account.pubkey]
    if as_json:
        write_json({"removed": account.pubkey, "means": leaving, "drafts": drafts})
    else:
        _report(account, leaving, drafts)
    return 0


def _means_of(only: str | None) -> Means | None:
    if only is None:
        return None
    if only not in _OFFERED:
        raise misuse(f"{only!r} is none of {', '.join(_OFFERED)}", "--only")
    return Means(only)


def _confirm(account: Account, leaving: list[Means], yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise CallerError(f"nothing was removed: {_loss(account, leaving)}, which needs --yes")
    question = f"This would {_loss(account, leaving).removeprefix('it would ')}. Go on? [y/N] "
    sys.stderr.write(question)
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CallerError("nothing was removed")


def _loss(account: Account, leaving: list[Means]) -> str:
    if Means.SECRET not in leaving:
        return f"it would end the connection of {called(account)} to its bunker"
    place = "the keyring" if account.key == "keyring" else "this home"
    return (
        f"it would delete the key of {called(account)} from {place}, the only copy that "
        "Postrich knows; without another one the account is lost for good"
    )


async def _log_out(home: Home, account: Account) -> None:
    """Tell the bunker; it need not be there to hear it."""
    with contextlib.suppress(KeyProblem):
        bunker = home.accounts.bunker_signer(account)
        try:
            with doing("logging out of the bunker"):
                await bunker.log_out()
        finally:
            await bunker.close()


def _report(account: Account, leaving: list[Means], drafts: int) -> None:
    left = msgspec.structs.replace(
        account,
        key=None if Means.SECRET in leaving else account.key,
        bunker=None if Means.NIP46 in leaving else account.bunker,
    )
    if left.means:
        way = "its bunker" if left.bunker else "its key"
        say(f"{called(account)} signs by {way} alone now.")
        return
    say(f"{called(account)} is removed.")
    if drafts:
        verb = "waits" if drafts == 1 else "wait"
        them = "it" if drafts == 1 else "them"
        say(
            f"{counted(drafts)} of it still {verb} to be signed: until the account is back, "
            f"or `postrich queue cancel` stops {them}."
        )
