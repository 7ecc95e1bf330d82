"""Processes that a bench starts: null relays, peers, and our own side in a process of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

HERE = Path(__file__).parent
CACHE = HERE / ".cache"


@contextmanager
def null_relays(count: int = 3, delay_ms: float = 0.0) -> Iterator[list[str]]:
    """Relays that say OK to everything, in one process of their own."""
    script = str(HERE / "null_relay.py")
    # -P: our own http.py must not stand in the way of Python's.
    command = [sys.executable, "-P", script, "--ports", str(count), "--delay-ms", str(delay_ms)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield msgspec.json.decode(process.stdout.readline())["urls"]
        process.stdin.close()
        process.stdout.read()


def run(*command: str) -> dict[str, Any]:
    """Run a program and read the JSON line that it prints last."""
    finished = subprocess.run(command, check=True, capture_output=True, cwd=HERE.parent)
    answer: dict[str, Any] = msgspec.json.decode(finished.stdout.splitlines()[-1])
    return answer


def ours(task: str, *arguments: str) -> dict[str, Any]:
    """Our own side of a bench, in a fresh process."""
    return run(sys.executable, "-m", "bench.ours", task, *arguments)


def nostr_tools(events: Path, urls: list[str], mode: str) -> dict[str, Any]:
    """nostr-tools' SimplePool with 512 publishes at once (Node)."""
    node = shutil.which("node")
    if node is None:
        raise SystemExit("node is not here: run `make bench`, which installs it")
    script = str(HERE / "peers" / "nostr_tools.mjs")
    return run(node, script, str(events), ",".join(urls), "512", mode)


def nostr_sdk(events: Path, urls: list[str]) -> dict[str, Any]:
    """nostr-sdk's Python client with 256 publishes at once."""
    script = str(HERE / "peers" / "nostr_sdk_client.py")
    return run(sys.executable, script, str(events), ",".join(urls), "256")


def nostr_sdk_pow(seconds: float) -> dict[str, Any]:
    """nostr-sdk's MultiThreadPow, with a thread for each core."""
    return run(sys.executable, str(HERE / "peers" / "nostr_sdk_pow.py"), str(seconds))
