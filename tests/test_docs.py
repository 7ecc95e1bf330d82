"""Facts that the documentation tells are those of the code."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import pytest

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
