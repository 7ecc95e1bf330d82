"""Changing `relays` in postrich.toml without touching anything else in it.

Promises: comments, order and form of the rest stay as they are; what is written means what was
asked for, and nothing else changed, or nothing is written. A file is replaced whole or not at all.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from postrich.errors import BadSetting
from postrich.rules.trust import normalise_url

_TOKEN = re.compile(
    r"""
    (?P<comment>\#[^\n]*)
  | (?P<text>\"\"\".*?(?<!\\)\"{3,5} | '''.*?'{3,5} | "(?:\\.|[^"\\\n])*" | '[^'\n]*')
  | (?P<open>[\[{]) | (?P<close>[\]}])
  | (?P<comma>,)
  | (?P<line>\n)
  | (?P<other>[^\s\#"'\[\]{},]+ | [^\S\n]+)
    """,
    re.VERBOSE | re.DOTALL,
)


class Element(NamedTuple):
    """A string in the list: where it stands, and what it means."""

    start: int
    end: int
    value: str


class RelayArray(NamedTuple):
    """The list of relays in the text: from its first bracket to after its last."""

    start: int
    end: int
    elements: list[Element]
    last_comma: int | None


def change_relays(path: Path, change: Callable[[list[str]], list[str]]) -> list[str]:
    """Replace the list by what `change` makes of it; the new list, as the file has it."""
    path = path.resolve()  # a file that is linked to from elsewhere stays linked
    with _alone(path.parent):
        text = path.read_bytes().decode("utf-8") if path.is_file() else ""
        before = _relays_in(text)
        after = change(list(before))
        if after != before:
            _replace(path, with_relays(text, after, path.name))
    return after


def with_relays(text: str, relays: list[str], name: str = "postrich.toml") -> str:
    """The text with another list of relays, or `BadSetting` with what a person must do."""
    table = _read(text)
    changed = _edited(text, relays)
    expected = table | {"relays": relays}
    try:
        is_right = changed is not None and _normal(tomllib.loads(changed)) == _normal(expected)
    except tomllib.TOMLDecodeError:
        is_right = False
    if changed is None or not is_right:
        wanted = ", ".join(json.dumps(url) for url in relays)
        raise BadSetting(
            f"{name} is written in a way that is not changed safely from here; "
            f"change this line in it yourself: relays = [{wanted}]"
        )
    return changed


def _edited(text: str, relays: list[str]) -> str | None:
    array = find_relays(text)
    if array is None:
        if "relays" in _read(text):
            return None
        line = "relays = [" + ", ".join(json.dumps(url) for url in relays) + "]\n"
        return _with_line(text, line)
    wanted = set(relays)
    kept = [e for e in array.elements if _clean(e.value) in wanted]
    known = {_clean(element.value) for element in array.elements}
    added = [url for url in relays if url not in known]
    for element in reversed([e for e in array.elements if e not in kept]):
        text = _without(text, element)
    array = find_relays(text)
    return text if array is None or not added else _with_elements(text, array, added)


def _with_line(text: str, line: str) -> str:
    """A new top-level line belongs before the first table, so: first of all."""
    if not re.search(r"^\s*\[", text, re.MULTILINE):
        return text + ("" if not text or text.endswith("\n") else "\n") + line
    return f"{line}\n{text}"


def find_relays(text: str) -> RelayArray | None:
    """The top-level list `relays`, where it is a plain list of strings."""
    start = _array_start(text)
    return None if start is None else _array_at(text, start)


def _array_start(text: str) -> int | None:
    """Where the value of the top-level key `relays` opens its bracket."""
    key = ""
    depth = 0
    for token in _TOKEN.finditer(text):
        kind, said = token.lastgroup, token.group()
        if kind == "open":
            if depth == 0 and said == "[" and (not key.strip() or _is_relays(key)):
                return token.start() if key.strip() else None  # from here on, keys are tables'
            depth += 1
        elif kind == "close":
            depth -= 1
        elif depth == 0:
            key = "" if kind == "line" else key + ("" if kind == "comment" else said)
    return None


def _array_at(text: str, start: int) -> RelayArray | None:
    elements: list[Element] = []
    last_comma: int | None = None
    for token in _TOKEN.finditer(text, start + 1):
        match token.lastgroup:
            case "close":
                return RelayArray(start, token.end(), elements, last_comma)
            case "text":
                elements.append(Element(token.start(), token.end(), _string(token.group())))
                last_comma = None
            case "comma":
                last_comma = token.end()
            case "open":
                return None
            case "other" if token.group().strip():
                return None
    return None


def _is_relays(key: str) -> bool:
    return re.fullmatch(r"\s*(relays|\"relays\"|'relays')\s*=\s*", key) is not None


def _string(token: str) -> str:
    value = tomllib.loads(f"x = {token}")["x"]
    assert isinstance(value, str)
    return value


def _without(text: str, element: Element) -> str:
    """The text without one element, its comma, and its line where nothing else is on it."""
    end = element.end
    after = re.match(r"[^\S\n]*,", text[end:])
    if after is not None:
        end += after.end()
    line_start = text.rfind("\n", 0, element.start) + 1
    line_end = text.find("\n", end)
    line_end = len(text) if line_end < 0 else line_end
    rest = text[end:line_end].strip()
    is_alone = not text[line_start : element.start].strip() and (not rest or rest.startswith("#"))
    if is_alone and line_start > 0:
        return text[:line_start] + text[line_end + 1 :]
    return text[: element.start] + text[end:].removeprefix(" ")


def _with_elements(text: str, array: RelayArray, added: list[str]) -> str:
    """New elements after the last one, in the form that the list has."""
    inside = text[array.start + 1 : array.end - 1]
    items = [json.dumps(url) for url in added]
    if "\n" not in inside:
        body = inside.rstrip().removesuffix(",")
        joined = ", ".join([body, *items] if body.strip() else items)
        return text[: array.start + 1] + joined + text[array.end - 1 :]
    if array.elements and array.last_comma is None:
        at = array.elements[-1].end
        text = text[:at] + "," + text[at:]
        array = array._replace(end=array.end + 1)
    first = array.elements[0].start if array.elements else array.start
    indent = re.match(r"[^\S\n]*", text[text.rfind("\n", 0, first) + 1 :])
    margin = indent.group() if indent is not None and array.elements else "  "
    close = text.rfind("\n", 0, array.end - 1) + 1
    if text[close : array.end - 1].strip():  # the bracket stands behind the last element
        close = array.end - 1
        return text[:close] + "".join(f"\n{margin}{item}," for item in items) + "\n" + text[close:]
    ending = "\r\n" if text[:close].endswith("\r\n") else "\n"
    return text[:close] + "".join(f"{margin}{item},{ending}" for item in items) + text[close:]


# -- reading and writing -----------------------------------------------------------------------


def _read(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise BadSetting(f"postrich.toml cannot be read: {problem}") from None


def _relays_in(text: str) -> list[str]:
    found = _read(text).get("relays", [])
    if not isinstance(found, list) or not all(isinstance(url, str) for url in found):
        raise BadSetting("`relays` in postrich.toml is not a list of URLs: correct it first")
    return list(dict.fromkeys(_clean(url) for url in found))


def _clean(url: str) -> str:
    try:
        return normalise_url(url)
    except BadSetting:
        return url


def _normal(table: dict[str, Any]) -> dict[str, Any]:
    """A table for comparing: relays in normal form."""
    urls = list(dict.fromkeys(_clean(url) for url in table.get("relays", [])))
    return table | {"relays": urls}


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two who change the file at once do it one after the other."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _replace(path: Path, text: str) -> None:
    half = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    mode = path.stat().st_mode & 0o777 if path.is_file() else 0o644
    try:
        handle = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        half.chmod(mode)
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)
