"""The peer nostr-sdk: how many ids a second its MultiThreadPow tries, on all cores it may use.

    python nostr_sdk_pow.py [seconds=2] [difficulty=20]

Promises: the same short note each time but for its `created_at`, mined again until the time is up;
its threads count nonces together, so the nonce that was found is the number of ids tried.
Prints one JSON line {"seconds", "hashes", "rate"}.
"""

import json
import sys
from time import perf_counter

from nostr_sdk import (  # type: ignore[import-untyped, unused-ignore]
    MultiThreadPow,
    UnsignedEvent,
)

PUBKEY = "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"


def mine_one(created_at: int, difficulty: int) -> int:
    """Mine one note; returns how many ids were tried."""
    note = {"pubkey": PUBKEY, "created_at": created_at, "kind": 1, "tags": [], "content": "work"}
    mined = UnsignedEvent.from_json(json.dumps(note)).mine(MultiThreadPow(), difficulty)
    return int(json.loads(mined.as_json())["tags"][-1][1])


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    difficulty = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    mine_one(0, 4)
    hashes, created_at, start = 0, 1_700_000_000, perf_counter()
    while (took := perf_counter() - start) < seconds:
        hashes += mine_one(created_at, difficulty)
        created_at += 1
    print(json.dumps({"seconds": took, "hashes": hashes, "rate": hashes / took}))


if __name__ == "__main__":
    main()
