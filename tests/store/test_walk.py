"""Hundreds of random verbs: no job is lost, and every move is legal, told and counted."""

from __future__ import annotations

import pytest

from tests.store.conftest import Place
from tests.store.walking import Walk

pytestmark = pytest.mark.req("A1", "A3", "A7", "A9", "A10", "A11", "B6", "B8")


@pytest.mark.parametrize("seed", range(8))
async def test_a_walk(place: Place, seed: int) -> None:
    await Walk(place.reopen, seed).run(200)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1100))
async def test_a_long_walk(place: Place, seed: int) -> None:
    await Walk(place.reopen, seed).run(600)
