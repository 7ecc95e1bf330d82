"""The seam for signers: who signs for whom, how long we wait, and what we believe."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from postrich import Draft, Event, SecretSigner, make_draft
from postrich.errors import SignerError, SignerRejected, SignerTimeout, SignerUnavailable
from postrich.sign.signer import Signer, Signers

ALICE, BOB = SecretSigner(b"\x01" * 32), SecretSigner(b"\x02" * 32)
DRAFT = make_draft(ALICE.pubkey, 5, 1, (), "hello")


class Strange(Signer):
    """A signer of Alice's account that answers as it was told to."""

    pubkey = ALICE.pubkey

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def sign(self, draft: Draft) -> Event:
        if isinstance(self._answer, BaseException):
            raise self._answer
        if self._answer is None:
            await asyncio.Event().wait()
        answer: Event = self._answer
        return answer


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
    with pytest.raises(SignerUnavailable, match="no signer for 00000000… is at hand"):
        await signers.sign(make_draft("0" * 64, 5))


@pytest.mark.req("A5")
async def test_a_signer_that_never_answers_is_not_waited_for() -> None:
    signers = Signers(patience=0.02)
    signers.add(Strange(None))
    with pytest.raises(SignerTimeout, match="did not answer in 0.02 s") as caught:
        await signers.sign(DRAFT)
    assert caught.value.code == "TIMEOUT"


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (SignerRejected("no"), "USER_REJECTED"),
        (SignerUnavailable("away"), "SIGNER_UNAVAILABLE"),
        (ConnectionResetError("gone"), "SIGNER_UNAVAILABLE"),
        (ZeroDivisionError(), "SIGNER_UNAVAILABLE"),
        (TimeoutError(), "TIMEOUT"),
    ],
)
@pytest.mark.req("A5")
async def test_every_trouble_of_a_signer_has_its_code(problem: Exception, code: str) -> None:
    signers = Signers()
    signers.add(Strange(problem))
    with pytest.raises(SignerError) as caught:
        await signers.sign(DRAFT)
    assert caught.value.code == code


@pytest.mark.req("A2")
async def test_another_event_than_the_draft_is_refused() -> None:
    other = await ALICE.sign(make_draft(ALICE.pubkey, 6, 1, (), "another"))
    good = await ALICE.sign(DRAFT)
    unsigned = Event(
        good.id, good.pubkey, good.created_at, 1, good.tags, good.content, "0" * 128, good.raw
    )
    for answer in (other, unsigned):
        signers = Signers()
        signers.add(Strange(answer))
        with pytest.raises(SignerError, match="another event"):
            await signers.sign(DRAFT)
