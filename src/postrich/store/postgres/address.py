"""What a `postgresql://…` address says: for asyncpg, for us, and for people to read.

Ours are `pool_size` (connections of this process, 8) and `schema` (where our tables are,
`postrich`); everything else is PostgreSQL's. The password is never part of a text for people.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from postrich.errors import BadSetting
from postrich.store.places import shown

POOL_SIZE = 8
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,40}")


class Address(msgspec.Struct, frozen=True):
    """Where the database is. `dsn` holds the password; `shown` is for messages and logs."""

    dsn: str
    shown: str
    schema: str = "postrich"
    pool_size: int = POOL_SIZE

    def __repr__(self) -> str:
        return f"Address({self.shown!r}, schema={self.schema!r})"


def parse_address(dsn: str) -> Address:
    """Split an address into our part and PostgreSQL's; raises `BadSetting` where it makes none."""
    try:
        parts = urlsplit(dsn)
        given = dict(parse_qsl(parts.query, keep_blank_values=True))
    except ValueError:
        raise BadSetting("the address of the database is not a postgresql:// URL") from None
    where = shown(dsn)
    schema = given.pop("schema", "postrich")
    if not _SCHEMA.fullmatch(schema):
        raise BadSetting("`schema` in the database's address must be a plain lower-case name")
    size = given.pop("pool_size", str(POOL_SIZE))
    if not size.isascii() or not size.isdigit() or not 2 <= int(size) <= 1000:
        raise BadSetting("`pool_size` in the database's address must be 2 to 1000")
    rest = urlunsplit((parts.scheme, parts.netloc, parts.path, urlencode(given), ""))
    return Address(rest, where, schema, int(size))
