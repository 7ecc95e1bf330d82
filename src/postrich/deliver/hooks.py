"""The messenger: tells hooks what became of jobs (F6).

Promises: every message is sent until it is taken, or its attempts are over, always under the same
id; messages of one job go to a hook in their order; a hook that hangs holds up nobody else, and one
that fails is sent one message at a time. Works under one lease per master secret: what a killed
process had under way is sent again by the next.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

from postrich.deliver import loop
from postrich.deliver.loop import Loop
from postrich.deliver.shared import Shared
from postrich.errors import PostrichError
from postrich.model.delivery import Fence
from postrich.model.hook import DueMessage, HookOutlook
from postrich.model.job import Job, JobFilter
from postrich.observe.notices import HookDisabled
from postrich.rules.hooks import HookAnswer, master_key, payload, settle_message, signatures
from postrich.rules.replies import Fault
from postrich.sign.hook_master import HookMaster
from postrich.wire.guard import WHY_NOT
from postrich.wire.http import HttpAnswer, exchange

log = logging.getLogger("postrich.hooks")

LEASE = "hooks"
#: How often to look whether there are hooks at all.
IDLE = 1.0
#: How long messages that are under way may take when the process ends.
GRACE = 2.0
_HEADERS = {"Content-Type": "application/json", "User-Agent": "postrich"}


#: A message's job, and the name of its post.
_About = tuple[Job | None, str | None]


class Messenger(Loop):
    """Sends what waits in `hook_messages`."""

    name = "hooks"

    def __init__(self, shared: Shared, master: HookMaster) -> None:
        super().__init__()
        self._shared = shared
        self._master = master
        self._policy = shared.settings.hooks
        self._fence: Fence | None = None
        self._strangers = 0
        self._sending: dict[int, asyncio.Task[None]] = {}
        self._busy: Counter[str] = Counter()
        self._failing: set[int] = set()

    async def pass_once(self) -> float | None:
        shared = self._shared
        now = shared.clock.now()
        master = self._master.find()
        key = "" if master is None else master_key(master)
        outlook = await shared.store.hook_outlook(key)
        self._mind_strangers(outlook.strangers)
        if master is None or outlook.next_at is None or outlook.next_at > now:
            await self._let_go()
            return self._until(outlook, now)
        if not shared.network.paused:
            until = now + round(shared.settings.lease * 1000)
            name = f"{LEASE}:{key}"
            self._fence = await shared.store.take_lease(name, shared.owner, now, until)
            if self._fence is not None:
                await self._begin(self._fence, master, key)
        return shared.settings.poll

    async def finish(self) -> None:
        """What is not answered soon is simply still due."""
        tasks = list(self._sending.values())
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _let_go(self) -> None:
        if self._fence is not None and not self._sending:
            fence, self._fence = self._fence, None
            await self._shared.store.drop_lease(fence)

    def _until(self, outlook: HookOutlook, now: int) -> float:
        pause = self._shared.settings.poll if outlook.hooks else IDLE
        if outlook.next_at is None:
            return pause
        return min(pause, max(0.0, (outlook.next_at - now) / 1000))

    def _mind_strangers(self, count: int) -> None:
        """Hooks that were made with another secret are not ours to tell: say so, once."""
        if count > self._strangers:
            log.warning(
                "%s hooks were made with another master secret than this process has: it tells "
                "them nothing; rotate their secrets if it is lost",
                count,
            )
        self._strangers = count

    # -- sending -----------------------------------------------------------------------------

    async def _begin(self, fence: Fence, master: bytes, key: str) -> None:
        """Send what is due, as far as there is room."""
        store, now = self._shared.store, self._shared.clock.now()
        each = self._policy.at_once_each
        due = await store.messages_due(key, now, each, list(self._sending))
        chosen = []
        for item in due:
            if self._admits(item):
                chosen.append(item)
                self._busy[item.hook.id] += 1
                if item.hook.failing_since is not None:
                    self._failing.add(item.message.number)
        try:
            jobs = await self._jobs_of(chosen)
            names = await self._shared.store.names_of(list(jobs)) if jobs else {}
        except BaseException:
            for item in chosen:
                self._leave(item)
            raise
        for item in chosen:
            number = item.message.job or 0
            about = (jobs.get(number), names.get(number))
            task = asyncio.create_task(self._tell(fence, master, item, about))
            self._sending[item.message.number] = task

    def _admits(self, item: DueMessage) -> bool:
        """Whether there is room. Those that fail have half of it, and one place each."""
        busy, policy = self._busy[item.hook.id], self._policy
        if self._busy.total() >= policy.at_once:
            return False
        if item.hook.failing_since is None:
            return busy < policy.at_once_each
        return busy == 0 and len(self._failing) < max(1, policy.at_once // 2)

    def _leave(self, item: DueMessage) -> None:
        self._busy[item.hook.id] -= 1
        if not self._busy[item.hook.id]:
            del self._busy[item.hook.id]
        self._failing.discard(item.message.number)

    async def _jobs_of(self, items: list[DueMessage]) -> dict[int, Job]:
        numbers = sorted({item.message.job for item in items if item.message.job is not None})
        if not numbers:
            return {}
        found = await self._shared.store.jobs(JobFilter(jobs=tuple(numbers)), len(numbers))
        return {job.id: job for job in found}

    async def _tell(self, fence: Fence, master: bytes, item: DueMessage, about: _About) -> None:
        try:
            await self._settle(fence, item, await self._send(master, item, about))
        except PostrichError as problem:  # it is still to be sent, by whoever holds the lease
            log.error("hook %s, message %s: %s", item.hook.id, item.message.id, problem)
            await asyncio.sleep(loop.AFTER_FAULT)
        except Exception:
            log.exception("hook %s, message %s: unexpected", item.hook.id, item.message.id)
            await asyncio.sleep(loop.AFTER_FAULT)
        finally:
            del self._sending[item.message.number]
            self._leave(item)
            self.wake()

    async def _send(self, master: bytes, item: DueMessage, about: _About) -> HookAnswer:
        hook, message = item.hook, item.message
        if not self._policy.allow_http and not hook.url.startswith("https://"):
            return HookAnswer(trouble="hooks are told over https:// only")
        body = payload(message, *about)
        headers = signatures(master, hook, message.id, self._shared.clock.now(), body)
        answer = await exchange(
            hook.url,
            guard=self._policy.guard,
            within=self._policy.timeout,
            headers={**_HEADERS, **headers},
            body=body,
        )
        return _heard(answer)

    async def _settle(self, fence: Fence, item: DueMessage, answer: HookAnswer) -> None:
        shared, policy = self._shared, self._policy
        now = shared.clock.now()
        result = settle_message(item.message, answer, policy, now, shared.clock.chance())
        log.debug(
            "hook %s, message %s, attempt %s: %s",
            *(item.hook.id, item.message.id, result.attempts, result.text or "taken"),
        )
        for hook in await shared.store.settle_messages(fence, [result], policy, now):
            log.warning("hook %s is disabled: %s", hook.id, hook.reason)
            shared.notices.publish(HookDisabled(hook.id, hook.pubkey, hook.reason))


def _heard(answer: HttpAnswer | Fault) -> HookAnswer:
    if isinstance(answer, HttpAnswer):
        return HookAnswer(answer.status, retry_after=answer.headers.get("Retry-After", ""))
    if answer.code == "forbidden":
        said = answer.text.removesuffix(f": {WHY_NOT}")
        return HookAnswer(trouble=f"{said}: hooks may not lead there")
    if answer.code == "timeout":
        return HookAnswer(trouble="no answer in time")
    return HookAnswer(trouble=answer.text)
