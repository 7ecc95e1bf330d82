"""A signer that lives elsewhere (NIP-46): how to be connected to it, and to sign through it.

Promises: what it returns is the draft with a signature, or an error that says what to do; our
own key for talking to it is not the account's, and is all that must be kept to be known again.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable

import msgspec

from postrich.clock import Clock, SystemClock
from postrich.errors import KeyProblem, SignerError, SignerRejected, UnknownClient
from postrich.model.event import Draft, Event, is_hex_name
from postrich.rules.nip46 import (
    PERMISSIONS,
    BunkerAddress,
    Response,
    connect_uri,
    parse_bunker_uri,
    relays_of,
)
from postrich.rules.signing import read_answer, take_signature, template_of
from postrich.sign.chooser import Means
from postrich.sign.rpc import Rpc
from postrich.sign.secret import SecretSigner
from postrich.sign.signer import Signer

NAME = "Postrich"
STEP_WITHIN = 20.0
OPTIONAL_WITHIN = 3.0
LOGOUT_WITHIN = 5.0

#: Told the page at which a person must approve.
OnChallenge = Callable[[str], None]


class BunkerGrant(msgspec.Struct, frozen=True):
    """A connection that was made: whose account, at which bunker, met where."""

    pubkey: str
    remote: str
    relays: tuple[str, ...]
    secret: str = ""
    pings: bool = False


class BunkerSigner(Signer):
    """Signs through a bunker. `client` is the key that the bunker knows us by."""

    means = Means.NIP46
    at_once = 4
    keeps_time = True

    def __init__(
        self,
        grant: BunkerGrant,
        client: SecretSigner,
        *,
        clock: Clock | None = None,
    ) -> None:
        self.grant = grant
        self._client = client
        self._clock = clock or SystemClock()
        self._rpc: Rpc | None = None
        self._connecting = asyncio.Lock()
        self._introductions = 0

    @property
    def pubkey(self) -> str:
        return self.grant.pubkey

    @property
    def is_available(self) -> bool:
        return self._rpc is not None and self._rpc.is_available

    @property
    def trouble(self) -> str:
        return "the bunker is not connected to" if self._rpc is None else self._rpc.trouble

    def start(self, on_came: Callable[[], None]) -> None:
        if self._rpc is None:
            self._rpc = Rpc(
                self._client,
                self.grant.remote,
                self.grant.relays,
                self._clock,
                pings=self.grant.pings,
            )
            self._rpc.start()
        self._rpc.on_awake = on_came
        self._rpc.on_challenge = self.on_challenge

    def nudge(self) -> None:
        if self._rpc is not None:
            self._rpc.channel.nudge()

    async def close(self) -> None:
        rpc, self._rpc = self._rpc, None
        if rpc is not None:
            await rpc.close()

    async def sign(self, draft: Draft) -> Event:
        rpc = self._started()
        template = msgspec.json.encode(template_of(draft)).decode()
        introductions = self._introductions
        try:
            answer = await self._ask(rpc, draft.id, template)
        except UnknownClient:
            await self._introduce(rpc, introductions)
            answer = await self._ask(rpc, draft.id, template)
        return take_signature(draft, read_answer(answer))

    async def _ask(self, rpc: Rpc, key: str, template: str) -> str:
        return await rpc.call("sign_event", template, within=self.patience, key=key)

    async def _introduce(self, rpc: Rpc, known: int) -> None:
        """It has forgotten us, as some do when they are restarted: say who we are, once."""
        async with self._connecting:
            if self._introductions != known:
                return  # another draft's turn did it meanwhile
            try:
                await connect_to(rpc, self.grant.secret, self.patience)
                self._introductions += 1
            except SignerRejected as problem:
                raise SignerRejected(
                    f"{problem}; connect to it anew with `postrich account connect`"
                ) from None

    async def log_out(self) -> None:
        """Tell the bunker that we are not coming back; it may not be there to hear it."""
        rpc = self._started()
        with contextlib.suppress(SignerError):  # it may be away, or not know the word
            await rpc.call("logout", within=LOGOUT_WITHIN)

    def _started(self) -> Rpc:
        if self._rpc is None:
            self.start(lambda: None)
        assert self._rpc is not None
        return self._rpc


# -- being connected ----------------------------------------------------------------------------


async def connect_bunker(
    uri: str,
    client: SecretSigner,
    *,
    within: float = 120.0,
    on_challenge: OnChallenge = lambda _url: None,
) -> BunkerGrant:
    """Introduce us to the bunker of a `bunker://` address; `within` is a person's time."""
    address = parse_bunker_uri(uri)
    async with _talking(client, address.remote, address.relays, on_challenge) as rpc:
        await connect_to(rpc, address.secret, within)
        return await _settle_in(rpc, address)


class Invitation:
    """A `nostrconnect://` address for a signer to scan, and the wait for who accepts it."""

    def __init__(self, relays: tuple[str, ...], client: SecretSigner, name: str = NAME) -> None:
        self._secret = secrets.token_hex(16)
        self._relays = relays
        self._client = client
        self.uri = connect_uri(client.pubkey, relays, self._secret, name)

    async def accepted(
        self,
        within: float = 300.0,
        on_challenge: OnChallenge = lambda _url: None,
        on_listening: Callable[[], None] = lambda: None,
    ) -> BunkerGrant:
        """Wait for the signer that knows the secret; whoever does not is not listened to."""
        async with _talking(self._client, None, self._relays, on_challenge) as rpc:
            found: asyncio.Future[str] = asyncio.get_running_loop().create_future()

            def on_stranger(pubkey: str, answer: Response) -> None:
                if secrets.compare_digest(answer.result.encode(), self._secret.encode()):
                    rpc.remote = rpc.remote or pubkey
                    if not found.done():
                        found.set_result(pubkey)

            rpc.on_stranger = on_stranger
            try:
                async with asyncio.timeout(within):
                    await rpc.channel.opened.wait()
                    on_listening()
                    remote = await found
            except TimeoutError:
                trouble = "" if rpc.channel.is_open else f" ({rpc.channel.trouble})"
                raise KeyProblem(f"no signer accepted within {within:g} s{trouble}") from None
            return await _settle_in(rpc, BunkerAddress(remote, self._relays))


@contextlib.asynccontextmanager
async def _talking(
    client: SecretSigner, remote: str | None, relays: tuple[str, ...], on_challenge: OnChallenge
) -> AsyncIterator[Rpc]:
    rpc = Rpc(client, remote, relays, SystemClock())
    rpc.on_challenge = on_challenge
    rpc.start()
    try:
        yield rpc
    finally:
        await rpc.close()


async def connect_to(rpc: Rpc, secret: str, within: float) -> None:
    """`connect`: the answer is "ack", or our secret where we gave one."""
    assert rpc.remote is not None
    metadata = msgspec.json.encode({"name": NAME}).decode()
    await rpc.call("connect", rpc.remote, secret, PERMISSIONS, metadata, within=within)


async def _settle_in(rpc: Rpc, address: BunkerAddress) -> BunkerGrant:
    """Whose account it is, and where it wants to be met."""
    pubkey = await rpc.call("get_public_key", within=STEP_WITHIN)
    if not is_hex_name(pubkey):
        raise KeyProblem("the bunker did not say whose account it signs for")
    relays = address.relays
    with contextlib.suppress(SignerError):  # older ones do not know the word, and stay
        relays = relays_of(await rpc.call("switch_relays", within=OPTIONAL_WITHIN)) or relays
    rpc.channel.use(relays)
    pings = False
    with contextlib.suppress(SignerError):
        pings = await rpc.call("ping", within=OPTIONAL_WITHIN) == "pong"
    return BunkerGrant(pubkey, address.remote, relays, address.secret, pings)
