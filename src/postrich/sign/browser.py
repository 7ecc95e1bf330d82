"""Signing in a page (NIP-07), the server's side: drafts are offered, signatures come back.

Promises: a page is offered only drafts of the account it was opened for; what it returns is
the draft with a true signature, or is refused with the difference named; a signature that
comes after we stopped waiting is kept for when we ask again. Who may open a page for which
account is decided by whoever opens it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from postrich.errors import IllegalMove, SignerError, SignerRejected, SignerUnavailable
from postrich.model.event import Draft, Event
from postrich.rules.redact import redact
from postrich.rules.signing import take_signature
from postrich.sign.chooser import Means
from postrich.sign.signer import Signer

MAX_KEPT = 1000


class _Offer:
    """A draft that pages are shown, until somebody has signed or refused it."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.answer: asyncio.Future[Event | SignerError] = (
            asyncio.get_running_loop().create_future()
        )
        self.waiters = 0


class BrowserSigner(Signer):
    """All pages that are open for one account."""

    means = Means.NIP07

    def __init__(self, pubkey: str) -> None:
        self._pubkey = pubkey
        self._on_came: Callable[[], None] = lambda: None
        self._pages: set[BrowserSession] = set()
        self._offers: dict[str, _Offer] = {}

    @property
    def pubkey(self) -> str:
        return self._pubkey

    @property
    def is_available(self) -> bool:
        return bool(self._pages) or any(offer.answer.done() for offer in self._offers.values())

    @property
    def trouble(self) -> str:
        return "" if self._pages else "no page is open to sign in"

    def start(self, on_came: Callable[[], None]) -> None:
        self._on_came = on_came

    async def close(self) -> None:
        for page in list(self._pages):
            page.close()

    async def sign(self, draft: Draft) -> Event:
        offer = self._offer(draft)
        offer.waiters += 1
        try:
            answer = await asyncio.shield(offer.answer)
        finally:
            offer.waiters -= 1
        if self._offers.get(draft.id) is offer:
            del self._offers[draft.id]
        if isinstance(answer, SignerError):
            raise answer
        return answer

    def _offer(self, draft: Draft) -> _Offer:
        found = self._offers.get(draft.id)
        if found is None:
            if not self._pages:
                raise SignerUnavailable(self.trouble)
            found = self._offers[draft.id] = _Offer(draft)
            if len(self._offers) > MAX_KEPT:
                del self._offers[next(iter(self._offers))]
            self._tell()
        return found

    def _tell(self) -> None:
        for page in self._pages:
            page.changed.set()

    # -- what pages do -------------------------------------------------------------------------

    def open(self) -> BrowserSession:
        """A page was opened: what waits for this account goes on (A6)."""
        page = BrowserSession(self)
        self._pages.add(page)
        self._on_came()
        return page

    def leave(self, page: BrowserSession) -> None:
        self._pages.discard(page)
        if self._pages:
            return
        for name, offer in list(self._offers.items()):
            if not offer.answer.done():  # a late signature is still to be fetched
                offer.answer.set_result(SignerUnavailable("the page was closed"))
                del self._offers[name]

    def drafts(self) -> list[Draft]:
        return [offer.draft for offer in self._offers.values() if not offer.answer.done()]

    def answer(self, event_id: str, answer: Callable[[Draft], Event | SignerError]) -> Event | None:
        """Take an answer to what is on offer; the first one counts."""
        offer = self._offers.get(event_id)
        if offer is None or offer.answer.done():
            raise IllegalMove("this draft is not waiting for a signature here any more")
        found = answer(offer.draft)
        offer.answer.set_result(found)
        self._tell()
        if not offer.waiters:  # it comes late: whoever asks again finds it here
            self._on_came()
        return found if isinstance(found, Event) else None


class BrowserSession:
    """One page, opened for one account. Close it when the page is gone."""

    def __init__(self, signer: BrowserSigner) -> None:
        self._signer = signer
        self.is_open = True
        self.changed = asyncio.Event()
        self.changed.set()

    @property
    def pubkey(self) -> str:
        return self._signer.pubkey

    def drafts(self) -> list[Draft]:
        """What waits for this account's signature, oldest first."""
        self._check_open()
        self.changed.clear()
        return self._signer.drafts()

    def take(self, event_id: str, signed: Mapping[str, Any]) -> Event:
        """The extension's answer to the draft with that id; `SignerFault` names what differs.

        A wrong answer leaves the draft on offer: the page may try again.
        """
        self._check_open()
        event = self._signer.answer(event_id, lambda draft: take_signature(draft, signed))
        assert event is not None
        return event

    def refuse(self, event_id: str, reason: str = "") -> None:
        """The person said no to this one: its job is parked."""
        self._check_open()
        words = "said no in the browser" + (f": {redact(reason)}" if reason else "")
        self._signer.answer(event_id, lambda _draft: SignerRejected(f"you {words}"))

    def close(self) -> None:
        """The page is gone: what it was offered waits again."""
        if self.is_open:
            self.is_open = False
            self.changed.set()
            self._signer.leave(self)

    def _check_open(self) -> None:
        if not self.is_open:
            raise IllegalMove("this page was closed: open it again")

    def __enter__(self) -> BrowserSession:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _problem: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()
