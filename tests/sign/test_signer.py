"""The seam for signers: who signs for whom, how long we wait, and what we believe."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from postrich import Draft, Event, SecretSigner, make_draft
from postrich.errors import (
    SignerError,
    SignerFault,
    SignerRejected,
    SignerTimeout,
    SignerUnavailable,
)
from postrich.sign.chooser import Means
from postrich.sign.signer import Signer, Signers

ALICE, BOB = SecretSigner(b"\x01" * 32), SecretSigner(b"\x02" * 32)
DRAFT = make_draft(ALICE.pubkey, 5, 1, (), "hello")


class Strange(Signer):
    """A signer that answers as it was told to: None never, an exception by raising it."""

    def __init__(
        self, answer: Any = ALICE, means: Means = Means.SECRET, owner: SecretSigner = ALICE
    ) -> None:
        self.means = means
        self.answer = answer
        self.owner = owner
        self.available = True
        self.asked: list[str] = []
        self.starts = 0
        self.nudges = 0
        self.closed = False
        self.came: Callable[[], None] = lambda: None

    @property
    def pubkey(self) -> str:
        return self.owner.pubkey

    @property
    def is_available(self) -> bool:
        return self.available

    @property
    def trouble(self) -> str:
        return "" if self.available else f"{self.means} is away"

    def start(self, on_came: Callable[[], None]) -> None:
        self.starts += 1
        self.came = on_came

    def nudge(self) -> None:
        self.nudges += 1

    async def close(self) -> None:
        self.closed = True

    async def sign(self, draft: Draft) -> Event:
        self.asked.append(draft.id)
        if isinstance(self.answer, BaseException):
            raise self.answer
        if self.answer is None:
            await asyncio.Event().wait()
        if isinstance(self.answer, SecretSigner):
            return await self.answer.sign(draft)
        event: Event = self.answer
        return event


def at_hand(*signers: Signer, patience: float = 20.0) -> Signers:
    found = Signers(patience)
    for signer in signers:
        found.add(signer)
    return found


# Whose signer


@pytest.mark.req("A4")
async def test_each_account_has_its_signer() -> None:
    signers = Signers()
    assert signers.default is None
    signers.add(ALICE)
    signers.add(BOB)
    assert signers.default is ALICE
    assert BOB.pubkey in signers
    assert "0" * 64 not in signers
    assert (await signers.sign(DRAFT)).pubkey == ALICE.pubkey
    draft = make_draft(BOB.pubkey, 5)
    assert (await signers.sign(draft)).pubkey == BOB.pubkey
    with pytest.raises(SignerUnavailable, match="no signer for 00000000… is at hand"):
        await signers.sign(make_draft("0" * 64, 5))


async def test_an_account_may_have_one_signer_of_each_means() -> None:
    key, bunker = Strange(), Strange(means=Means.NIP46)
    signers = at_hand(key, bunker, BOB)
    assert signers.of(ALICE.pubkey) == {Means.SECRET: key, Means.NIP46: bunker}
    assert signers.of("0" * 64) == {}
    assert list(signers) == [key, bunker, BOB]
    signers.of(ALICE.pubkey).clear()
    assert len(list(signers)) == 3


# Which of them


ALL = (Means.NIP07, Means.NIP46, Means.SECRET)


@pytest.mark.parametrize(
    ("away", "chosen"),
    [
        ((), Means.SECRET),
        ((Means.SECRET,), Means.NIP46),
        ((Means.SECRET, Means.NIP46), Means.NIP07),
        ((Means.NIP46,), Means.SECRET),
        ((Means.SECRET, Means.NIP07), Means.NIP46),
    ],
)
@pytest.mark.req("A4")
async def test_the_first_in_order_that_is_there_signs_alone(
    away: tuple[Means, ...], chosen: Means
) -> None:
    each = {means: Strange(means=means) for means in ALL}
    signers = at_hand(*each.values())
    for means in away:
        each[means].available = False
    event, by = await signers.sign_by_whom(DRAFT)
    assert (event.id, by) == (DRAFT.id, chosen)
    assert [means for means in ALL if each[means].asked] == [chosen]


@pytest.mark.req("A4")
async def test_who_turns_out_to_be_away_leaves_it_to_the_next() -> None:
    key = Strange(SignerUnavailable("locked"))
    bunker = Strange(ConnectionResetError("gone"), Means.NIP46)
    page = Strange(means=Means.NIP07)
    _, by = await at_hand(key, bunker, page).sign_by_whom(DRAFT)
    assert by is Means.NIP07
    assert len(key.asked) == len(bunker.asked) == len(page.asked) == 1


@pytest.mark.parametrize(
    "answer",
    [SignerRejected("no"), SignerTimeout("slow"), SignerFault("another event"), TimeoutError()],
)
@pytest.mark.req("A4", "A5")
async def test_a_no_is_not_taken_to_the_next(answer: Exception) -> None:
    """Who said no, or may still say yes, is not gone round."""
    bunker, page = Strange(answer, Means.NIP46), Strange(means=Means.NIP07)
    with pytest.raises(SignerError) as caught:
        await at_hand(bunker, page).sign(DRAFT)
    assert caught.value.code != "SIGNER_UNAVAILABLE"
    assert page.asked == []


async def test_where_all_are_away_the_first_ones_trouble_is_told() -> None:
    key, bunker = Strange(SignerUnavailable("locked")), Strange(means=Means.NIP46)
    signers = at_hand(bunker, key)
    bunker.available = False
    with pytest.raises(SignerUnavailable, match="^locked$"):
        await signers.sign(DRAFT)
    key.available = False
    with pytest.raises(SignerUnavailable, match="^nip46 is away; secret is away$"):
        await signers.sign(DRAFT)
    assert ALICE.pubkey in signers  # it is ours, even so


async def test_room_is_that_of_the_one_who_would_sign() -> None:
    key, bunker = Strange(), Strange(means=Means.NIP46)
    key.at_once, bunker.at_once = 256, 4
    signers = at_hand(key, bunker)
    assert signers.room(ALICE.pubkey) == 256
    key.available = False
    assert signers.room(ALICE.pubkey) == 4
    bunker.available = False
    assert signers.room(ALICE.pubkey) == 1
    assert signers.room(BOB.pubkey) == 1


# Time and troubles


@pytest.mark.req("A5")
async def test_a_signer_that_never_answers_is_not_waited_for() -> None:
    with pytest.raises(SignerTimeout, match="did not answer in 0.02 s") as caught:
        await at_hand(Strange(None), patience=0.02).sign(DRAFT)
    assert caught.value.code == "TIMEOUT"


@pytest.mark.req("A5")
async def test_who_keeps_the_time_itself_is_told_how_long_and_left_to_it() -> None:
    signer = Strange(None)
    signer.keeps_time = True
    signing = asyncio.create_task(at_hand(signer, patience=0.01).sign(DRAFT))
    assert signer.patience == 0.01
    done, _ = await asyncio.wait([signing], timeout=0.1)
    assert not done
    signing.cancel()
    await asyncio.wait([signing])


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (SignerRejected("no"), "USER_REJECTED"),
        (SignerUnavailable("away"), "SIGNER_UNAVAILABLE"),
        (SignerFault("other"), "SIGNER_FAULT"),
        (ConnectionResetError("gone"), "SIGNER_UNAVAILABLE"),
        (ZeroDivisionError(), "SIGNER_UNAVAILABLE"),
        (TimeoutError(), "TIMEOUT"),
    ],
)
@pytest.mark.req("A5")
async def test_every_trouble_of_a_signer_has_its_code(problem: Exception, code: str) -> None:
    with pytest.raises(SignerError) as caught:
        await at_hand(Strange(problem)).sign(DRAFT)
    assert caught.value.code == code


@pytest.mark.req("B7")
async def test_an_unexpected_fault_is_told_without_secrets() -> None:
    with pytest.raises(SignerUnavailable) as caught:
        await at_hand(Strange(OSError("bunker://k?secret=hush failed"))).sign(DRAFT)
    assert "hush" not in str(caught.value)


async def test_who_stops_waiting_is_not_a_signers_trouble() -> None:
    signing = asyncio.create_task(at_hand(Strange(None)).sign(DRAFT))
    await asyncio.sleep(0)
    signing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await signing


@pytest.mark.req("A2")
async def test_another_event_than_the_draft_is_refused() -> None:
    other = await ALICE.sign(make_draft(ALICE.pubkey, 6, 1, (), "another"))
    good = await ALICE.sign(DRAFT)
    unsigned = Event(
        good.id, good.pubkey, good.created_at, 1, good.tags, good.content, "0" * 128, good.raw
    )
    for answer in (other, unsigned):
        with pytest.raises(SignerFault, match="another event"):
            await at_hand(Strange(answer)).sign(DRAFT)


# Coming and going


@pytest.mark.req("A6")
async def test_everybody_is_told_who_came_and_who_asks() -> None:
    signers = Signers()
    came: list[str] = []
    asked: list[tuple[str, str]] = []
    signers.on_came = came.append
    signers.on_challenge = lambda pubkey, url: asked.append((pubkey, url))
    away, there = Strange(), Strange(owner=BOB)
    away.available = False
    signers.add(away)
    assert came == []
    signers.add(there)
    assert came == [BOB.pubkey]
    away.came()
    assert came == [BOB.pubkey, ALICE.pubkey]
    there.on_challenge("https://bunker.example")
    assert asked == [(BOB.pubkey, "https://bunker.example")]
    assert (away.starts, there.starts) == (1, 1)


async def test_a_new_signer_takes_the_place_of_one_of_its_means() -> None:
    first, second, bunker = Strange(), Strange(), Strange(means=Means.NIP46)
    signers = at_hand(first, bunker)
    signers.add(second)
    await signers.sign(DRAFT)
    assert (first.asked, second.asked) == ([], [DRAFT.id])
    signers.add(second)
    await signers.close()
    assert (first.closed, second.closed, bunker.closed) == (True, True, True)


async def test_a_signer_added_twice_is_not_closed() -> None:
    signer = Strange()
    signers = at_hand(signer)
    signers.add(signer)
    await asyncio.sleep(0)
    assert not signer.closed
    await signers.sign(DRAFT)


async def test_who_was_removed_is_asked_no_more() -> None:
    key, bunker = Strange(), Strange(means=Means.NIP46)
    signers = at_hand(key, bunker)
    signers.remove(Strange())  # another one of that means: not here
    signers.remove(Strange(owner=BOB))
    assert (await signers.sign_by_whom(DRAFT))[1] is Means.SECRET
    signers.remove(key)
    assert (await signers.sign_by_whom(DRAFT))[1] is Means.NIP46
    signers.remove(bunker)
    assert ALICE.pubkey not in signers
    assert signers.default is None
    with pytest.raises(SignerUnavailable, match="is at hand"):
        await signers.sign(DRAFT)
    await signers.close()
    assert key.closed
    assert bunker.closed


async def test_when_the_network_is_back_everybody_is_nudged() -> None:
    one, other = Strange(), Strange(owner=BOB)
    at_hand(one, other).nudge()
    assert (one.nudges, other.nudges) == (1, 1)


async def test_a_plain_signer_needs_nothing_more() -> None:
    signers = at_hand(ALICE)
    signers.nudge()
    assert ALICE.is_available
    assert ALICE.trouble == ""
    ALICE.on_challenge("https://bunker.example")
    await signers.close()
