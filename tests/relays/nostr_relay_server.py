"""Real relay 2: PyPI `nostr-relay` 1.14 as a process of its own, by its own `serve` command.

    python -m tests.relays.nostr_relay_server --port P --data DIR [--auth --writer HEX ...] ...

Prints `ready <url>` once its port answers. Config and SQLite file live in DIR, so a restart on
the same DIR keeps its events. Not named `nostr_relay`: that is the launcher in `__init__`, which
importing a module of that name would overwrite.
"""

# nostr_relay ships no type information.
# mypy: disable-error-code="import-untyped"

import argparse
import json
import socket
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

from tests.relays.leash import hold_leash, say_ready

POLL_SECONDS = 0.01
VALIDATORS = ["is_not_too_large", "is_signed", "is_recent", "is_pow"]


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description="nostr-relay as a process")
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--data", type=Path, required=True, help="config and database directory")
    options.add_argument("--auth", action="store_true", help="saving needs AUTH and role w")
    options.add_argument("--writer", action="append", default=[], metavar="HEX", help="gets role w")
    options.add_argument("--rate-limit", help='events of one address, such as "3/min"')
    options.add_argument("--require-pow", type=int, default=0)
    options.add_argument("--max-event-size", type=int, default=4096, help="characters of content")
    options.add_argument("--leash", action="store_true", help="end when stdin closes")
    return options


def configuration(options: argparse.Namespace) -> dict[str, Any]:
    address = f"127.0.0.1:{options.port}"
    config: dict[str, Any] = {
        "relay_name": "nostr-relay under test",
        "storage": {
            "sqlalchemy.url": f"sqlite+aiosqlite:///{database(options)}",
            "num_concurrent_reqs": 10,
            "num_concurrent_adds": 2,
            "validators": [f"nostr_relay.validators.{name}" for name in VALIDATORS],
        },
        "verification": {"nip05_verification": "disabled"},
        "gunicorn": {"bind": address, "workers": 1, "loglevel": "warning", "reload": False},
        "authentication": {
            "enabled": options.auth,
            # Compared as whole strings with the relay tag: both spellings must be listed.
            "relay_urls": [f"ws://{address}", f"ws://{address}/"],
            "actions": {"save": "w" if options.auth else "a", "query": "a"},
        },
        "require_pow": options.require_pow,
        "max_event_size": options.max_event_size,
    }
    if options.rate_limit:
        config["rate_limits"] = {"ip": {"EVENT": options.rate_limit}}
    return config


def database(options: argparse.Namespace) -> Path:
    path: Path = options.data.resolve() / "nostr.sqlite3"
    return path


def announce(options: argparse.Namespace) -> None:
    """Wait for the port, which opens after the migrations; then name the writers."""
    while not answers(options.port):
        time.sleep(POLL_SECONDS)
    grant_write(database(options), options.writer)
    say_ready(f"ws://127.0.0.1:{options.port}")


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def grant_write(path: Path, writers: list[str]) -> None:
    """AUTH alone gives no role: a key may save only if the table says `w`."""
    connection = sqlite3.connect(path, timeout=10)
    with connection:
        connection.executemany(
            "INSERT OR REPLACE INTO auth (pubkey, roles) VALUES (?, 'aw')",
            [(writer,) for writer in writers],
        )
    connection.close()


def main() -> None:
    options = parser().parse_args()
    if options.leash:
        hold_leash()
    options.data.mkdir(parents=True, exist_ok=True)
    config = options.data / "config.yaml"
    config.write_text(json.dumps(configuration(options), indent=2))  # JSON is YAML
    threading.Thread(target=announce, args=(options,), daemon=True).start()
    from nostr_relay.cli import main as nostr_relay  # slow: the arguments are checked first

    nostr_relay(["-c", str(config), "serve", "--use-uvicorn"])


if __name__ == "__main__":
    main()
