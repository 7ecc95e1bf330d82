"""The one thing that PostgreSQL's text cannot hold, and events can: the NUL character.

On its way in a NUL becomes a noncharacter and a digit, on its way out a NUL again; the noncharacter
itself is written so too, hence nothing is lost. All values pass through `storable`, all answers
through the connection's codecs. Event bodies are bytes, in which JSON has escaped NULs by itself;
the statements that give them out as text write the noncharacter (64976) as all texts do.
"""

from __future__ import annotations

from typing import Any

_MARK = "\ufdd0"
_MARK_BYTES = _MARK.encode()


def storable(value: Any) -> Any:
    """A parameter as PostgreSQL can hold it: a text, a list with texts, or anything else."""
    if isinstance(value, str):
        return _escaped(value)
    if isinstance(value, list | tuple):
        first = next((one for one in value if one is not None), None)
        if isinstance(first, str):
            return [text if text is None else _escaped(text) for text in value]
    return value


def _escaped(text: str) -> str:
    if "\x00" in text or _MARK in text:
        return text.replace(_MARK, f"{_MARK}1").replace("\x00", f"{_MARK}0")
    return text


def _text(data: bytes) -> str:
    text = data.decode()
    if _MARK_BYTES in data:
        text = text.replace(f"{_MARK}0", "\x00").replace(f"{_MARK}1", _MARK)
    return text


def _json(data: bytes) -> bytes:
    """JSON that the database made of such texts."""
    if _MARK_BYTES in data:
        data = data.replace(_MARK_BYTES + b"0", b"\\u0000").replace(_MARK_BYTES + b"1", _MARK_BYTES)
    return data


async def teach(connection: Any) -> None:
    """Make a new connection read so."""
    for name, encoder, decoder in (("text", str.encode, _text), ("json", bytes, _json)):
        await connection.set_type_codec(
            name, schema="pg_catalog", encoder=encoder, decoder=decoder, format="binary"
        )
