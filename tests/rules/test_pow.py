"""Proof of work (A14): what an id shows, what its author aimed for, what that costs."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.rules.pow import (
    committed_difficulty,
    difficulty_of,
    expected_hashes,
    meets,
    nonce_tag,
)

pytestmark = pytest.mark.req("A14")

IDS = st.integers(0, 2**256 - 1).map(lambda number: f"{number:064x}")
TAGS = st.lists(
    st.lists(st.text() | st.just("nonce") | st.integers(0, 300).map(str), min_size=1, max_size=4)
)
#: The id and the tag of NIP-13's own example.
EXAMPLE = "000006d8c378af1779d2feebc7603a125d99eca0ccf1085959b307f64e5dd358"
EXAMPLE_TAG = ["nonce", "776797", "20"]


@pytest.mark.parametrize(
    ("start", "bits"),
    [
        ("f", 0),
        ("8", 0),
        ("7", 1),
        ("4", 1),
        ("3", 2),
        ("2", 2),
        ("1", 3),
        ("08", 4),
        ("01", 7),
        ("002f", 10),
        ("00000000", 256),
    ],
)
def test_the_difficulty_is_the_leading_zero_bits(start: str, bits: int) -> None:
    assert difficulty_of(start.ljust(64, "0")) == bits


def test_the_nips_example_is_read_as_the_nip_reads_it() -> None:
    assert difficulty_of(EXAMPLE) == 21
    assert committed_difficulty([EXAMPLE_TAG]) == 20
    assert meets(EXAMPLE, [EXAMPLE_TAG], 20)
    assert not meets(EXAMPLE, [EXAMPLE_TAG], 21), "the 21st bit was luck"


@given(IDS)
def test_an_id_has_as_many_bits_as_its_binary_form_begins_with_zeros(event_id: str) -> None:
    text = f"{int(event_id, 16):0256b}"
    assert difficulty_of(event_id) == len(text) - len(text.lstrip("0"))


@pytest.mark.parametrize(
    ("tags", "committed"),
    [
        ([], None),
        ([["t", "nonce"], ["e", "nonce", "20"]], None),
        ([["nonce"]], None),
        ([["nonce", "5"]], None),
        ([["nonce", "5", ""]], None),
        ([["nonce", "5", "twenty"]], None),
        ([["nonce", "5", "-1"]], None),
        ([["nonce", "5", "1.5"]], None),
        ([["nonce", "5", " 20"]], None),
        ([["nonce", "5", "²"]], None),
        ([["nonce", "5", "٢٠"]], None),
        ([["nonce", "5", "257"]], None),
        ([["nonce", "5", "9" * 5000]], None),
        ([["nonce", "5", "256"]], 256),
        ([["nonce", "5", "0"]], 0),
        ([["nonce", "5", "020"]], 20),
        ([["nonce", "", "20"]], 20),
        ([["nonce", "5", "20", "more"]], 20),
        ([["t", "x"], ["nonce", "5", "20"], ["nonce", "6", "30"]], 20),
    ],
)
def test_a_commitment_is_what_the_first_nonce_tag_names(
    tags: list[list[str]], committed: int | None
) -> None:
    assert committed_difficulty(tags) == committed


def test_the_first_nonce_tag_is_the_one_that_counts() -> None:
    assert nonce_tag([["t", "nonce"]]) is None
    assert nonce_tag([["t", "x"], ["nonce"], ["nonce", "6", "30"]]) == ["nonce"]


@pytest.mark.parametrize(
    ("actual", "committed", "required", "good"),
    [
        (20, "20", 20, True),
        (25, "20", 20, True),
        (25, "22", 20, True),
        (25, "20", 21, False),  # lucky, but aimed lower
        (19, "20", 20, False),
        (19, "20", 10, False),  # enough, but not what was promised
        (20, None, 20, True),
        (19, None, 20, False),
        (20, "garbage", 20, True),
        (19, "garbage", 20, False),
        (0, None, 0, True),
        (0, "0", 0, True),
        (256, "256", 256, True),
    ],
)
def test_work_counts_where_it_was_aimed_for(
    actual: int, committed: str | None, required: int, good: bool
) -> None:
    event_id = f"{(1 << 256 - actual) - 1:064x}"
    tags = [] if committed is None else [["nonce", "1", committed]]
    assert difficulty_of(event_id) == actual
    assert meets(event_id, tags, required) is good


@given(IDS, TAGS, st.integers(0, 256))
def test_any_tags_can_be_judged_and_more_is_never_easier(
    event_id: str, tags: list[list[str]], required: int
) -> None:
    actual, committed = difficulty_of(event_id), committed_difficulty(tags)
    assert committed is None or 0 <= committed <= 256
    if meets(event_id, tags, required):
        assert actual >= required
        assert committed is None or required <= committed <= actual
        assert all(meets(event_id, tags, less) for less in range(required))
    else:
        assert actual < required or (committed is not None and not required <= committed <= actual)


@given(st.integers(0, 8), st.integers(0, 2**32))
def test_the_expected_hashes_are_what_it_takes(bits: int, seed: int) -> None:
    """Twenty-four times as many fail once in twenty thousand million runs."""
    enough = 24 * expected_hashes(bits)
    tried = (hashlib.sha256(b"%d %d" % (seed, n)).hexdigest() for n in range(enough))
    assert any(difficulty_of(event_id) >= bits for event_id in tried)


@pytest.mark.parametrize("bits", [0, 1, 20, 64, 256])
def test_expected_hashes_are_exact_where_floats_are_not(bits: int) -> None:
    assert expected_hashes(bits) == 2**bits
