"""Where an outbox is kept, as people write it, and as they get to see it."""

from __future__ import annotations

from pathlib import Path

import pytest

from postrich.errors import BadSetting
from postrich.rules.redact import redact
from postrich.store.places import Place, place_of, shown

pytestmark = pytest.mark.req("G4", "B7")

HOME = Path("/home/me/postrich")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("", "/home/me/postrich/outbox.db"),
        ("other.db", "/home/me/postrich/other.db"),
        ("/srv/outbox.db", "/srv/outbox.db"),
        ("~/outbox.db", str(Path("~/outbox.db").expanduser())),
    ],
)
def test_files(text: str, path: str) -> None:
    place = place_of(text, HOME)
    assert (place.is_postgres, str(place.path), place.shown) == (False, path, path)
    assert not place.has_password
    assert place.without_password == path


@pytest.mark.parametrize(
    ("text", "seen", "without"),
    [
        ("postgresql://host/db", "postgresql://host/db", "postgresql://host/db"),
        ("postgres://me@host:1/db", "postgresql://host:1/db", "postgres://me@host:1/db"),
        ("postgresql://me:pw@host/db", "postgresql://host/db", "postgresql://me@host/db"),
        (
            "postgresql://me:pw@a:1,b:2/db?pool_size=4",
            "postgresql://a:1,b:2/db",
            "postgresql://me@a:1,b:2/db?pool_size=4",
        ),
        (
            "postgresql://host/db?password=pw&schema=x",
            "postgresql://host/db",
            "postgresql://host/db?schema=x",
        ),
        ("postgresql://me:pw@[::1]:5/db", "postgresql://[::1]:5/db", "postgresql://me@[::1]:5/db"),
        ("postgresql:///db", "postgresql://localhost/db", "postgresql:///db"),
    ],
)
def test_databases(text: str, seen: str, without: str) -> None:
    place = place_of(text, HOME)
    assert place.is_postgres
    assert place.shown == seen
    assert place.without_password == without
    assert place.has_password == ("pw" in text)
    assert "pw" not in repr(place)


@pytest.mark.parametrize(
    "text",
    [
        *("http://host/db", "sqlite:///x.db", "postgresql://me:p/w@host/db"),
        *("postgresql://me:p#w@host/db", "postgresql://me:p?w@host/db", "postgresql://[host/db"),
    ],
)
def test_what_cannot_be_read_is_not_repeated(text: str) -> None:
    with pytest.raises(BadSetting) as refusal:
        place_of(text, HOME)
    assert "host" not in str(refusal.value)


def test_a_database_has_no_path() -> None:
    with pytest.raises(AssertionError):
        _ = Place("postgresql://host/db").path


def test_addresses_in_errors_lose_their_passwords() -> None:
    for text in ("postgresql://me:pw@host/db", "postgres://me:p/w@pw@host/db"):
        assert "pw" not in redact(f"cannot open {text}")
        assert "host/db" in redact(f"cannot open {text}")
    assert shown("postgresql://me:pw@host/db") in redact(f"see {shown('postgresql://host/db')}")
