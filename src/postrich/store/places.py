"""Where an outbox is kept, as a person writes it: a `postgresql://…` address, or a file's path.

Promises: opens nothing and loads no driver; `shown` and every other text for people are without
the password, wherever in the address it stands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from postrich.errors import BadSetting

_SCHEMES = ("postgresql://", "postgres://")
_SECRETS = ("password", "sslpassword")
_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:\d*)?")
_OTHER_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)


def is_postgres(place: str) -> bool:
    return place.startswith(_SCHEMES)


@dataclass(frozen=True, repr=False)
class Place:
    """One place. `text` is what opens it, and may hold a password."""

    text: str

    @property
    def is_postgres(self) -> bool:
        return is_postgres(self.text)

    @property
    def path(self) -> Path:
        """The file; only where it is one."""
        assert not self.is_postgres, "a database has no path"
        return Path(self.text)

    @property
    def shown(self) -> str:
        """The place for people: a database without user, password and options."""
        return shown(self.text) if self.is_postgres else self.text

    @property
    def has_password(self) -> bool:
        if not self.is_postgres:
            return False
        parts = urlsplit(self.text)
        given = {name for name, value in parse_qsl(parts.query) if value}
        return bool(parts.password) or not given.isdisjoint(_SECRETS)

    @property
    def without_password(self) -> str:
        """What opens it for who has the password elsewhere."""
        if not self.has_password:
            return self.text
        parts = urlsplit(self.text)
        user = parts.netloc.rpartition("@")[0].partition(":")[0]
        hosts = parts.netloc.rpartition("@")[2]
        rest = [(name, value) for name, value in parse_qsl(parts.query) if name not in _SECRETS]
        netloc = f"{user}@{hosts}" if user else hosts
        return urlunsplit((parts.scheme, netloc, parts.path, urlencode(rest), ""))

    def __repr__(self) -> str:
        return f"Place({self.shown!r})"


def place_of(text: str, folder: Path) -> Place:
    """What a person wrote; a path is meant from that folder on, and nothing is `outbox.db`."""
    if not text:
        return Place(str(folder / "outbox.db"))
    if is_postgres(text):
        shown(text)
        return Place(text)
    if _OTHER_SCHEME.match(text):
        raise BadSetting("`store` must be a file's path, or an address that begins postgresql://")
    return Place(str(folder / Path(text).expanduser()))


def shown(dsn: str) -> str:
    """A database's address without user, password and options."""
    try:
        parts = urlsplit(dsn)
        given = dict(parse_qsl(parts.query, keep_blank_values=True))
    except ValueError:
        raise BadSetting("the address of the database is not a postgresql:// URL") from None
    hosts = parts.netloc.rpartition("@")[2]
    torn = "@" in parts.path or parts.fragment or any("@" in name for name in given)
    if torn or not all(map(_HOST.fullmatch, hosts.split(","))):
        raise BadSetting(
            "the address of the database cannot be understood; in its user and password "
            "write / ? # @ : as %2F %3F %23 %40 %3A"
        )
    return f"postgresql://{hosts or given.get('host') or 'localhost'}{parts.path}"
