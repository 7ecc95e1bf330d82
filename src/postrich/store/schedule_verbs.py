"""The schedule's part of the port, the same for every adapter: each verb is one transaction.

An adapter says how a transaction is read or written (`_read`, `_write`), and how schedule calls
that come together are committed together (`_schedule`).
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from postrich.model.job import JobChange
from postrich.model.post import Grid, KeptAnswer, NewPost, Post, Revision
from postrich.store.port import Revised, Scheduled
from postrich.store.verbs import scheduling
from postrich.store.verbs.database import Database

T = TypeVar("T")


def always(_: object) -> bool:
    return True


def never(_: object) -> bool:
    return False


class ScheduleVerbs(abc.ABC):
    """What a store does for scheduled posts."""

    @abc.abstractmethod
    async def _read(self, query: Callable[[Any], T]) -> T:
        """Look, without writing."""

    @abc.abstractmethod
    async def _write(
        self, action: Callable[[Any], T], hints: Callable[[T], bool] = never, numbers: int = 0
    ) -> T:
        """Write; `hints`: whether other processes should be told, given the answer; `numbers`:
        how many jobs it may make."""

    @abc.abstractmethod
    async def _schedule(self, call: scheduling.Call) -> Scheduled:
        """Carry out one schedule call, with others if they come together."""

    @abc.abstractmethod
    def _urls_of(self, database: Any) -> Any:
        """The numbers of URLs that this connection knows."""

    async def schedule(
        self, posts: Sequence[NewPost], now: int, most: int | None = None
    ) -> Scheduled:
        return await self._schedule(scheduling.Call(posts, now, most))

    async def revise(self, change: Revision, now: int) -> Revised:
        def action(db: Database) -> Revised:
            return scheduling.revise(db, change, now, self._urls_of(db))

        return await self._write(action, always, numbers=1)

    async def call_off(self, jobs: Sequence[int], now: int) -> list[JobChange]:
        return await self._write(lambda db: scheduling.call_off(db, jobs, now), always)

    async def sweep(self, now: int) -> int:
        return await self._write(lambda db: scheduling.sweep(db, now), bool)

    async def posts_called(self, name: str, pubkey: str | None = None) -> list[Post]:
        return await self._read(lambda db: scheduling.posts_called(db, name, pubkey))

    async def posts_of(self, pubkey: str, limit: int, before: int | None = None) -> list[Post]:
        return await self._read(lambda db: scheduling.posts_of(db, pubkey, limit, before))

    async def names_of(self, jobs: Sequence[int]) -> dict[int, str]:
        return await self._read(lambda db: scheduling.names_of(db, jobs))

    async def ahead(self, pubkey: str) -> int:
        return await self._read(lambda db: scheduling.ahead(db, pubkey))

    async def times_taken(self, pubkey: str, first: int, last: int) -> set[int]:
        return await self._read(lambda db: scheduling.times_taken(db, pubkey, first, last))

    async def grids(self, pubkey: str) -> list[Grid]:
        return await self._read(lambda db: scheduling.grids(db, pubkey))

    async def keep_grid(self, grid: Grid) -> None:
        await self._write(lambda db: scheduling.keep_grid(db, grid))

    async def drop_grid(self, pubkey: str, name: str) -> bool:
        return await self._write(lambda db: scheduling.drop_grid(db, pubkey, name))

    async def answer_of(self, caller: str, key: str) -> KeptAnswer | None:
        return await self._read(lambda db: scheduling.answer_of(db, caller, key))

    async def keep_answer(self, answer: KeptAnswer) -> None:
        await self._write(lambda db: scheduling.keep_answer(db, answer))
