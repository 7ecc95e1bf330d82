"""Pages that sign (NIP-07), the server's side: what they are offered, and what is taken."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from postrich import Draft, Event, SecretSigner, make_draft
from postrich.errors import (
    IllegalMove,
    SignerFault,
    SignerRejected,
    SignerTimeout,
    SignerUnavailable,
)
from postrich.sign import browser
from postrich.sign.browser import BrowserSession, BrowserSigner
from postrich.sign.signer import Signers
from tests.deliver.outboxes import until
from tests.relays.events import make_event, public_key

ALICE, BOB = b"\x01" * 32, b"\x02" * 32


def note(content: str, secret: bytes = ALICE) -> Draft:
    return make_draft(public_key(secret), 5, 1, [["t", "x"]], content)


def by_extension(draft: Draft, secret: bytes = ALICE, **changes: Any) -> dict[str, Any]:
    """What a NIP-07 extension returns for a draft."""
    return {
        **make_event(secret, draft.kind, draft.content, draft.tags, draft.created_at),
        **changes,
    }


class Desk:
    """An account with its signers, as the engine asks them."""

    def __init__(self, patience: float = 20.0) -> None:
        self.signers = Signers(patience)
        self.came = 0
        self.signers.on_came = self._on_came
        self.browser = BrowserSigner(public_key(ALICE))
        self.signers.add(self.browser)

    def _on_came(self, pubkey: str) -> None:
        assert pubkey == public_key(ALICE)
        self.came += 1

    async def begin(self, draft: Draft) -> asyncio.Task[Event]:
        """Ask, and return once the draft is on offer."""
        signing = asyncio.create_task(self.signers.sign(draft))
        await until(lambda: draft in self.browser.drafts() or signing.done())
        return signing


@asynccontextmanager
async def desk(patience: float = 20.0) -> AsyncIterator[Desk]:
    found = Desk(patience)
    yield found
    await found.signers.close()


async def test_nobody_signs_before_a_page_is_open() -> None:
    async with desk() as found:
        assert not found.browser.is_available
        assert found.came == 0
        with pytest.raises(SignerUnavailable, match="no page is open to sign in"):
            await found.signers.sign(note("hello"))
        with pytest.raises(SignerUnavailable, match="no page is open"):
            await found.browser.sign(note("hello"))
        assert found.browser.drafts() == []


@pytest.mark.req("A6")
async def test_a_page_that_opens_is_told_to_everybody() -> None:
    async with desk() as found:
        with found.browser.open() as page:
            assert found.browser.is_available
            assert found.browser.trouble == ""
            assert found.came == 1
            assert page.pubkey == public_key(ALICE)
        assert not found.browser.is_available
        assert found.browser.trouble == "no page is open to sign in"


@pytest.mark.req("A2")
async def test_a_page_is_offered_the_drafts_and_its_signature_is_taken() -> None:
    async with desk() as found, page_of(found) as page:
        first, second = note("one"), note("two")
        signing = [await found.begin(draft) for draft in (first, second)]
        assert page.drafts() == [first, second]
        event = page.take(first.id, by_extension(first, extra="ignored"))
        assert event == await signing[0]
        assert b"ignored" not in event.raw
        assert page.drafts() == [second]
        page.take(second.id, by_extension(second))
        assert (await signing[1]).id == second.id
        assert page.drafts() == []
        assert found.came == 1  # nobody had to be woken: we were waiting


@asynccontextmanager
async def page_of(found: Desk) -> AsyncIterator[BrowserSession]:
    with found.browser.open() as page:
        yield page


async def test_pages_learn_of_changes() -> None:
    async with desk() as found, page_of(found) as page:
        assert page.changed.is_set()
        page.drafts()
        assert not page.changed.is_set()
        draft = note("one")
        signing = await found.begin(draft)
        assert page.changed.is_set()
        page.drafts()
        other = found.browser.open()
        other.take(draft.id, by_extension(draft))
        assert page.changed.is_set()
        await signing
        page.drafts()
        page.close()
        assert page.changed.is_set()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"content": "another"}, 'changed content: "hello" became "another"'),
        ({"kind": 30_023}, "changed kind: 1 became 30023"),
        ({"kind": True}, "changed kind: 1 became true"),
        ({"created_at": 6}, "changed created_at: 5 became 6"),
        ({"created_at": 5.0}, "changed created_at: 5 became 5.0"),
        ({"tags": []}, r'changed tags: \[\["t","x"\]\] became \[\]'),
        ({"pubkey": public_key(BOB)}, "changed pubkey: "),
        ({"id": "0" * 64}, "id is not the id of the event"),
        ({"sig": "0" * 128}, "is not the account's"),
        ({"sig": None}, "has not the form of one"),
        ({"content": object()}, "became what is no JSON"),
    ],
)
@pytest.mark.req("A2")
async def test_a_wrong_answer_is_named_and_the_page_may_try_again(
    changes: dict[str, Any], words: str
) -> None:
    async with desk() as found, page_of(found) as page:
        draft = note("hello")
        signing = await found.begin(draft)
        with pytest.raises(SignerFault, match=words):
            page.take(draft.id, by_extension(draft, **changes))
        assert page.drafts() == [draft]
        assert not signing.done()
        page.take(draft.id, by_extension(draft))
        assert (await signing).id == draft.id


@pytest.mark.req("A2")
async def test_another_accounts_extension_is_refused() -> None:
    async with desk() as found, page_of(found) as page:
        draft = note("hello")
        signing = await found.begin(draft)
        with pytest.raises(SignerFault, match="changed pubkey"):
            page.take(draft.id, by_extension(draft, BOB))
        page.take(draft.id, by_extension(draft))
        await signing


async def test_an_account_sees_only_its_own_drafts() -> None:
    signers = Signers()
    hers, his = BrowserSigner(public_key(ALICE)), BrowserSigner(public_key(BOB))
    signers.add(hers)
    signers.add(his)
    with hers.open() as her_page, his.open() as his_page:
        draft = note("for Bob", BOB)
        signing = asyncio.create_task(signers.sign(draft))
        await until(lambda: bool(his_page.drafts()))
        assert her_page.drafts() == []
        with pytest.raises(IllegalMove, match="not waiting"):
            her_page.take(draft.id, by_extension(draft, BOB))
        his_page.take(draft.id, by_extension(draft, BOB))
        assert (await signing).pubkey == public_key(BOB)
    await signers.close()


@pytest.mark.req("A5")
async def test_a_no_is_a_rejection_with_its_reason() -> None:
    async with desk() as found, page_of(found) as page:
        draft = note("hello")
        signing = await found.begin(draft)
        page.refuse(draft.id, "not\x1b this one secret=hush")
        with pytest.raises(SignerRejected, match="^you said no in the browser: not  ?this") as no:
            await signing
        assert "hush" not in str(no.value)
        assert page.drafts() == []
        again = await found.begin(draft)
        page.refuse(draft.id)
        with pytest.raises(SignerRejected, match="^you said no in the browser$"):
            await again


async def test_the_first_answer_counts() -> None:
    async with desk() as found, page_of(found) as one, page_of(found) as other:
        draft = note("hello")
        signing = await found.begin(draft)
        assert one.drafts() == other.drafts() == [draft]
        event = one.take(draft.id, by_extension(draft))
        for late in (
            lambda: other.take(draft.id, by_extension(draft)),
            lambda: other.refuse(draft.id),
            lambda: one.refuse(draft.id),
        ):
            with pytest.raises(IllegalMove, match="not waiting for a signature here any more"):
                late()
        assert await signing == event


async def test_what_was_never_offered_cannot_be_answered() -> None:
    async with desk() as found, page_of(found) as page:
        with pytest.raises(IllegalMove):
            page.take("0" * 64, by_extension(note("x")))
        with pytest.raises(IllegalMove):
            page.refuse("0" * 64)


@pytest.mark.req("A5", "A6")
async def test_a_late_signature_is_used_without_asking_again() -> None:
    async with desk(patience=0.05) as found, page_of(found) as page:
        draft = note("hello")
        with pytest.raises(SignerTimeout):
            await found.signers.sign(draft)
        assert page.drafts() == [draft]  # the person may still be reading it
        assert found.came == 1
        event = page.take(draft.id, by_extension(draft))
        assert found.came == 2
        assert page.drafts() == []
        assert await found.signers.sign(draft) == event
        with pytest.raises(SignerTimeout):  # it was used once: from now on it is a new question
            await found.signers.sign(draft)


@pytest.mark.req("A6")
async def test_a_late_signature_outlives_its_page() -> None:
    async with desk(patience=0.05) as found:
        draft, other = note("hello"), note("other")
        with found.browser.open() as page:
            for waiting in (draft, other):
                with pytest.raises(SignerTimeout):
                    await found.signers.sign(waiting)
            event = page.take(draft.id, by_extension(draft))
        assert found.browser.is_available
        with pytest.raises(SignerUnavailable, match="no page is open"):
            await found.signers.sign(other)
        assert await found.signers.sign(draft) == event
        assert not found.browser.is_available


async def test_a_late_no_is_heard_too() -> None:
    async with desk(patience=0.05) as found, page_of(found) as page:
        draft = note("hello")
        with pytest.raises(SignerTimeout):
            await found.signers.sign(draft)
        page.refuse(draft.id, "no")
        assert found.came == 2
        with pytest.raises(SignerRejected):
            await found.signers.sign(draft)


async def test_a_signature_in_the_last_moment_is_kept() -> None:
    """The signature and our giving up, in the same turn of the loop."""
    async with desk() as found, page_of(found) as page:
        draft = note("hello")
        signing = await found.begin(draft)
        event = page.take(draft.id, by_extension(draft))
        signing.cancel()
        await asyncio.wait([signing])
        assert await found.signers.sign(draft) == event


async def test_two_who_ask_for_one_draft_get_one_signature() -> None:
    async with desk() as found, page_of(found) as page:
        draft = note("hello")
        one, other = await found.begin(draft), await found.begin(draft)
        await asyncio.sleep(0)
        assert page.drafts() == [draft]
        event = page.take(draft.id, by_extension(draft))
        assert await one == await other == event


@pytest.mark.req("A5")
async def test_when_the_last_page_closes_nobody_can_sign() -> None:
    async with desk() as found:
        one, other = found.browser.open(), found.browser.open()
        draft = note("hello")
        signing = await found.begin(draft)
        one.close()
        await asyncio.sleep(0)
        assert not signing.done()
        assert other.drafts() == [draft]
        other.close()
        with pytest.raises(SignerUnavailable, match="the page was closed"):
            await signing
        with found.browser.open() as page:
            assert page.drafts() == []  # it is offered when it is asked for again
            signing = await found.begin(draft)
            page.take(draft.id, by_extension(draft))
            await signing


async def test_a_closed_page_can_do_nothing() -> None:
    async with desk() as found, page_of(found) as open_page:
        page = found.browser.open()
        page.close()
        page.close()
        draft = note("hello")
        signing = await found.begin(draft)
        for act in (
            lambda: page.drafts(),
            lambda: page.take(draft.id, by_extension(draft)),
            lambda: page.refuse(draft.id),
        ):
            with pytest.raises(IllegalMove, match="was closed: open it again"):
                act()
        open_page.take(draft.id, by_extension(draft))
        await signing


async def test_the_end_of_the_outbox_closes_the_pages() -> None:
    async with desk() as found:
        page = found.browser.open()
        signing = await found.begin(note("hello"))
    assert not page.is_open
    with pytest.raises(SignerUnavailable):
        await signing


async def test_only_so_many_drafts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser, "MAX_KEPT", 3)
    async with desk(patience=0.01) as found, page_of(found) as page:
        drafts = [note(str(number)) for number in range(5)]
        for draft in drafts:
            with pytest.raises(SignerTimeout):
                await found.signers.sign(draft)
        assert page.drafts() == drafts[2:]


async def test_a_key_at_hand_signs_instead_of_the_page() -> None:
    async with desk() as found, page_of(found) as page:
        found.signers.add(SecretSigner(ALICE))
        await found.signers.sign(note("hello"))
        assert page.drafts() == []
