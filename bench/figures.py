"""A bench's figures: printed as a table, written as `bench/results.json`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

RESULTS = Path(__file__).parent / "results.json"


class Figure(msgspec.Struct, frozen=True):
    """One measured value, and how it stands to others of the same run."""

    name: str
    value: float
    unit: str
    ratios: dict[str, float]
    goal: str = ""


def show(figures: Sequence[Figure]) -> str:
    """The figures as text, one line each."""
    lines = [f"{'figure':44} {'value':>12} {'unit':10} ratios", "-" * 100]
    for figure in figures:
        ratios = ", ".join(f"{ratio:.2f} × {peer}" for peer, ratio in figure.ratios.items())
        goal = f"   (goal: {figure.goal})" if figure.goal else ""
        value = f"{figure.value:,.0f}" if figure.value >= 100 else f"{figure.value:,.3g}"
        lines.append(f"{figure.name:44} {value:>12} {figure.unit:10} {ratios}{goal}")
    return "\n".join(lines)


def keep(figures: Sequence[Figure]) -> None:
    """Write the results as a list of {name, value, unit, ratios}."""
    rows = [{"name": f.name, "value": f.value, "unit": f.unit, "ratios": f.ratios} for f in figures]
    RESULTS.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=2) + b"\n")
