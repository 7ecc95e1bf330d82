"""The desk where hooks are ordered, shown and changed (F6): what doors and programs call.

Promises: a secret is shown when a hook is made or rotated, or asked for by who owns it; it is
derived each time and kept nowhere. `of` limits a call to the hooks of one public key: those of
others are unknown to it. None: all hooks, for administrators.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from postrich.clock import Clock
from postrich.config import Settings
from postrich.deliver.hooks import Messenger
from postrich.errors import BadSetting, CallerError, IllegalMove, UnknownHook
from postrich.model.hook import PING, Hook, HookMessage, HookState
from postrich.rules.hooks import check_hook_events, check_hook_url, hook_secret, master_key
from postrich.rules.redact import redact
from postrich.sign.hook_master import HookMaster
from postrich.store.port import Store


class HookGrant(msgspec.Struct, frozen=True):
    """A hook and the secret by which its owner checks what it is told."""

    hook: Hook
    secret: str

    def __repr__(self) -> str:
        return f"HookGrant({self.hook.id}, …)"


class HookDesk:
    """The hooks of one outbox."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Clock,
        master: HookMaster,
        messenger: Messenger,
    ) -> None:
        self._store = store
        self._policy = settings.hooks
        self._clock = clock
        self._master = master
        self._messenger = messenger

    async def add(self, url: str, events: Iterable[str] = (), *, pubkey: str = "") -> HookGrant:
        """Tell this address from now on of these events (none named: of all) of the jobs of this
        public key (none: of everybody's jobs)."""
        address = check_hook_url(url, self._policy)
        wanted = check_hook_events(events)
        owner = _check_pubkey(pubkey)
        others = await self._store.hooks(pubkey=owner)
        if len(others) >= self._policy.per_pubkey:
            raise CallerError(f"there are {len(others)} hooks already; remove one first")
        master = self._master.need()
        hook = Hook(
            f"hook_{secrets.token_hex(12)}",
            owner,
            address,
            wanted,
            HookState.ACTIVE,
            self._clock.now(),
            master_key(master),
        )
        await self._store.keep_hook(hook)
        self._messenger.wake()
        return HookGrant(hook, hook_secret(master, hook.id, hook.generation))

    async def list(self, *, of: str | None = None) -> list[Hook]:
        """The oldest first."""
        return await self._store.hooks(pubkey=of)

    async def show(self, hook: str, *, of: str | None = None) -> Hook:
        """One hook; `UnknownHook` where there is none, or it is another's."""
        found = await self._store.hooks([hook])
        if not found or of not in (None, found[0].pubkey):
            raise UnknownHook(f"there is no hook {redact(hook)[:60]}")
        return found[0]

    async def secret(self, hook: str, *, of: str | None = None) -> str:
        """The secret that its messages are signed by now."""
        found = await self.show(hook, of=of)
        master = self._master.find()
        if master is None or master_key(master) != found.key:
            raise IllegalMove(
                "this hook was made with another master secret than is at hand; rotate it"
            )
        return hook_secret(master, found.id, found.generation)

    async def remove(self, hook: str, *, of: str | None = None) -> None:
        """Forget it, and all that it was or is to be told."""
        await self.show(hook, of=of)
        await self._store.remove_hook(hook)

    async def disable(self, hook: str, *, of: str | None = None) -> Hook:
        """Tell it nothing more; what waits has failed, and may be replayed."""
        await self.show(hook, of=of)
        return await self._store.disable_hook(hook, "by hand", self._clock.now())

    async def enable(self, hook: str, *, of: str | None = None) -> Hook:
        """Tell it again what happens from now on. What it missed: `replay`."""
        await self.show(hook, of=of)
        found = await self._store.enable_hook(hook)
        self._messenger.wake()
        return found

    async def rotate(self, hook: str, *, of: str | None = None) -> HookGrant:
        """A new secret. For a day messages are signed by the old one too."""
        await self.show(hook, of=of)
        master = self._master.need()
        found = await self._store.rotate_hook(hook, master_key(master), self._clock.now())
        self._messenger.wake()
        return HookGrant(found, hook_secret(master, found.id, found.generation))

    # -- messages ----------------------------------------------------------------------------

    async def messages(
        self, hook: str, limit: int = 100, before: int | None = None, *, of: str | None = None
    ) -> Sequence[HookMessage]:
        """What it was and is to be told, newest first; `before` (a message's number) pages on."""
        await self.show(hook, of=of)
        return await self._store.messages(hook, limit, before)

    async def message(self, hook: str, message: str, *, of: str | None = None) -> HookMessage:
        """One message by its id."""
        await self.show(hook, of=of)
        found = await self._store.messages(hook, 1, message=message)
        if not found:
            raise UnknownHook(f"the hook has no message {redact(message)[:60]}")
        return found[0]

    async def replay(
        self,
        hook: str,
        *,
        message: str | None = None,
        since: datetime | None = None,
        of: str | None = None,
    ) -> int:
        """Send again what failed (since then), or one message whatever became of it; how many."""
        found = await self.show(hook, of=of)
        _check_active(found)
        if since is not None and since.tzinfo is None:
            raise BadSetting("`since` must say its time zone")
        if message is not None:
            await self.message(hook, message, of=of)
        at = 0 if since is None else round(since.timestamp() * 1000)
        count = await self._store.replay_messages(hook, self._clock.now(), at, message)
        self._messenger.wake()
        return count

    async def test(self, hook: str, *, of: str | None = None) -> HookMessage:
        """Queue a `ping`; ask `message` for what came of it."""
        _check_active(await self.show(hook, of=of))
        name = f"msg_{secrets.token_hex(16)}"
        said = await self._store.say_to_hook(hook, name, PING, self._clock.now())
        self._messenger.wake()
        return said


def _check_active(hook: Hook) -> None:
    if hook.state is not HookState.ACTIVE:
        raise IllegalMove(f"hook {hook.id} is disabled ({hook.reason}); enable it first")


def _check_pubkey(text: str) -> str:
    pubkey = text.lower()
    if pubkey and (len(pubkey) != 64 or any(c not in "0123456789abcdef" for c in pubkey)):
        raise BadSetting("a hook's pubkey must be 64 hexadecimal digits")
    return pubkey
