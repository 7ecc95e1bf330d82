"""How long choosing relays takes, on a made-up network that looks like the real one.

Promises of `network`: the same lists for the same arguments. Its margins are those of the 2026
survey of live relays and of real kind-10002 lists: 52–91 % of people publish a usable list, half
of these name seven relays or more, one relay is on most lists and most relays are on few. People
come in circles that share taste, without which greedy choices would look better than they are.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from itertools import accumulate, chain

from bench.figures import Figure
from postrich.rules.selection import cover

#: How many relays a list names: every other value of 72 real lists, in order.
LENGTHS = (
    *(1, 1, 3, 3, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 7, 8, 8, 8),
    *(8, 9, 9, 10, 10, 10, 10, 11, 11, 12, 13, 14, 15, 16, 17, 17, 21, 31),
)
STEEPNESS = 1.25
LEAST_USABLE, MOST_USABLE = 0.52, 0.91
CIRCLE_TASTE = 0.5
ROUNDS = 5


def network(seed: int, people: int, relays: int, circles: int = 12) -> dict[str, tuple[str, ...]]:
    """Where everybody writes; nobody knows where for those without a usable list."""
    chance = random.Random(seed)
    usable = chance.uniform(LEAST_USABLE, MOST_USABLE)
    urls = [f"wss://relay{number}.example/" for number in range(relays)]
    shares = list(accumulate(rank**-STEEPNESS for rank in range(1, relays + 1)))
    tastes = [chance.sample(urls, relays) for _ in range(circles)]
    lists: dict[str, tuple[str, ...]] = {}
    for _ in range(people):
        taste, length = chance.choice(tastes), chance.choice(LENGTHS)
        if chance.random() > usable:
            length = 0
        near = round(length * CIRCLE_TASTE)
        named = chance.choices(taste, cum_weights=shares, k=near)
        named += chance.choices(urls, cum_weights=shares, k=length - near)
        lists[chance.randbytes(32).hex()] = tuple(dict.fromkeys(named))
    return lists


def selection() -> list[Figure]:
    """A plan for the people whom one follows, and one for everybody."""
    few = _figure("plan: 1,000 authors", network(1, 1_000, 400), "ms", 1_000, "< 10")
    many = _figure("plan: 100,000 authors, 8,000 relays", network(1, 100_000, 8_000), "s", 1, "< 2")
    return [few, many]


def _figure(
    name: str, lists: dict[str, tuple[str, ...]], unit: str, per_second: int, goal: str
) -> Figure:
    plans, counts = [], []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        Counter(chain.from_iterable(lists.values()))
        counted = time.perf_counter()
        cover(lists)
        plans.append(time.perf_counter() - counted)
        counts.append(counted - started)
    ratios = {"counting the relays": min(plans) / min(counts)}
    return Figure(name, min(plans) * per_second, unit, ratios, goal)
