"""The seam for signers: whoever can turn a draft of its account into an event.

A signer never changes a draft: what comes back has the draft's own id, or is refused here.
"""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Callable, Iterator

from postrich.errors import SignerError, SignerFault, SignerTimeout, SignerUnavailable
from postrich.model.event import Draft, Event, is_signed
from postrich.rules.redact import redact
from postrich.rules.relay_lists import read_hidden
from postrich.sign.chooser import Means, choose_signer


class Signer(abc.ABC):
    """One way to sign for one account. Whoever can sign at any time has nothing more to say."""

    means = Means.SECRET
    #: How many drafts it may be given at once.
    at_once = 256
    #: How long a signature may take; set by the outbox. Who keeps the time itself says so.
    patience = 20.0
    keeps_time = False
    #: Told the page at which a person must approve first.
    on_challenge: Callable[[str], None] = staticmethod(lambda _url: None)

    @property
    @abc.abstractmethod
    def pubkey(self) -> str:
        """The account, as 64 hex characters."""

    @abc.abstractmethod
    async def sign(self, draft: Draft) -> Event:
        """The signed draft; raises a `SignerError` with its code (A5)."""

    @property
    def is_available(self) -> bool:
        """Whether asking makes sense now."""
        return True

    @property
    def trouble(self) -> str:
        """Why it is not available, for people."""
        return ""

    def start(self, on_came: Callable[[], None]) -> None:  # noqa: B027 - most need nothing
        """Begin to be available; `on_came` is called whenever it can sign again (A6)."""

    def decrypt_from(self, pubkey: str, payload: str) -> str | None:  # noqa: ARG002
        """The other key's message to us, where it can be read at once; asks no person."""
        return None

    def nudge(self) -> None:  # noqa: B027
        """The network is back: do not wait to look."""

    async def close(self) -> None:  # noqa: B027
        """Let go of what it holds."""


class Signers:
    """The signers at hand, by account; each account may have one of each means."""

    def __init__(self, patience: float = 20.0) -> None:
        self.patience = patience
        self.on_came: Callable[[str], None] = lambda _pubkey: None
        self.on_challenge: Callable[[str, str], None] = lambda _pubkey, _url: None
        self._accounts: dict[str, dict[Means, Signer]] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def add(self, signer: Signer) -> None:
        """From now on it is asked; it takes the place of one of the same means."""
        account = self._accounts.setdefault(signer.pubkey, {})
        former = account.get(signer.means)
        account[signer.means] = signer
        if former is not None and former is not signer:
            self._let_go(former)
        signer.patience = self.patience
        signer.on_challenge = lambda url: self.on_challenge(signer.pubkey, url)
        signer.start(lambda: self.on_came(signer.pubkey))
        if signer.is_available:
            self.on_came(signer.pubkey)

    def remove(self, signer: Signer) -> None:
        """It is asked no more."""
        account = self._accounts.get(signer.pubkey, {})
        if account.get(signer.means) is signer:
            del account[signer.means]
            self._let_go(signer)
        if not account:
            self._accounts.pop(signer.pubkey, None)

    def _let_go(self, signer: Signer) -> None:
        closing = asyncio.get_running_loop().create_task(signer.close())
        self._leaving.add(closing)
        closing.add_done_callback(self._leaving.discard)

    async def close(self) -> None:
        for signer in self:
            await signer.close()
        await asyncio.gather(*self._leaving)

    def nudge(self) -> None:
        for signer in self:
            signer.nudge()

    def __contains__(self, pubkey: str) -> bool:
        return pubkey in self._accounts

    def __iter__(self) -> Iterator[Signer]:
        return iter([signer for account in self._accounts.values() for signer in account.values()])

    def of(self, pubkey: str) -> dict[Means, Signer]:
        """The signers of an account."""
        return dict(self._accounts.get(pubkey, {}))

    def hidden_tags(self, event: Event) -> list[list[str]]:
        """What an account keeps to itself in a list of its own (NIP-51), if its key is at hand."""
        for signer in self._accounts.get(event.pubkey, {}).values() if event.content else ():
            text = signer.decrypt_from(event.pubkey, event.content)
            if text is not None:
                return read_hidden(text)
        return []

    @property
    def default(self) -> Signer | None:
        """The account that posts when none is named."""
        return next(iter(self), None)

    def room(self, pubkey: str) -> int:
        """How many drafts of the account may be under way at once."""
        signer = self._choose(pubkey, frozenset())
        return signer.at_once if signer is not None else 1

    async def sign(self, draft: Draft) -> Event:
        """Sign within the time allowed; what comes back is checked against the draft."""
        event, _ = await self.sign_by_whom(draft)
        return event

    async def sign_by_whom(self, draft: Draft) -> tuple[Event, Means]:
        """The event, and who signed it. Who turns out to be away leaves it to the next."""
        away: dict[Means, SignerUnavailable] = {}
        while (signer := self._choose(draft.pubkey, frozenset(away))) is not None:
            try:
                return await self._ask(signer, draft), signer.means
            except SignerUnavailable as problem:
                away[signer.means] = problem
        raise next(iter(away.values()), self._nobody(draft.pubkey))

    def _choose(self, pubkey: str, away: frozenset[Means]) -> Signer | None:
        account = self._accounts.get(pubkey, {})
        at_hand = {means for means, signer in account.items() if signer.is_available}
        chosen = choose_signer(at_hand - away)
        return account[chosen] if chosen is not None else None

    def _nobody(self, pubkey: str) -> SignerUnavailable:
        troubles = [s.trouble for s in self.of(pubkey).values() if s.trouble]
        if troubles:
            return SignerUnavailable("; ".join(troubles))
        return SignerUnavailable(f"no signer for {pubkey[:8]}… is at hand")

    async def _ask(self, signer: Signer, draft: Draft) -> Event:
        try:
            async with asyncio.timeout(None if signer.keeps_time else self.patience):
                event = await signer.sign(draft)
        except TimeoutError:
            raise SignerTimeout(f"the signer did not answer in {self.patience:g} s") from None
        except SignerError:
            raise
        except Exception as problem:
            raise SignerUnavailable(f"the signer failed: {redact(str(problem))}") from problem
        if event.id != draft.id or not is_signed(event):
            raise SignerFault("the signer returned another event than the one it was given")
        return event
