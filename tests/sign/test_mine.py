"""Mining (A14): real work by real processes, of which none stays behind."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from postrich import Draft, SecretSigner, make_draft, parse_event
from postrich.errors import BadSetting, InvalidEvent, PostrichError
from postrich.model.event import MAX_EVENT_BYTES, is_signed
from postrich.rules.pow import difficulty_of
from postrich.sign import mine as mining
from postrich.sign.mine import MiningProgress, mine, search
from tests.relays.events import event_id

pytestmark = pytest.mark.req("A14")

SIGNER = SecretSigner(bytes(range(1, 33)))
DRAFT = make_draft(SIGNER.pubkey, 1_700_000_000, 1, [["t", "work"]], "proof")
ENDLESS = 60
LOOPS = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])


def id_by_others(draft: Draft) -> str:
    """The id as the test partners make it, with none of our code."""
    fields = ("pubkey", "created_at", "kind", "tags", "content")
    return event_id({name: getattr(draft, name) for name in fields})


def check_mined(mined: Draft, draft: Draft, difficulty: int) -> None:
    *tags, (name, nonce, target) = mined.tags
    assert (mined.pubkey, mined.created_at, mined.kind, mined.content) == (
        draft.pubkey,
        draft.created_at,
        draft.kind,
        draft.content,
    )
    assert [list(tag) for tag in tags] == [list(tag) for tag in draft.tags]
    assert (name, target) == ("nonce", str(difficulty))
    assert str(int(nonce)) == nonce
    assert mined.id == id_by_others(mined)
    assert int(mined.id, 16) < 1 << 256 - difficulty


def run(loop: str, main: Coroutine[Any, Any, None]) -> None:
    factory = uvloop.new_event_loop if loop == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)


@pytest.fixture
def helpers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The process ids of all helpers that are started."""
    started: list[int] = []
    start = mining._start

    async def start_and_note() -> asyncio.subprocess.Process:
        process = await start()
        started.append(process.pid)
        return process

    monkeypatch.setattr(mining, "_start", start_and_note)
    return started


def is_there(pid: int) -> bool:
    """Whether anything is left of a process, if only a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def children() -> set[int]:
    """Every child of this process, zombies too."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if int(parent) == os.getpid():
            found.add(int(folder.name))
    return found


async def until(true: Callable[[], object]) -> None:
    while not true():
        await asyncio.sleep(0.01)


class Reports(list[MiningProgress]):
    """What was told, and a way to wait until all helpers are at work."""

    async def at_work(self) -> None:
        await until(lambda: self and self[-1].hashes)


@pytest.mark.parametrize(
    ("difficulty", "processes"), [(0, 1), (1, 1), (8, 1), (12, 2), (16, 1), (16, 3), (15, None)]
)
async def test_the_mined_draft_is_the_given_one_and_a_nonce(
    difficulty: int, processes: int | None
) -> None:
    check_mined(await mine(DRAFT, difficulty, processes=processes), DRAFT, difficulty)


@pytest.mark.parametrize(
    ("tags", "content"),
    [
        ([], ""),
        ([["t", 'quote " backslash \\ tab \t newline \n']], 'again " \\ \t \r\n \b \f / '),
        (
            [["alt", "café 東京 🪶 \u2028 \u0000 \u001f \u007f"]],
            "приветы 🐦 \u2029 \u0000 \u0007 \ufffe",
        ),
        ([["t", "nonce", '"nonce","'], ["nonces", "1", "8"]], '["nonce","1","8"]],"nonce","'),
        ([["t", "x" * n] for n in range(70)], "every place in a block"),
        ([["p"], ["d", ""]], "x" * 1_000),
        ([], "é" * 10_000),
        ([], "🪶" * 100_000),
        ([], "x" * (MAX_EVENT_BYTES - 400)),
    ],
)
async def test_whatever_it_says(tags: list[list[str]], content: str) -> None:
    draft = make_draft(SIGNER.pubkey, 1_700_000_000, 30_023, tags, content)
    check_mined(await mine(draft, 6, processes=1), draft, 6)


async def test_what_was_mined_is_signed_with_that_id() -> None:
    mined = await mine(DRAFT, 14, processes=1)
    event = await SIGNER.sign(mined)
    assert event.id == mined.id
    assert is_signed(event)
    assert parse_event(event.raw).id == mined.id
    assert difficulty_of(event.id) >= 14


async def test_a_draft_that_shows_the_work_is_not_touched(helpers: list[int]) -> None:
    mined = await mine(DRAFT, 10, processes=1)
    assert await mine(mined, 10) is mined
    assert await mine(mined, 7) is mined
    assert len(helpers) == 1, "nothing was mined again"


def lucky_draft(difficulty: int) -> Draft:
    """One that shows more work than its author aimed for."""
    for number in itertools.count():
        draft = make_draft(SIGNER.pubkey, number)
        *_, (_, nonce) = search(mining._shares(draft, difficulty, 1)[0])
        assert nonce is not None
        mined = mining._with_nonce(draft, nonce, difficulty)
        if difficulty_of(mined.id) > difficulty:
            return mined
    raise AssertionError


async def test_a_nonce_that_does_not_do_is_refused_and_never_changed() -> None:
    for difficulty in (5, 40):
        with pytest.raises(InvalidEvent, match=f"nonce that does not show {difficulty} bits"):
            await mine(lucky_draft(4), difficulty)
    nothing = make_draft(SIGNER.pubkey, 5, 1, [["nonce"]])
    with pytest.raises(InvalidEvent, match="mine the draft without it"):
        await mine(nothing, 30)


@pytest.mark.parametrize("difficulty", [-1, 257, 10**9, 1.5, "8", True, None])
async def test_what_is_no_difficulty_is_refused(difficulty: Any) -> None:
    with pytest.raises(BadSetting, match="whole number of bits from 0 to 256"):
        await mine(DRAFT, difficulty)


@pytest.mark.parametrize("difficulty", [65, 128, 256])
async def test_hopeless_work_is_not_begun(difficulty: int) -> None:
    with pytest.raises(BadSetting, match=f"{difficulty} bits of work are hopeless"):
        await mine(DRAFT, difficulty)


@pytest.mark.parametrize("processes", [0, -1])
async def test_nobody_cannot_mine(processes: int) -> None:
    with pytest.raises(BadSetting, match="at least one process"):
        await mine(DRAFT, 8, processes=processes)


@pytest.mark.parametrize(
    "draft",
    [
        Draft("not hex", 5, 1, (), ""),
        Draft(SIGNER.pubkey, -5, 1, (), ""),
        Draft(SIGNER.pubkey, 5, 1, (), "\ud800"),
        Draft(SIGNER.pubkey, 5, 1, (), "x" * (MAX_EVENT_BYTES - 350)),
    ],
)
async def test_what_could_never_be_sent_is_not_mined(draft: Draft, helpers: list[int]) -> None:
    with pytest.raises(InvalidEvent):
        await mine(draft, 8)
    assert not helpers


@pytest.mark.parametrize(("cores", "processes"), [(1, 1), (2, 1), (4, 3), (64, 63)])
def test_one_core_is_left_to_the_rest(
    cores: int, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))
    assert mining._process_count(None) == processes
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert mining._process_count(None) == processes
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert mining._process_count(None) == 1


@pytest.mark.parametrize("difficulty", [0, 3, 11])
@pytest.mark.parametrize("content", ["", "x" * 3_000, "x" * 50_000, "x" * 600_000])
@pytest.mark.parametrize(("first", "step"), [(1, 1), (1, 3), (2, 3), (3, 3)])
def test_a_share_is_searched_in_order_without_a_gap(
    difficulty: int, content: str, first: int, step: int
) -> None:
    """Shares are disjoint since each keeps to its own high parts; here every nonce is retraced."""
    if difficulty > 3 and len(content) > 3_000:
        difficulty = 6
    draft = make_draft(SIGNER.pubkey, 5, 1, (), content)
    share = mining._shares(draft, difficulty, step)[first - 1]
    assert (share.first, share.step) == (first, step)
    block = 10 ** mining._table_digits(len(share.suffix))
    own = (high * block + low for high in itertools.count(first, step) for low in range(block))
    tried = itertools.takewhile(
        lambda nonce: difficulty_of(mining._with_nonce(draft, nonce, difficulty).id) < difficulty,
        own,
    )
    misses = sum(1 for _ in tried)
    *before, (hashes, nonce) = search(share)
    assert hashes == misses + 1
    assert [entry for entry in before if entry[1] is not None] == []
    assert [entry[0] for entry in before] == [block * (n + 1) for n in range(len(before))]
    assert nonce is not None
    assert difficulty_of(mining._with_nonce(draft, nonce, difficulty).id) >= difficulty


@pytest.mark.parametrize("suffix", [0, 12, 996, 997, 998, 10_000, 99_997, 500_000, 1_100_000])
def test_the_table_of_a_search_stays_small(suffix: int) -> None:
    digits = mining._table_digits(suffix)
    assert 0 <= digits <= 3
    assert digits == 0 or 10**digits * (suffix + digits) <= 1_000_000
    assert digits == 3 or 10 ** (digits + 1) * (suffix + 3) > 1_000_000


async def test_progress_is_told_from_the_first_moment_and_only_grows() -> None:
    reports: list[MiningProgress] = []
    working = asyncio.create_task(mine(DRAFT, ENDLESS, processes=2, on_progress=reports.append))
    await until(lambda: len({report.hashes for report in reports}) > 5)
    working.cancel()
    await asyncio.wait([working])
    assert reports[0].hashes == 0
    assert reports[0].rate >= 0
    for earlier, later in itertools.pairwise(reports):
        assert later.hashes >= earlier.hashes
        assert later.seconds > earlier.seconds
        assert later.expected == 2**ENDLESS
    last = reports[-1]
    assert last.rate == last.hashes / last.seconds > 0
    assert MiningProgress(0, 1, 0.0).rate == 0


async def test_progress_is_that_of_all_helpers_together(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "print('[1000, null]', flush=True); import time; time.sleep(600)"
    monkeypatch.setattr(mining, "_PROGRAM", program)
    reports: list[MiningProgress] = []
    working = asyncio.create_task(mine(DRAFT, ENDLESS, processes=3, on_progress=reports.append))
    await until(lambda: reports and reports[-1].hashes == 3000)
    working.cancel()
    await asyncio.wait([working])


async def test_the_last_report_counts_every_hash() -> None:
    reports: list[MiningProgress] = []
    mined = await mine(DRAFT, 12, processes=1, on_progress=reports.append)
    assert reports[-1].hashes == int(mined.tags[-1][1]) - 999
    assert reports[-1].expected == 4096


@LOOPS
def test_who_gives_up_leaves_no_process_behind(loop: str, helpers: list[int]) -> None:
    async def give_up() -> None:
        reports = Reports()
        working = asyncio.create_task(mine(DRAFT, ENDLESS, processes=3, on_progress=reports.append))
        await reports.at_work()
        assert len(helpers) == 3
        assert all(map(is_running, helpers))
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert not any(map(is_there, helpers))

    run(loop, give_up())


@LOOPS
def test_nor_who_gives_up_at_any_moment(loop: str) -> None:
    async def give_up() -> None:
        before = children()
        for steps in range(25):
            working = asyncio.create_task(mine(DRAFT, ENDLESS, processes=2))
            for _ in range(steps):
                await asyncio.sleep(0 if steps < 20 else 0.01)
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
        await until(lambda: children() <= before)

    run(loop, give_up())


@LOOPS
def test_nor_who_gives_up_twice(loop: str, helpers: list[int]) -> None:
    async def give_up() -> None:
        reports = Reports()
        working = asyncio.create_task(mine(DRAFT, ENDLESS, processes=2, on_progress=reports.append))
        await reports.at_work()
        for _ in range(4):
            working.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await working
        await until(lambda: not any(map(is_there, helpers)))

    run(loop, give_up())


@LOOPS
def test_nor_a_loop_that_ends_in_mid_work(loop: str, helpers: list[int]) -> None:
    async def begin() -> None:
        reports = Reports()
        working = mine(DRAFT, ENDLESS, processes=2, on_progress=reports.append)
        left = asyncio.create_task(working, name="left to the end of the loop")
        await reports.at_work()
        assert not left.done()

    run(loop, begin())
    assert len(helpers) == 2
    assert not any(map(is_running, helpers))


async def test_nor_a_listener_that_fails(helpers: list[int]) -> None:
    def fail(progress: MiningProgress) -> None:
        if progress.hashes:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await mine(DRAFT, ENDLESS, processes=2, on_progress=fail)
    assert len(helpers) == 2
    assert not any(map(is_there, helpers))


@pytest.mark.parametrize("difficulty", [0, 8, 14])
async def test_nor_one_that_succeeded(difficulty: int, helpers: list[int]) -> None:
    """Nor where several succeed at once."""
    await mine(DRAFT, difficulty, processes=6)
    assert not any(map(is_there, helpers))


@pytest.mark.parametrize("heard", [b"", b"\0\0", b"\0\0\0\x09half", b"\0\0\0\x02{}"])
def test_a_helper_whose_parent_died_early_ends_without_a_word(heard: bytes) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", mining._PROGRAM],
        input=heard,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


PARENT = """
import asyncio
from postrich import make_draft
from postrich.sign import mine as mining

start = mining._start
async def start_and_tell():
    process = await start()
    pids.append(process.pid)
    return process
mining._start = start_and_tell
pids = []

def tell(progress):
    if progress.hashes:
        print(*pids, flush=True)

asyncio.run(mining.mine(make_draft("ab" * 32, 5), 60, processes=2, on_progress=tell))
"""


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
async def test_helpers_end_when_their_parent_is_killed(sign: signal.Signals) -> None:
    parent = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PARENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert parent.stdout is not None
    pids = [int(pid) for pid in (await parent.stdout.readline()).split()]
    assert len(pids) == 2
    assert all(map(is_running, pids))
    parent.send_signal(sign)
    _, complaints = await parent.communicate()
    await until(lambda: not any(map(is_running, pids)))
    assert complaints == b"", "they end without a word"


@LOOPS
def test_one_that_dies_is_missed_by_nobody(
    loop: str, helpers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    start = mining._start

    async def start_and_kill_the_first() -> asyncio.subprocess.Process:
        process = await start()
        if process.pid == helpers[0]:
            process.kill()
        return process

    async def lose_one() -> None:
        check_mined(await mine(DRAFT, 16, processes=2), DRAFT, 16)
        assert len(helpers) == 2

    monkeypatch.setattr(mining, "_start", start_and_kill_the_first)
    run(loop, lose_one())


@LOOPS
@pytest.mark.parametrize("content", ["", "x" * 900_000])
def test_when_all_have_died_it_says_so(loop: str, content: str, helpers: list[int]) -> None:
    """Also where they die before they have read what they were to do."""
    draft = make_draft(SIGNER.pubkey, 5, 1, (), content)

    async def lose_all() -> None:
        working = asyncio.create_task(mine(draft, ENDLESS, processes=2))
        await until(lambda: len(helpers) == 2)
        for pid in helpers:
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(PostrichError, match="every helper process ended with status -9"):
            await working
        assert not any(map(is_there, helpers))

    run(loop, lose_all())


async def test_a_helper_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(PostrichError, match="every helper process could not be started"):
        await mine(DRAFT, 8, processes=2)


@pytest.mark.parametrize("lie", ["[1, 5]", "[1, -5]", "[1, 0]"])
async def test_a_helper_is_not_believed(lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mining, "_PROGRAM", f"print('{lie}')")
    with pytest.raises(PostrichError, match="a nonce that does not work"):
        await mine(DRAFT, 40, processes=1)


@pytest.mark.parametrize(
    "nonsense", ["hello", "[1]", "[1, 2, 3]", "{}", "[1.5, null]", "x" * 100_000]
)
async def test_a_helper_that_talks_nonsense_is_ended(
    nonsense: str, monkeypatch: pytest.MonkeyPatch, helpers: list[int]
) -> None:
    program = f"print({nonsense!r}, flush=True); import time; time.sleep(600)"
    monkeypatch.setattr(mining, "_PROGRAM", program)
    with pytest.raises(PostrichError, match="every helper process ended"):
        await mine(DRAFT, 8, processes=1)
    assert not any(map(is_there, helpers))


@pytest.mark.req("A16")
async def test_helpers_know_no_secret_and_stand_back(
    helpers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSTRICH_NSEC", "nsec1" + "q" * 58)
    monkeypatch.setenv("POSTRICH_PASSPHRASE", "correct horse")
    reports = Reports()
    draft = make_draft(SIGNER.pubkey, 5, 1, (), "nobody's business")
    working = asyncio.create_task(mine(draft, ENDLESS, processes=1, on_progress=reports.append))
    await reports.at_work()
    (pid,) = helpers
    for told in ("environ", "cmdline"):
        text = Path(f"/proc/{pid}/{told}").read_bytes()
        assert b"nsec1" not in text
        assert b"correct horse" not in text
        assert b"business" not in text
    assert os.getpriority(os.PRIO_PROCESS, pid) == 19
    assert os.sched_getscheduler(pid) == os.SCHED_IDLE
    group = Path(f"/proc/{pid}/autogroup")
    assert not group.exists() or group.read_text().split()[-1] == "19"
    assert os.getsid(pid) == pid, "Ctrl-C in our terminal is not for it"
    working.cancel()
    await asyncio.wait([working])


async def test_many_drafts_at_once() -> None:
    drafts = [make_draft(SIGNER.pubkey, n, 1, (), str(n)) for n in range(4)]
    for mined, draft in zip(
        await asyncio.gather(*(mine(draft, 10, processes=2) for draft in drafts)),
        drafts,
        strict=True,
    ):
        check_mined(mined, draft, 10)
