"""The SQLite adapter: one file, one writer thread, any number of processes."""

from postrich.store.sqlite.adapter import SqliteStore

__all__ = ["SqliteStore"]
