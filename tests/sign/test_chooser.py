"""Which signer signs: the whole table, since it is small (A4)."""

from __future__ import annotations

from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.sign.chooser import ORDER, SPOKEN, Means, choose_signer

pytestmark = pytest.mark.req("A4")

SECRET, BUNKER, PAGE = Means.SECRET, Means.NIP46, Means.NIP07

TABLE: list[tuple[set[Means], Means | None]] = [
    (set(), None),
    ({SECRET}, SECRET),
    ({BUNKER}, BUNKER),
    ({PAGE}, PAGE),
    ({SECRET, BUNKER}, SECRET),
    ({SECRET, PAGE}, SECRET),
    ({BUNKER, PAGE}, BUNKER),
    ({SECRET, BUNKER, PAGE}, SECRET),
]


@pytest.mark.parametrize(("available", "chosen"), TABLE)
def test_the_key_signs_before_the_bunker_before_the_page(
    available: set[Means], chosen: Means | None
) -> None:
    assert choose_signer(available) is chosen
    for order in permutations(available):
        assert choose_signer(order) is chosen


def test_the_table_is_whole() -> None:
    subsets = {frozenset(found) for size in range(4) for found in combinations(Means, size)}
    assert {frozenset(available) for available, _ in TABLE} == subsets
    assert set(ORDER) == set(SPOKEN) == set(Means)


@given(st.frozensets(st.sampled_from(Means)), st.sampled_from(Means))
def test_who_was_chosen_and_goes_away_is_followed_by_the_next(
    available: frozenset[Means], more: Means
) -> None:
    """None only where nobody is; one more changes nothing, or is chosen itself."""
    chosen = choose_signer(available)
    assert (chosen is None) == (not available)
    assert chosen is None or chosen in available
    assert choose_signer(available | {more}) in (chosen, more)
    if chosen is not None:
        following = choose_signer(available - {chosen})
        assert following is None or ORDER.index(following) > ORDER.index(chosen)
