"""All benches: `make bench`, or `python -m bench [name …]`. Ratios count; the machine is noisy.

Whatever is compared runs in turns in the same run, and the best of several rounds is taken of
each side.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.alarm import measure_alarm
from bench.claims import measure_claims
from bench.corpus import corpus
from bench.figures import Figure, keep, show
from bench.http import measure_http
from bench.partners import CACHE, nostr_sdk, nostr_sdk_pow, nostr_tools, null_relays, ours
from bench.postgres import postgres
from bench.selection import selection
from bench.workers import measure_workers

EVENTS = 10_000
ROUNDS = 5
MANY = 1_000_000
FEW = 1_000
DEAD = "ws://127.0.0.1:1/"
CORES = os.cpu_count() or 1
MINING_SECONDS = 3.0
PACE = 0.05  # 100 events in every 50 ms: about a third of what goes flat out


def _events() -> Path:
    CACHE.mkdir(exist_ok=True)
    path = CACHE / f"events-{EVENTS}.jsonl"
    corpus(path, EVENTS)
    return path


def fanout() -> list[Figure]:
    """10,000 events to three null relays, against the peers on the same events and relays."""
    events = _events()
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        with null_relays() as urls:
            answers = {
                "postrich": ours("fanout", str(events), ",".join(urls)),
                "nostr-tools": nostr_tools(events, urls, "plain"),
                "nostr-tools, writes corked by us": nostr_tools(events, urls, "corked"),
                "nostr-sdk": nostr_sdk(events, urls),
            }
        for name, answer in answers.items():
            best[name] = max(best.get(name, 0.0), answer["oks"] / answer["seconds"])
    mine = best.pop("postrich")
    figures = [
        Figure(
            "fan-out: verified, durable, recorded",
            mine,
            "OKs/s",
            {peer: mine / rate for peer, rate in best.items()},
            "≥ 0.7 × nostr-tools, ≥ 3 × nostr-sdk",
        )
    ]
    figures += [Figure(f"fan-out: {peer}", rate, "OKs/s", {}) for peer, rate in best.items()]
    return figures


def planned() -> list[Figure]:
    """The same events, where relay lists say where each goes: 2,500 plans, none known before."""
    events = _events()
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        for task in ("planned", "fanout"):
            with null_relays() as urls:
                answer = ours(task, str(events), ",".join(urls))
            best[task] = max(best.get(task, 0.0), answer["oks"] / answer["seconds"])
    ratios = {"named relays": best["planned"] / best["fanout"]}
    return [Figure("fan-out, planned by relay lists", best["planned"], "OKs/s", ratios)]


def accept() -> list[Figure]:
    """Durable, verified accepts against the bare check of the same events."""
    events = _events()
    accepts: list[float] = []
    one: list[float] = []
    every: list[float] = []
    for _ in range(ROUNDS):
        answer = ours("accept", str(events))
        accepts.append(answer["accepted"] / answer["seconds"])
        rates = ours("verify", str(events))
        one.append(rates["one_core"])
        every.append(rates["all_cores"])
    mine = max(accepts)
    ratios = {"bare verify, one core": mine / max(one), "bare verify, all cores": mine / max(every)}
    return [
        Figure("accept: verified, durable", mine, "events/s", ratios, "≥ 0.6 × bare verify"),
        Figure("bare verify, one core", max(one), "events/s", {}),
        Figure("bare verify, all cores", max(every), "events/s", {}),
    ]


def backlog() -> list[Figure]:
    """A million jobs waiting: memory, start-up, and claims as quick as with a thousand."""
    events = _events()
    found = {}
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        for count in (FEW, MANY):
            store = f"{folder}/{count}.db"
            ours("fill", store, str(count), str(events))
            found[count] = ours("waiting", store)
            assert found[count]["pending"] == count
    many, few = found[MANY], found[FEW]
    ratio = {f"{FEW:,} jobs": many["claim_ms"] / few["claim_ms"]}
    return [
        Figure("1,000,000 waiting: peak memory", many["memory_mb"], "MB", {}, "< 200"),
        Figure("1,000,000 waiting: start-up", many["start_up"], "s", {}, "< 2"),
        Figure("1,000,000 waiting: claim of 512", many["claim_ms"], "ms", ratio, "≤ 1.5 ×"),
    ]


def dead_relay() -> list[Figure]:
    """What one dead relay of three costs the other two."""
    events = _events()
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        with null_relays(3) as urls:
            first, second, third = urls
            live = f"{first},{second}"
            runs = {
                "one of three dead": ours("fanout", str(events), f"{live},{DEAD}", live),
                "all three alive": ours("fanout", str(events), f"{live},{third}"),
                "two relays alone": ours("fanout", str(events), live),
            }
        for name, answer in runs.items():
            best[name] = max(best.get(name, 0.0), EVENTS / answer["seconds"])
    mine = best.pop("one of three dead")
    ratios = {name: mine / rate for name, rate in best.items()}
    goal = "≥ 0.95 × all three alive"
    return [Figure("one dead relay of three: the other two", mine, "events/s", ratios, goal)]


def mining() -> list[Figure]:
    """Ids tried a second on all cores, against nostr-sdk's MultiThreadPow."""
    mine, theirs = 0.0, 0.0
    for _ in range(ROUNDS):
        mine = max(mine, ours("mine_alone", str(MINING_SECONDS), str(CORES))["rate"])
        theirs = max(theirs, nostr_sdk_pow(MINING_SECONDS)["rate"])
    ratio = {"nostr-sdk's MultiThreadPow": mine / theirs}
    return [
        Figure(f"mining on {CORES} cores", mine, "hashes/s", ratio, "≥ 1 ×"),
        Figure("mining: nostr-sdk's MultiThreadPow", theirs, "hashes/s", {}),
    ]


def mining_beside() -> list[Figure]:
    """What a miner and the lanes cost each other, at an easy pace and flat out."""
    return [
        *_beside("paced", PACE, "≥ 0.9 ×"),
        *_beside("flat out", 0.0, ""),
    ]


def _beside(load: str, pace: float, goal: str) -> list[Figure]:
    events, miners = str(_events()), str(max(1, CORES - 1))
    seconds = str(MINING_SECONDS)
    lanes, lanes_alone, miner, miner_alone = 0.0, 0.0, 0.0, 0.0
    for _ in range(ROUNDS):
        with null_relays() as urls:
            both = ours("beside", events, ",".join(urls), str(pace), miners, seconds)
        with null_relays() as urls:
            alone = ours("beside", events, ",".join(urls), str(pace), "0", seconds)
        lanes, lanes_alone = max(lanes, both["oks_rate"]), max(lanes_alone, alone["oks_rate"])
        miner = max(miner, both["hash_rate"])
        miner_alone = max(miner_alone, ours("mine_alone", seconds, miners)["rate"])
    by_lanes = {"lanes alone": lanes / lanes_alone}
    by_miner = {"miner alone": miner / miner_alone}
    return [
        Figure(f"lanes {load} beside a miner", lanes, "OKs/s", by_lanes, goal),
        Figure(f"miner beside lanes {load}", miner, "hashes/s", by_miner, goal),
    ]


def workers() -> list[Figure]:
    """Two workers on one PostgreSQL: end to end, and where relays are slow."""
    return measure_workers(_events())


def claims() -> list[Figure]:
    """Claims on PostgreSQL as queue and history grow."""
    return measure_claims()


def alarm() -> list[Figure]:
    """A million posts ahead: how late those are that are due."""
    return measure_alarm()


def http() -> list[Figure]:
    """The scheduling service, one post a request and many."""
    return measure_http()


def help_speed() -> list[Figure]:
    """`postrich --help`, from start to end."""
    program = str(Path(sys.executable).with_name("postrich"))
    times, bare = [], []
    for _ in range(15):
        times.append(_time([program, "--help"]))
        bare.append(_time([sys.executable, "-c", "pass"]))
    value = min(times) * 1000
    ratios = {"an empty Python": min(times) / min(bare)}
    return [Figure("postrich --help", value, "ms", ratios, "< 200")]


def _time(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


BENCHES: dict[str, Callable[[], list[Figure]]] = {
    bench.__name__: bench
    for bench in (
        *(fanout, planned, accept, backlog, dead_relay, mining, mining_beside, selection),
        *(postgres, claims, workers, http, alarm, help_speed),
    )
}


def main() -> None:
    names = sys.argv[1:] or list(BENCHES)
    unknown = set(names) - set(BENCHES)
    if unknown:
        raise SystemExit(f"no bench is called {unknown.pop()}; there are {', '.join(BENCHES)}")
    figures: list[Figure] = []
    for name in names:
        print(f"… {name}", file=sys.stderr, flush=True)
        figures += BENCHES[name]()
    print(show(figures))
    if len(names) == len(BENCHES):
        keep(figures)


if __name__ == "__main__":
    main()
