"""`account connect`: an account whose key stays in a bunker (NIP-46).

Promises: an invitation is shown only while it can be accepted; a bunker's address comes from a
hidden prompt or stdin, never from an argument; nothing is kept before the bunker has agreed.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import math
import sys
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass

from postrich.clock import SystemClock
from postrich.doors.cli.account_book import account_document
from postrich.doors.cli.adding import how_to_post
from postrich.doors.cli.home import Home
from postrich.doors.cli.keys import npub_of, read_hidden
from postrich.doors.cli.outset import misuse
from postrich.doors.cli.showing import aside, console, doing, say, write_json
from postrich.doors.cli.words import plain, relay_name
from postrich.errors import BadSetting, KeyProblem, SignerError
from postrich.rules.nip46 import parse_bunker_uri
from postrich.rules.trust import normalise_url
from postrich.sign.accounts import Account
from postrich.sign.bunker import BunkerGrant, Invitation, connect_bunker
from postrich.sign.secret import SecretSigner

MEETING_RELAYS = 3


@dataclass(frozen=True)
class Terms:
    """How the account shall be kept, and how to answer."""

    name: str
    default: bool
    wait: float
    as_json: bool


def secret_argument() -> Exception:
    """The refusal of an address among the arguments."""
    return misuse(
        "a bunker's address holds a secret, and others can see arguments: get a new address, "
        "run `postrich account connect --bunker`, and paste it when asked"
    )


async def connect_by_address(home: Home, terms: Terms) -> int:
    """Introduce us to the bunker of a `bunker://` address."""
    home.accounts.all()
    uri = read_hidden("Your bunker's address (bunker://…): ")
    if not uri:
        raise KeyProblem("no address came")
    met = ", ".join(relay_name(url) for url in parse_bunker_uri(uri).relays)
    client = SecretSigner.generate()
    with _spoken():
        grant = await _patiently(
            connect_bunker(uri, client, within=terms.wait, on_challenge=_on_challenge),
            f"waiting for your bunker at {met}",
            terms.wait,
        )
    return _keep(home, grant, client, terms)


async def connect_by_invitation(home: Home, relays: Sequence[str], terms: Terms) -> int:
    """Show an invitation, and wait for the signer that accepts it."""
    home.accounts.all()
    meeting = _meeting_relays(home, relays)
    client = SecretSigner.generate()
    invitation = Invitation(meeting, client)
    met = ", ".join(map(relay_name, meeting))
    listening = asyncio.Event()
    with _spoken():
        accepted = asyncio.ensure_future(
            invitation.accepted(terms.wait, _on_challenge, listening.set)
        )
        with doing(f"connecting to {met}"):
            await _first(accepted, listening)
        if listening.is_set():
            _show(invitation.uri, terms.as_json)
            aside(f"Listening at {met}: scan the code, or paste the address into your signer.")
        grant = await _patiently(accepted, f"waiting for your signer at {met}", terms.wait)
    return _keep(home, grant, client, terms)


async def _first(work: asyncio.Future[BunkerGrant], sign: asyncio.Event) -> None:
    """Until the sign is given, or the work has ended without it."""
    given = asyncio.ensure_future(sign.wait())
    try:
        await asyncio.wait((work, given), return_when=asyncio.FIRST_COMPLETED)
    finally:
        given.cancel()


def _meeting_relays(home: Home, relays: Sequence[str]) -> tuple[str, ...]:
    try:
        named = tuple(dict.fromkeys(normalise_url(url) for url in relays))
    except BadSetting as problem:
        raise misuse(str(problem), "--relay") from None
    found = named or home.settings().relays[:MEETING_RELAYS]
    if not found:
        raise BadSetting(
            "there is no relay to meet your signer at: name one with --relay, "
            f"or add your relays to {home.settings_file}"
        )
    return found


def _show(uri: str, as_json: bool) -> None:
    """The invitation: as text always, as a code where a person can scan it."""
    if as_json:
        aside(uri)
        return
    if sys.stdout.isatty() and (code := _code_of(uri)):
        sys.stdout.write(code)
    sys.stdout.write(f"{uri}\n")
    sys.stdout.flush()


def _code_of(uri: str) -> str:
    """A QR code in half blocks; nothing where the terminal is too narrow for it."""
    import segno

    drawn = io.StringIO()
    code = segno.make_qr(uri, error="l")
    code.terminal(drawn, compact=True)
    width, _ = code.symbol_size()
    return drawn.getvalue() if width <= console().width else ""


def _on_challenge(url: str) -> None:
    aside(f"Your bunker wants you to approve at {plain(url)}")


@contextlib.contextmanager
def _spoken() -> Iterator[None]:
    """A bunker's no, or its silence, with what to do next."""
    try:
        yield
    except SignerError as problem:
        raise KeyProblem(f"not connected: {problem}") from None


async def _patiently(work: Awaitable[BunkerGrant], what: str, seconds: float) -> BunkerGrant:
    """Wait with the time that is left in sight."""
    clock = SystemClock()
    deadline = clock.tick() + seconds
    waiting = asyncio.ensure_future(work)
    with doing(what) as status:
        while not waiting.done():
            left = max(0, math.ceil(deadline - clock.tick()))
            if status is not None:
                status.update(f"{what} ({left // 60}:{left % 60:02} left; Ctrl-C gives up)")
            await asyncio.wait((waiting,), timeout=1.0)
    return await waiting


def _keep(home: Home, grant: BunkerGrant, client: SecretSigner, terms: Terms) -> int:
    home.make()
    account = _add(home, grant, client, terms.name)
    if terms.default:
        home.accounts.make_default(account)
    if terms.as_json:
        write_json(account_document(home, account))
        return 0
    met = ", ".join(relay_name(url) for url in grant.relays)
    say(f"✓ connected: you have the account {npub_of(grant.pubkey)}", "green")
    say(f"It signs by your bunker, met at {met}.")
    say(how_to_post(home, account))
    return 0


def _add(home: Home, grant: BunkerGrant, client: SecretSigner, name: str) -> Account:
    """Keep it; a name that another account has must not undo what a person approved."""
    try:
        return home.accounts.add_bunker(grant, client, name)
    except KeyProblem as problem:
        if not name:
            raise
        aside(f"postrich: {problem}: this one is kept without a name")
        return home.accounts.add_bunker(grant, client)
