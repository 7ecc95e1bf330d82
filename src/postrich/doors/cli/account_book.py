"""`account list`: who posts here, how each of them signs, and what waits for it.

Promises: opens no key; asks bunkers only on request, and changes nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from typing import Any

from postrich.doors.cli.home import Home
from postrich.doors.cli.keys import NSEC, called, environment_pubkey, npub_of
from postrich.doors.cli.roster import known_accounts
from postrich.doors.cli.showing import doing, say, write_json
from postrich.doors.cli.words import count, plain, relay_name
from postrich.errors import KeyProblem, SignerError
from postrich.model.job import JobFilter, JobState
from postrich.outbox import Outbox
from postrich.sign.accounts import Account

CHECK_WITHIN = 5.0
COUNTED = 1000

#: What a bunker answered when it was asked, by account; "" where it is there.
Checks = dict[str, str]


async def show_accounts(home: Home, check: bool, as_json: bool) -> int:
    """Answer `postrich account list`."""
    accounts = known_accounts(home)
    drafts = await drafts_of_home(home)
    checks = await check_bunkers(home, accounts) if check else {}
    if as_json:
        documents = [account_document(home, account, drafts, checks) for account in accounts]
        write_json({"accounts": documents})
        return 0
    if os.environ.get(NSEC) and environment_pubkey() is None:
        say(f"{NSEC} is set, but locked or no key: `postrich doctor` tells more.", "yellow")
    if not accounts:
        say("There is no account yet: `postrich account add`, `import` or `connect` makes one.")
    for number, account in enumerate(accounts):
        _print(account, number == 0, drafts[account.pubkey], checks)
    return 0


def _print(account: Account, is_default: bool, drafts: int, checks: Checks) -> None:
    say(called(account) + (" (default)" if is_default else ""), "bold")
    say(f"  {npub_of(account.pubkey)}")
    for sentence in ways_of(account):
        say(f"  {sentence}")
    if account.pubkey in checks:
        trouble = checks[account.pubkey]
        say(f"  {trouble}" if trouble else "  its bunker is there", "red" if trouble else "green")
    if drafts:
        verb = "waits" if drafts == 1 else "wait"
        say(f"  {counted(drafts)} {verb} for its signature", "yellow")


def ways_of(account: Account) -> list[str]:
    """How an account signs, in order."""
    ways = []
    if account.pubkey == environment_pubkey():
        ways.append(f"signs by its key in {NSEC}")
    elif account.key == "file":
        ways.append("signs by its key, in an encrypted file")
    elif account.key == "keyring":
        ways.append("signs by its key, in the keyring")
    if account.bunker is not None:
        met = ", ".join(relay_name(url) for url in account.bunker.relays)
        ways.append(f"signs by its bunker, met at {met}")
    return ways


def counted(drafts: int) -> str:
    """`2 drafts`; many are not counted to the end."""
    return count(drafts, "draft") if drafts < COUNTED else f"{COUNTED:,} drafts or more"


def account_document(
    home: Home, account: Account, drafts: Counter[str] | None = None, checks: Checks | None = None
) -> dict[str, Any]:
    """An account for programs."""
    accounts = known_accounts(home)
    document: dict[str, Any] = {
        "name": account.name,
        "pubkey": account.pubkey,
        "npub": npub_of(account.pubkey),
        "default": bool(accounts) and accounts[0].pubkey == account.pubkey,
        "key": "environment" if account.pubkey == environment_pubkey() else account.key,
        "bunker": account.bunker,
    }
    if drafts is not None:
        document["drafts"] = drafts[account.pubkey]
    if checks and account.pubkey in checks:
        trouble = checks[account.pubkey]
        document["check"] = {"ok": not trouble, "trouble": trouble}
    return document


# -- what waits, and who is there --------------------------------------------------------------


async def drafts_of_home(home: Home) -> Counter[str]:
    """How many drafts wait for each account; none where there is no outbox yet."""
    if not home.has_store():
        return Counter()
    async with home.looking() as outbox:
        return await count_drafts(outbox)


async def count_drafts(outbox: Outbox) -> Counter[str]:
    """How many drafts wait for each account's signature."""
    found = await outbox.jobs(JobFilter(states=(JobState.PENDING_SIGN,)), COUNTED)
    return Counter(job.pubkey for job in found)


async def check_bunkers(home: Home, accounts: list[Account]) -> Checks:
    """Ask all bunkers at once whether they are there."""
    asked = [account for account in accounts if account.bunker is not None]
    if not asked:
        return {}
    with doing(f"asking {count(len(asked), 'bunker')} (a few seconds)"):
        troubles = await asyncio.gather(*(_trouble_of(home, account) for account in asked))
    return {account.pubkey: trouble for account, trouble in zip(asked, troubles, strict=True)}


async def _trouble_of(home: Home, account: Account) -> str:
    try:
        await home.accounts.ask_bunker(account, CHECK_WITHIN)
    except (SignerError, KeyProblem) as problem:
        return plain(str(problem))
    return ""
