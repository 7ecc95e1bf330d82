"""How many strangers' relays are dialled, and for whom first (C7, C8), in a time of our own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postrich.rules.dialling import JITTER, PAUSE, PER_MINUTE, WINDOW, DialBudget, Tier

MESSAGE, PUBLISH, FEED, LOOKUP = Tier
NO_CHANCE = 0.0


class Door:
    """A budget, and the time that it is told."""

    def __init__(self, per_minute: int = PER_MINUTE) -> None:
        self.budget = DialBudget(per_minute)
        self.now = 1000.0
        self.asked = 0

    def admits(self, tier: Tier, who: str | None = None) -> bool:
        self.asked += 1
        name = who or f"relay {self.asked}"
        return self.budget.ask(name, tier, self.now, NO_CHANCE) == 0.0

    def admitted(self, tier: Tier, of: int) -> int:
        return sum(self.admits(tier) for _ in range(of))


@pytest.mark.req("C7")
@pytest.mark.parametrize(("tier", "most"), [(MESSAGE, 12), (PUBLISH, 8), (FEED, 8), (LOOKUP, 8)])
def test_so_many_a_minute(tier: Tier, most: int) -> None:
    assert Door().admitted(tier, of=30) == most


@pytest.mark.req("C8")
def test_four_of_twelve_are_kept_for_messages() -> None:
    door = Door()
    assert door.admitted(PUBLISH, of=30) == 8
    assert door.admitted(LOOKUP, of=30) == 0
    assert door.admitted(MESSAGE, of=30) == 4
    assert door.admitted(MESSAGE, of=30) == 0


@pytest.mark.req("C8")
@pytest.mark.parametrize("messages", range(13))
def test_the_others_share_what_messages_leave_them(messages: int) -> None:
    door = Door()
    assert door.admitted(MESSAGE, of=messages) == messages
    others = sum(door.admits(tier) for tier in [PUBLISH, FEED, LOOKUP] * 10)
    assert others == min(8, 12 - messages)


@pytest.mark.req("C8")
@pytest.mark.parametrize(
    ("per_minute", "published"), [(1, 1), (2, 2), (3, 2), (4, 3), (6, 4), (60, 40)]
)
def test_a_smaller_budget_leaves_room_for_publishing_too(per_minute: int, published: int) -> None:
    assert Door(per_minute).admitted(PUBLISH, of=100) == published


@pytest.mark.req("C7")
def test_the_minute_slides() -> None:
    door = Door()
    for _ in range(8):
        assert door.admits(PUBLISH)
        door.now += 1.0
    assert not door.admits(PUBLISH)
    door.now = 1000.0 + WINDOW - 0.001
    assert not door.admits(PUBLISH)
    door.now = 1000.0 + WINDOW
    assert door.admits(PUBLISH), "the first is a minute old"
    assert not door.admits(PUBLISH), "the second is not"
    door.now += 1.0
    assert door.admits(PUBLISH)


@pytest.mark.req("C8")
@given(st.floats(0, 1, exclude_max=True))
def test_who_is_refused_asks_again_after_a_moment_with_jitter(chance: float) -> None:
    door = Door()
    door.admitted(MESSAGE, of=12)
    wait = door.budget.ask("late", MESSAGE, door.now, chance)
    assert wait == pytest.approx(0.1 + 0.2 * chance)
    assert (PAUSE, JITTER) == (0.1, 0.2)


@pytest.mark.req("C8")
def test_who_wants_to_publish_is_not_starved_by_reading() -> None:
    door = Door()
    door.admitted(LOOKUP, of=8)
    assert not door.admits(PUBLISH, "waiting")
    door.now += WINDOW
    door.budget.ask("waiting", PUBLISH, door.now - 0.2, NO_CHANCE)
    assert not door.admits(FEED), "a place is free, but it is for who wants to publish"
    assert not door.admits(LOOKUP)
    assert door.admits(MESSAGE), "messages have their own"
    assert door.admits(PUBLISH, "waiting")
    assert door.admits(FEED), "nobody wants to publish any more"


@pytest.mark.req("C8")
def test_one_publish_in_a_slice_is_enough_for_reading_to_go_on() -> None:
    door = Door(30)
    assert door.admits(PUBLISH)
    door.admitted(MESSAGE, of=10)
    door.admitted(FEED, of=19)
    assert not door.admits(PUBLISH, "waiting")
    door.now += WINDOW  # a new slice: everything is free again
    assert door.admits(PUBLISH, "another")
    door.budget.ask("waiting", PUBLISH, door.now, NO_CHANCE)
    assert door.admits(FEED)


@pytest.mark.req("C8")
def test_who_asks_no_more_is_not_waited_for() -> None:
    door = Door()
    door.admitted(PUBLISH, of=8)
    assert not door.admits(PUBLISH, "gone")
    door.now += WINDOW
    assert door.admits(LOOKUP)


CALLS = st.lists(
    st.tuples(
        st.floats(0, 30), st.sampled_from(list(Tier)), st.integers(0, 40), st.floats(0, 0.999)
    ),
    max_size=120,
)


@pytest.mark.req("C7", "C8")
@given(CALLS, st.integers(1, 24))
def test_in_no_minute_are_more_granted_than_allowed(
    calls: list[tuple[float, Tier, int, float]], per_minute: int
) -> None:
    budget = DialBudget(per_minute)
    now = 0.0
    granted: list[tuple[float, Tier]] = []
    for pause, tier, who, chance in calls:
        now += pause
        wait = budget.ask(f"relay {who}", tier, now, chance)
        assert wait == 0.0 or 0.1 <= wait < 0.3
        if wait == 0.0:
            granted.append((now, tier))
    for begin, _ in granted:
        window = [tier for at, tier in granted if begin <= at < begin + WINDOW]
        assert len(window) <= per_minute
        others = sum(tier is not MESSAGE for tier in window)
        assert others <= per_minute - per_minute // 3
