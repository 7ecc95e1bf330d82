"""The benchmark's events: n signed kind-1 notes, the same for the same seed, kept in a file.

Promises: `corpus(path, n)` returns n event JSON texts with distinct ids and valid NIP-01 ids and
signatures, and leaves exactly these, one per line, at `path` for peers in other languages.
A file that already holds them is read, not made again; any other file there is replaced in one
step. The notes are about 200 characters long with two or three tags, by 50 authors; a smaller
corpus is the beginning of a bigger one with the same seed.
"""

import argparse
import hashlib
import os
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from time import perf_counter

import msgspec
from coincurve import PrivateKey

SEED = 1
AUTHORS = 50
FIRST_CREATED_AT = 1_750_000_000
CONTENT_CHARS = 200
NO_AUX = bytes(32)  # fixed auxiliary randomness makes Schnorr signatures repeatable
PROSE = (
    "the a of and to in is it that for on with as was at by this we you from not have relay note "
    "nostr ostrich bird desert morning coffee bitcoin zap client signing keys protocol simple why "
    "people today great building finally network down again queue offline deliver café naïve 東京 "
    "приветы 🪶 🐦 ⚡ “quoted” it's don't \"really\" https://example.com/a/b?c=d&e=f #nostr #intro"
)
WORDS = PROSE.split()
TOPICS = ("nostr", "introductions", "bitcoin", "birds", "coffee", "books", "music", "photography")


class Event(msgspec.Struct):
    """A signed event, its fields in the usual order of the wire."""

    id: str
    pubkey: str
    created_at: int
    kind: int
    tags: list[list[str]]
    content: str
    sig: str


class Author:
    """A key that signs, with its public key at hand."""

    def __init__(self, seed: int, number: int) -> None:
        self._key = PrivateKey(hashlib.sha256(f"postrich bench {seed} {number}".encode()).digest())
        self.pubkey = self._key.public_key.format()[1:].hex()

    def sign(self, created_at: int, tags: list[list[str]], content: str, kind: int = 1) -> Event:
        body = [0, self.pubkey, created_at, kind, tags, content]
        digest = hashlib.sha256(msgspec.json.encode(body)).digest()
        sig = self._key.sign_schnorr(digest, NO_AUX).hex()
        return Event(digest.hex(), self.pubkey, created_at, kind, tags, content, sig)


def make_content(chance: random.Random) -> str:
    """Some prose of about `CONTENT_CHARS` characters."""
    size = chance.randint(CONTENT_CHARS - 50, CONTENT_CHARS + 50)
    words: list[str] = []
    length = 0
    while length < size:
        words.append(chance.choice(WORDS))
        length += len(words[-1]) + 1
    middle = len(words) // 2
    return " ".join(words[:middle]) + "\n\n" + " ".join(words[middle:])


def make_tags(chance: random.Random, authors: list[Author]) -> list[list[str]]:
    """A topic, a mention and, for every other note, the event it replies to."""
    tags = [["t", chance.choice(TOPICS)], ["p", chance.choice(authors).pubkey]]
    if chance.random() < 0.5:
        parent = chance.randbytes(32).hex()
        tags.insert(0, ["e", parent, "wss://relay.example.com", "root"])
    return tags


def events(seed: int = SEED) -> Iterator[bytes]:
    """The endless corpus of a seed, as JSON texts."""
    chance = random.Random(seed)
    authors = [Author(seed, number) for number in range(AUTHORS)]
    created_at = FIRST_CREATED_AT
    while True:
        author = chance.choice(authors)
        event = author.sign(created_at, make_tags(chance, authors), make_content(chance))
        yield msgspec.json.encode(event)
        created_at += 1


def read_cache(path: Path, n: int, seed: int) -> list[bytes] | None:
    """The n events at `path`, or None if count or first event tell that it holds others."""
    if not path.exists():
        return None
    lines = path.read_bytes().splitlines()
    return lines if len(lines) == n and lines[:1] == list(islice(events(seed), min(n, 1))) else None


def write_cache(path: Path, lines: list[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    draft.write_bytes(b"".join(line + b"\n" for line in lines))
    draft.replace(path)


def corpus(path: Path | str, n: int, seed: int = SEED) -> list[bytes]:
    """The first n events of a seed, also left as JSON lines at `path`."""
    path = Path(path)
    lines = read_cache(path, n, seed)
    if lines is None:
        lines = list(islice(events(seed), n))
        write_cache(path, lines)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the benchmark's signed events.")
    parser.add_argument("path", type=Path, help="the JSON lines file to make or reuse")
    parser.add_argument("n", type=int, help="how many events")
    parser.add_argument("--seed", type=int, default=SEED)
    args = parser.parse_args()
    start = perf_counter()
    lines = corpus(args.path, args.n, args.seed)
    print(f"{len(lines)} events in {perf_counter() - start:.2f} s: {args.path}")


if __name__ == "__main__":
    main()
