"""What all tests share: requirement marks, and no skip that nobody would notice."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from pathlib import Path

import pytest

from postrich import config as settings_module

#: No test asks the network's well-known relays for anything, nor does a process that it starts.
settings_module.INDEXERS = ()
os.environ["POSTRICH_INDEXERS"] = ""
os.environ["POSTRICH_LISTEN"] = "127.0.0.1:0"  # several serve at once

REQUIREMENTS = Path(__file__).parent.parent / "docs" / "requirements.md"
_ROW = re.compile(r"^\| ([A-Z]\d+) \|", re.MULTILINE)


def requirement_ids() -> list[str]:
    """Every id of docs/requirements.md, in its order."""
    return _ROW.findall(REQUIREMENTS.read_text("utf-8"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--requirements", action="store_true", help="list the requirements and who shows them"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    shown: dict[str, list[str]] = defaultdict(list)
    for item in items:
        if "postgres" in item.nodeid:
            item.add_marker("postgres")
        for mark in item.iter_markers("req"):
            for name in mark.args:
                shown[name].append(item.nodeid.split("[")[0])
    unknown = set(shown) - set(requirement_ids())
    if unknown:
        raise pytest.UsageError(f"docs/requirements.md does not know {', '.join(sorted(unknown))}")
    config.stash[_SHOWN] = shown


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if not config.getoption("--requirements"):
        return
    shown = config.stash[_SHOWN]
    missing = [name for name in requirement_ids() if name not in shown]
    terminalreporter.section("requirements")
    for name in requirement_ids():
        for test in dict.fromkeys(shown.get(name, ())):
            terminalreporter.write_line(f"{name:4} {test}")
    terminalreporter.write_line(f"not shown by any test yet: {', '.join(missing) or 'none'}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI a skipped test is a failure: it would hide a missing partner."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") == "true" and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


_SHOWN: pytest.StashKey[dict[str, list[str]]] = pytest.StashKey()
