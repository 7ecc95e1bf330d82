"""Imports point one way, and the pure half stays pure (DESIGN.md, Layout; STYLE.md, habit 1)."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "postrich"
MODULES = sorted(SOURCE.rglob("*.py"))

#: From the top down; a part imports from its own layer and from those below it.
LAYERS = (
    {"doors", "__main__"},
    {"__init__", "outbox", "accept", "hooks", "schedule", "series", "slots", "waiting"},
    {"sign", "route", "deliver", "read"},
    {"wire", "store", "observe"},
    {"config", "clock"},
    {"rules"},
    {"model"},
    {"errors"},
)
RANK = {part: rank for rank, parts in enumerate(LAYERS) for part in parts}

PURE = ("rules", "model")
#: What reaches the world, the clock or chance. Values and calculations may be imported.
WORLDLY = {
    *("asyncio", "concurrent", "contextvars", "multiprocessing", "queue", "sched", "selectors"),
    *("signal", "subprocess", "threading", "_thread", "socket", "ssl", "http", "smtplib"),
    *("os", "sys", "io", "pathlib", "shutil", "tempfile", "glob", "fcntl", "mmap", "ctypes"),
    *("time", "random", "secrets", "uuid", "logging", "warnings", "importlib", "builtins"),
    *("sqlite3", "apsw", "asyncpg", "picows", "uvloop", "nostr_sdk", "structlog", "typer", "rich"),
    *("platformdirs", "litestar", "httpx", "aiohttp", "requests", "prometheus_client"),
    "urllib.request",
}
#: Ways to the clock, files and the terminal that need no import of their own.
WORLDLY_CALLS = {"open", "print", "input", "exec", "eval", "__import__", "breakpoint"}
WORLDLY_METHODS = {"now", "utcnow", "today"}


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def part_of(dotted: str) -> str:
    """The layer's part that a module of ours belongs to: `postrich.rules.pace` → `rules`."""
    inner = dotted.split(".")[1:]
    return inner[0] if inner else "__init__"


def own_part(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(tree: ast.Module, path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in it, by its full dotted name."""
    package = ("postrich", *path.relative_to(SOURCE).parent.parts)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package[: len(package) - node.level + 1]
                base = ".".join((*above, base)).rstrip(".")
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield inner if is_ours(inner) or inner in WORLDLY else base


def is_ours(dotted: str) -> bool:
    """Whether there is a module of that name in the package."""
    first, *inner = dotted.split(".")
    path = SOURCE.joinpath(*inner)
    return first == "postrich" and (path.is_dir() or path.with_suffix(".py").exists())


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def upward(tree: ast.Module, path: Path) -> list[str]:
    """The imports of a file that point up."""
    rank = RANK[own_part(path)]
    ours = [name for name in imports_of(tree, path) if name.split(".")[0] == "postrich"]
    return [name for name in ours if RANK[part_of(name)] < rank]


def impure(tree: ast.Module, path: Path) -> list[str]:
    """What a file does that a pure one must not."""
    imported = imports_of(tree, path)
    found = [f"import {name}" for name in imported if {name, name.split(".")[0]} & WORLDLY]
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            found.append(f"async in line {node.lineno}")
        elif isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id in WORLDLY_CALLS:
                found.append(f"{called.id}() in line {node.lineno}")
            elif isinstance(called, ast.Attribute) and called.attr in WORLDLY_METHODS:
                found.append(f".{called.attr}() in line {node.lineno}")
    return found


def test_every_part_has_its_layer() -> None:
    assert MODULES
    assert {own_part(path) for path in MODULES} <= set(RANK)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_one_way(path: Path) -> None:
    assert upward(parse(path), path) == []


def test_no_two_parts_import_each_other() -> None:
    graph: dict[str, set[str]] = {}
    for path in MODULES:
        part = own_part(path)
        names = imports_of(parse(path), path)
        needed = {part_of(name) for name in names if name.split(".")[0] == "postrich"}
        graph.setdefault(part, set()).update(needed - {part})
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as problem:
        pytest.fail(f"imports in a circle: {' → '.join(problem.args[1])}")


@pytest.mark.req("B12")
@pytest.mark.parametrize("path", [path for path in MODULES if own_part(path) in PURE], ids=name_of)
def test_the_pure_half_is_pure(path: Path) -> None:
    assert impure(parse(path), path) == []


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("import time", 1),
        ("import os.path as p", 1),
        ("from time import monotonic", 1),
        ("def f():\n    import random", 1),
        ("from urllib import request", 1),
        ("import urllib.request", 1),
        ("from urllib.parse import urlsplit", 0),
        ("import re, enum, hashlib, msgspec, coincurve", 0),
        ("async def f(): pass", 1),
        ("open('x')", 1),
        ("import datetime\ndatetime.datetime.now()", 1),
        ("def f(now): return now + 1", 0),
    ],
)
def test_the_guard_sees_what_is_impure(code: str, count: int) -> None:
    assert len(impure(ast.parse(code), SOURCE / "rules" / "example.py")) == count


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("from postrich.outbox import Outbox", 1),
        ("from postrich import outbox", 1),
        ("from ..store import port", 1),
        ("from .. import store", 1),
        ("import postrich.wire.connection", 1),
        ("def f():\n    from postrich.clock import Clock", 1),
        ("from postrich import Outbox", 1),
        ("from .pace import Pace", 0),
        ("from postrich.rules import pace", 0),
        ("from postrich.model.event import Event", 0),
        ("from ..errors import BadSetting", 0),
    ],
)
def test_the_guard_sees_what_points_up(code: str, count: int) -> None:
    assert len(upward(ast.parse(code), SOURCE / "rules" / "example.py")) == count
