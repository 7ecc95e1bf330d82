"""A client script in `curl`, as in the document, against `postrich serve` itself; and kills."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

from tests.doors.shell import Shell
from tests.relays import free_port
from tests.relays.events import make_event, public_key

SCRIPT = r"""
set -euo pipefail
auth="Authorization: Bearer $(cat "$POSTRICH_HOME/http.token")"
ask() { curl --silent --show-error --max-time 10 --header "$auth" "$@"; echo; }

# Schedule a post
ask -X POST "$BASE/api/schedule" -H "Content-Type: application/json" -d @schedule-request.json
# Get status for a pubkey
ask "$BASE/api/schedule/status?pubkey=$PUBKEY"
# Get single schedule
ask "$BASE/api/schedule/schedule-id"
# Cancel a scheduled post
ask -X DELETE "$BASE/api/schedule/schedule-id"
ask "$BASE/api/schedule/schedule-id"
"""

SECRET = os.urandom(32)


def wish(content: str, after: float, name: str) -> dict[str, Any]:
    at = time.time() + after
    event = make_event(SECRET, content=content, created_at=int(at))
    return {
        "id": name,
        "nostrEvent": event,
        "scheduledAt": int(at * 1000),
        "crossPostAP": False,
        "crossPostAT": False,
    }


@pytest.fixture
def base(shell: Shell) -> str:
    port = free_port()
    shell.variables["POSTRICH_LISTEN"] = f"127.0.0.1:{port}"
    return f"http://127.0.0.1:{port}"


def curl(shell: Shell, base: str, folder: Path, script: str) -> list[Any]:
    """What each request was answered."""
    environment = {**shell.environment(), "BASE": base, "PUBKEY": public_key(SECRET)}
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.req("F1", "F9")
def test_the_document_s_script(shell: Shell, base: str, tmp_path: Path) -> None:
    assert shutil.which("curl"), "this test needs curl"
    request = wish("hello from curl", 3600, "schedule-id")
    (tmp_path / "schedule-request.json").write_text(json.dumps(request))
    with shell.start("serve") as serving:
        serving.wait_for("listening")
        kept, listed, one, gone, after = curl(shell, base, tmp_path, SCRIPT)
    assert kept == {"status": "scheduled", "id": "schedule-id"}
    assert [post["id"] for post in listed["posts"]] == ["schedule-id"]
    assert (one["status"], one["scheduledAt"]) == ("pending", request["scheduledAt"])
    assert gone == {"status": "cancelled", "id": "schedule-id"}
    assert after["status"] == "cancelled"


SEND = r"""
auth="Authorization: Bearer $(cat "$POSTRICH_HOME/http.token")"
curl --silent --show-error --header "$auth" -X POST "$BASE/api/schedule" -d @request.json; echo
"""
LIST = r"""
auth="Authorization: Bearer $(cat "$POSTRICH_HOME/http.token")"
curl --silent --show-error --header "$auth" "$BASE/api/schedule/status?pubkey=$PUBKEY"; echo
"""


@pytest.mark.req("F3", "A1")
def test_what_was_answered_survives_a_kill(shell: Shell, base: str, tmp_path: Path) -> None:
    """Killed after the answer, before the hour: the next `serve` sends it, and once."""
    (tmp_path / "request.json").write_text(json.dumps(wish("through a kill", 3.0, "one")))
    with shell.start("serve") as serving:
        serving.wait_for("listening")
        assert curl(shell, base, tmp_path, SEND) == [{"status": "scheduled", "id": "one"}]
        serving.send(SIGKILL)
    with shell.start("serve") as serving:
        serving.wait_for("listening")
        deadline = time.monotonic() + 30
        while True:
            [listed] = curl(shell, base, tmp_path, LIST)
            [post] = listed["posts"]
            if post["status"] == "published":
                break
            assert time.monotonic() < deadline, post
    assert [relay["state"] for relay in post["relays"]] == ["delivered"]


@pytest.mark.req("G2")
def test_a_port_that_is_taken_is_said(shell: Shell, bare_shell: Shell, base: str) -> None:
    with shell.start("serve") as serving:
        serving.wait_for("listening")
        taken = base.removeprefix("http://")
        result = shell.finish("serve", POSTRICH_HOME=str(shell.home) + "-other")
        assert result.code == 1
        assert f"cannot listen on {taken}" in result.err
        assert "--listen" in result.err


@pytest.mark.req("G2")
def test_serve_without_http(shell: Shell, base: str) -> None:
    with shell.start("serve", "--no-http") as serving:
        serving.wait_for("serving")
        done = subprocess.run(["curl", "--silent", base], check=False, timeout=10)
        assert done.returncode == 7  # nobody listens
