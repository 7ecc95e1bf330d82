"""The PostgreSQL adapter: one database, any number of worker processes."""

from postrich.store.postgres.adapter import PostgresStore

__all__ = ["PostgresStore"]
