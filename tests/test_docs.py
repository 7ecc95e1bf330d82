"""Facts that the documentation tells are those of the code."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
from litestar import Litestar
from litestar.di import Provide

from postrich.config import HttpSettings
from postrich.doors.http.app import ROUTES
from postrich.doors.http.problems import _STATUSES
from postrich.observe.metrics import Meters
from postrich.rules.hooks import HookPolicy
from postrich.rules.lifecycle import DELIVERY_MOVES, JOB_MOVES

ROOT = Path(__file__).parent.parent
S = TypeVar("S", bound=enum.StrEnum)
ARROW = re.compile(r"^    (\w+) --> (\w+)$", re.MULTILINE)


def drawn(number: int) -> set[tuple[str, str]]:
    """The arrows of the n-th diagram of docs/architecture.md."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    diagrams = re.findall(r"```mermaid\n(.*?)```", text, re.DOTALL)
    return set(ARROW.findall(diagrams[number]))


def moves(table: Mapping[S, frozenset[S]]) -> set[tuple[str, str]]:
    return {
        (old.value.replace("-", "_"), new.value.replace("-", "_"))
        for old, news in table.items()
        for new in news
    }


@pytest.mark.req("A3")
def test_the_diagrams_are_the_tables() -> None:
    assert drawn(0) == moves(JOB_MOVES)
    assert drawn(1) == moves(DELIVERY_MOVES)


def test_links_between_documents_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


# -- docs/http.md --------------------------------------------------------------------------------


def table(first: str) -> list[list[str]]:
    """The rows of the table of docs/http.md whose first heading is this."""
    text = (ROOT / "docs" / "http.md").read_text("utf-8")
    [rows] = re.findall(
        rf"^\| {re.escape(first)} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE
    )
    return [
        [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        for row in rows.splitlines()
    ]


def figures() -> set[str]:
    """The names of all figures, as Prometheus asks for them."""
    return {
        f"{one.name}_total" if one.type == "counter" else one.name
        for one in Meters().registry.collect()
    }


@pytest.mark.req("F1")
def test_every_route_is_told() -> None:
    nobody = {
        name: Provide(lambda: None, sync_to_thread=False) for name in ("desk", "pages", "caller")
    }
    app = Litestar(route_handlers=list(ROUTES), dependencies=nobody)
    served = {
        (str(method), re.sub(r":\w+", "", route.path))
        for route in app.routes
        for method in route.methods
        if method not in ("OPTIONS", "HEAD") and not route.path.startswith("/schema")
    }
    told = [(method, path.strip("`")) for method, path, _ in table("method")]
    assert len(told) == len(set(told))
    assert set(told) == served


@pytest.mark.req("F2")
def test_every_status_is_told_with_its_codes() -> None:
    told = {
        (int(status), code) for status, codes, _ in table("status") for code in codes.split(", ")
    }
    assert {(status, f"`{code}`") for _, status, code in _STATUSES} <= told


@pytest.mark.req("F8")
def test_every_figure_is_told_and_no_other_asked_for() -> None:
    there = figures()
    assert {re.split("[`{]", cell)[1] for cell, _ in table("figure")} == there
    asked = {name for _, ask in table("question") for name in re.findall(r"postrich_\w+", ask)}
    assert {re.sub("_(bucket|count|sum)$", "", name) for name in asked} <= there


@pytest.mark.parametrize(
    ("heading", "settings"), [("`[http]`", HttpSettings()), ("`[hooks]`", HookPolicy())]
)
def test_every_setting_is_told_with_its_default(heading: str, settings: msgspec.Struct) -> None:
    told = {name.strip("`"): default.strip("`") for name, default, _ in table(heading)}
    real = {
        name: msgspec.json.encode(getattr(settings, name)).decode()
        for name in settings.__struct_fields__
    }
    assert told == real
