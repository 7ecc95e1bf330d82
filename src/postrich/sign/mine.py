"""Proof of work (NIP-13), mined before signing on cores that nobody else wants.

Promises: the mined draft is the given one with one more tag at its end, and its true id shows the
work, which is checked here: the helper processes are believed nothing. They run at the lowest
priority, know no secret, and end with whoever waits for them, however that ends.

A helper hashes what comes before the nonce once and goes on from there for every nonce; how
that compares with others is in docs/decisions/0008-mining.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec

from postrich.clock import SystemClock
from postrich.errors import BadSetting, InvalidEvent, PostrichError
from postrich.model.event import Draft, make_draft
from postrich.rules.pow import ID_BITS, difficulty_of, expected_hashes, meets, nonce_tag
from postrich.sign.helpers import start_helper

#: At a hundred million hashes a second, 64 bits take six thousand years.
HOPELESS = 64
WIDEST_NONCE = 10**20 - 1
TABLE_DIGITS = 3
TABLE_BYTES = 1_000_000
REPORT_SECONDS = 0.1
PROGRESS_SECONDS = 0.2
_NONCE_OPENS = b'"nonce","'  # as part of a text its quotes would be escaped
_PROGRAM = "from postrich.sign.mine import dig; dig()"


class MiningProgress(msgspec.Struct, frozen=True):
    """How far the search is. Luck decides: `expected` is an average, not an end."""

    hashes: int
    expected: int
    seconds: float

    @property
    def rate(self) -> float:
        """Hashes a second, over all processes."""
        return self.hashes / self.seconds if self.seconds else 0.0


class Share(msgspec.Struct, frozen=True):
    """One helper's share: nonces whose high part is `first`, `first + step`, and so on."""

    prefix: bytes
    suffix: bytes
    difficulty: int
    first: int
    step: int


async def mine(
    draft: Draft,
    difficulty: int,
    *,
    processes: int | None = None,
    on_progress: Callable[[MiningProgress], None] | None = None,
) -> Draft:
    """The draft with a nonce tag at its end that gives its id so many leading zero bits.

    A draft that has a nonce is returned as it is if it meets the difficulty, else refused.
    `on_progress` is called at once, about five times a second, and at the end.
    """
    _check_difficulty(difficulty)
    if nonce_tag(draft.tags) is not None:
        return _already_mined(draft, difficulty)
    shares = _shares(draft, difficulty, _process_count(processes))
    nonce = await _Crew(shares, expected_hashes(difficulty), on_progress).find()
    mined = _with_nonce(draft, nonce, difficulty)
    if difficulty_of(mined.id) < difficulty:
        raise PostrichError("mining failed: a helper process returned a nonce that does not work")
    return mined


def _check_difficulty(difficulty: int) -> None:
    if type(difficulty) is not int or not 0 <= difficulty <= ID_BITS:
        raise BadSetting(f"a difficulty is a whole number of bits from 0 to {ID_BITS}")
    if difficulty > HOPELESS:
        raise BadSetting(
            f"{difficulty} bits of work are hopeless; more than {HOPELESS} are refused"
        )


def _process_count(asked: int | None) -> int:
    if asked is None:
        return max(1, _cores() - 1)
    if asked < 1:
        raise BadSetting("mining needs at least one process")
    return asked


def _cores() -> int:
    """The cores that this process may use, which in a container are not all of them."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _already_mined(draft: Draft, difficulty: int) -> Draft:
    if meets(draft.id, draft.tags, difficulty):
        return draft
    raise InvalidEvent(
        f"the draft has a nonce that does not show {difficulty} bits of work; a nonce is never "
        "changed, so mine the draft without it"
    )


def _with_nonce(draft: Draft, nonce: int, difficulty: int) -> Draft:
    tags = (*draft.tags, ("nonce", str(nonce), str(difficulty)))
    return make_draft(draft.pubkey, draft.created_at, draft.kind, tags, draft.content)


def _shares(draft: Draft, difficulty: int, count: int) -> list[Share]:
    """The same work for each helper, but for the nonces: none is tried twice."""
    sample = _with_nonce(draft, WIDEST_NONCE, difficulty)
    nonce = b"%d" % WIDEST_NONCE
    text = _serialise(sample)
    at = text.rindex(_NONCE_OPENS) + len(_NONCE_OPENS)
    prefix, suffix = text[:at], text[at + len(nonce) :]
    if sha256(prefix + nonce + suffix).hexdigest() != sample.id:
        raise PostrichError("mining failed: the draft was not read as its id is made")
    return [Share(prefix, suffix, difficulty, 1 + number, count) for number in range(count)]


def _serialise(draft: Draft) -> bytes:
    """What an id is the hash of; proven against `Draft.id` before anybody works on it."""
    fields = (0, draft.pubkey, draft.created_at, draft.kind, draft.tags, draft.content)
    return msgspec.json.encode(fields)


class _Crew:
    """The helpers of one mining, of which the first to find a nonce is enough."""

    def __init__(
        self,
        shares: Sequence[Share],
        expected: int,
        on_progress: Callable[[MiningProgress], None] | None,
    ) -> None:
        self._diggers = [_Digger(share) for share in shares]
        self._expected = expected
        self._on_progress = on_progress
        self._clock = SystemClock()
        self._started = self._clock.tick()

    async def find(self) -> int:
        """A nonce; whatever happens meanwhile, no helper is left behind."""
        tasks = [asyncio.create_task(digger.dig()) for digger in self._diggers]
        try:
            return await self._first_of(set(tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.shield(asyncio.ensure_future(self._end(tasks)))

    async def _end(self, tasks: Sequence[asyncio.Task[int | None]]) -> None:
        await asyncio.wait(tasks)
        await asyncio.gather(*(digger.end() for digger in self._diggers))

    async def _first_of(self, searching: set[asyncio.Task[int | None]]) -> int:
        while searching:
            self._report()
            done, searching = await asyncio.wait(
                searching, timeout=PROGRESS_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            for nonce in (task.result() for task in done):
                if nonce is not None:
                    self._report()
                    return nonce
        endings = ", ".join(sorted({digger.ending for digger in self._diggers}))
        raise PostrichError(f"mining failed: every helper process {endings}")

    def _report(self) -> None:
        if self._on_progress is not None:
            hashes = sum(digger.hashes for digger in self._diggers)
            seconds = self._clock.tick() - self._started
            self._on_progress(MiningProgress(hashes, self._expected, seconds))


class _Digger:
    """One helper process. Whoever lets it dig must end it, also when the digging is cancelled."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._process: asyncio.subprocess.Process | None = None
        self.hashes = 0
        self.ending = ""

    async def dig(self) -> int | None:
        """The nonce that the process found, or None if it ended without one."""
        try:
            self._process = await _start()
        except OSError as problem:
            self.ending = f"could not be started: {problem}"
            return None
        nonce = await self._follow(self._process)
        if nonce is None:
            await self.end()
        return nonce

    async def end(self) -> None:
        """End it, if that has not happened yet."""
        if self._process is not None:
            await _end(self._process)
            self.ending = f"ended with status {self._process.returncode}"

    async def _follow(self, process: asyncio.subprocess.Process) -> int | None:
        assert process.stdin is not None
        assert process.stdout is not None
        body = msgspec.msgpack.encode(self._share)
        with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: uvloop
            process.stdin.write(len(body).to_bytes(4, "big") + body)
            await process.stdin.drain()
        with contextlib.suppress(OSError, ValueError):  # ValueError: what came is no report
            while line := await process.stdout.readline():
                self.hashes, nonce = msgspec.json.decode(line, type=tuple[int, int | None])
                if nonce is not None:
                    return nonce
        return None


async def _start() -> asyncio.subprocess.Process:
    return await start_helper(_PROGRAM)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill it, and wait until nothing is left of it: no pipe, no zombie.

    One that has closed its stdout is dying already; to signal it could take its exit status
    away from asyncio, which waits for it in a thread.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    if not process.stdout.at_eof():
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    process.stdin.close()
    await process.stdout.read()
    await process.wait()
    with contextlib.suppress(OSError):  # part of its share may still have been on the way
        await process.stdin.wait_closed()


def search(share: Share) -> Iterator[tuple[int, int | None]]:
    """Try nonces for ever; yields how many so far, and the nonce that did it, if one did.

    The last digits of the nonce and all that follows them stand ready in a table.
    """
    bound = ((1 << (ID_BITS - share.difficulty)) - 1).to_bytes(32, "big")
    digits = _table_digits(len(share.suffix))
    size = 10**digits
    tails = [(b"%0*d" % (digits, low) if digits else b"") + share.suffix for low in range(size)]
    opening = sha256(share.prefix)
    hashes = 0
    for high in itertools.count(share.first, share.step):
        start = opening.copy()
        start.update(b"%d" % high)
        copy = start.copy
        for tail in tails:
            attempt = copy()
            attempt.update(tail)
            if attempt.digest() <= bound:
                low = tails.index(tail)
                yield hashes + low + 1, high * size + low
                return
        hashes += size
        yield hashes, None


def _table_digits(suffix_bytes: int) -> int:
    """As many digits as the table has room for."""
    room = TABLE_BYTES // (suffix_bytes + TABLE_DIGITS)
    return min(TABLE_DIGITS, max(0, len(str(room)) - 1))


def dig() -> None:
    """A helper's whole life: read its share from stdin, tell on stdout, end with stdin."""
    _stand_back()
    size = int.from_bytes(sys.stdin.buffer.read(4), "big")
    body = sys.stdin.buffer.read(size)
    watcher = threading.Thread(target=_end_with_stdin, daemon=True)
    watcher.start()
    with contextlib.suppress(BrokenPipeError, msgspec.DecodeError):  # nobody waits any more
        _search_and_tell(msgspec.msgpack.decode(body, type=Share))
    watcher.join()  # the parent ends it, now that it has its answer


def _search_and_tell(share: Share) -> None:
    clock = SystemClock()
    told = 0.0
    for hashes, nonce in search(share):
        now = clock.tick()
        if nonce is not None or now - told >= REPORT_SECONDS:
            os.write(1, msgspec.json.encode((hashes, nonce)) + b"\n")
            told = now


def _stand_back() -> None:
    """Take only what nobody else wants.

    Linux weighs sessions against each other before it looks into them, and a helper is alone in
    its own: without the first line the others change nothing.
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text("19")
    with contextlib.suppress(OSError, AttributeError):
        os.nice(19)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _end_with_stdin() -> None:
    while os.read(0, 1):
        pass
    os._exit(0)
