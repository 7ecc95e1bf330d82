"""Accept: from what a caller hands in to a job that the store can keep.

Promises: what passes has a true id, a true signature (or is a draft), a kind that may be sent,
relays to go to and a time to live. What does not pass gets one sentence. Stores nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from postrich.clock import Clock
from postrich.config import Settings
from postrich.deliver.shared import Network
from postrich.errors import BadSetting, CallerError, InvalidEvent, RefusedKind
from postrich.model.delivery import Parcel, Target, event_frame
from postrich.model.event import (
    Draft,
    Event,
    KindClass,
    address_of,
    classify,
    expiration_of,
    make_draft,
    parse_event,
    refuse_kind,
    seal,
)
from postrich.model.job import NewJob, Priority, RetryPolicy
from postrich.route.router import Router
from postrich.rules.backoff import PRESETS, check_policy, policy_text
from postrich.rules.precedence import next_created_at
from postrich.rules.routing import NAMED, WRAPS, fixed_plan, with_pow_relay
from postrich.sign.signer import Signers
from postrich.sign.verifier import Verifier
from postrich.store.port import Store

#: Anything that can be handed in: an event or draft, its JSON, or a mapping of its fields.
Publishable = Event | Draft | bytes | str | Mapping[str, Any]

_NOTHING = Draft("", 0, 0, (), "")
_DRAFT_FIELDS = {"pubkey", "created_at", "kind", "tags", "content"}
MANY_VERSIONS = 1000


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a job shall be treated; None means the outbox's own settings."""

    relays: tuple[str, ...] = ()
    at: int | None = None
    policy: RetryPolicy | str | None = None
    goal: int | None = None
    priority: Priority = Priority.NORMAL
    after: tuple[int, ...] = ()
    key: str | None = None
    autopilot: bool | None = None
    goal_mine: int = 0
    goal_inbox: int = 0


class Intake:
    """Checks what is handed in, many at once."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        signers: Signers,
        store: Store,
        network: Network,
        router: Router,
    ) -> None:
        self._settings = settings
        self._router = router
        self._clock = clock
        self._signers = signers
        self._store = store
        self._network = network
        self._verifier = Verifier()
        self._newest: dict[str, int] = {}  # versions given a time here, perhaps not stored yet

    async def close(self) -> None:
        await self._verifier.close()

    async def admit(
        self, items: Sequence[Publishable], options: Options
    ) -> list[NewJob | CallerError]:
        """A job or the reason against it, for each item."""
        if options.key is not None and len(items) > 1:
            raise BadSetting("an idempotency key names one event, not several")
        terms = self._terms(options)
        contents = [await self._read(item, options.at) for item in items]
        genuine = await self._genuine(contents)
        return [self._judge(content, genuine, terms) for content in contents]

    async def admit_each(
        self, wishes: Sequence[tuple[Publishable, Options]]
    ) -> list[NewJob | CallerError]:
        """The same where each item has options of its own; what they share is worked out once."""
        contents = [await self._read(item, options.at) for item, options in wishes]
        genuine = await self._genuine(contents)
        shared: dict[Options, NewJob | CallerError] = {}
        found: list[NewJob | CallerError] = []
        for content, (_, options) in zip(contents, wishes, strict=True):
            terms = self._shared_terms(options, shared)
            if not isinstance(terms, CallerError):
                terms = self._judge(content, genuine, terms)
            found.append(terms)
        return found

    def _shared_terms(
        self, options: Options, shared: dict[Options, NewJob | CallerError]
    ) -> NewJob | CallerError:
        """Terms by all that is not the hour; then the hour."""
        timeless = msgspec.structs.replace(options, at=None)
        terms = shared.get(timeless)
        if terms is None:
            try:
                terms = self._terms(timeless)
            except CallerError as refusal:
                terms = refusal
            shared[timeless] = terms
        if options.at is None or isinstance(terms, CallerError):
            return terms
        expires_at = max(options.at, self._clock.now()) + round(terms.policy.lifetime * 1000)
        return msgspec.structs.replace(terms, due_at=options.at, expires_at=expires_at)

    async def _genuine(self, contents: Sequence[Draft | Event | CallerError]) -> dict[int, bool]:
        """Which of the events bear their author's signature, by `id()`."""
        events = [content for content in contents if isinstance(content, Event)]
        return dict(zip(map(id, events), await self._verifier.check(events), strict=True))

    async def is_genuine(self, event: Event) -> bool:
        """Whether an event bears its author's signature."""
        return (await self._verifier.check([event]))[0]

    async def content(self, item: Publishable) -> Draft | Event:
        """What an item describes, complete; raises what is wrong with it."""
        found = await self._read(item)
        if isinstance(found, CallerError):
            raise found
        return found

    async def draft(self, item: Publishable) -> Draft:
        """The unsigned event that an item describes."""
        found = await self.content(item)
        if isinstance(found, Event):
            raise InvalidEvent("the event is signed: nothing of it can be changed any more")
        return found

    def is_auto(self, options: Options) -> bool:
        """Whether relay lists decide where it goes (D13)."""
        chosen = self._settings.autopilot if options.autopilot is None else options.autopilot
        return chosen and not options.relays

    def targets(self, options: Options) -> tuple[Target, ...]:
        """Where an item goes as far as no list has a say in it."""
        if self.is_auto(options) and self._settings.indexers and not self._settings.relays:
            return ()
        return fixed_plan(options.relays, self._settings.relays)

    def _terms(self, options: Options) -> NewJob:
        """What all jobs of one call have in common: where to, how often, until when."""
        now = self._clock.now()
        policy = self._policy(options)
        targets = self.targets(options)
        auto = self.is_auto(options)
        goal = options.goal or min(self._settings.goal, len(targets) or self._settings.goal)
        if options.goal == 0 or (goal > len(targets) and not auto):
            raise BadSetting(f"goal {options.goal} cannot be met by {len(targets)} relay(s)")
        start = max(now, options.at or 0)
        return NewJob(
            content=_NOTHING,
            targets=targets,
            policy=policy,
            expires_at=start + round(policy.lifetime * 1000),
            due_at=options.at,
            priority=options.priority,
            goal=goal,
            after=options.after,
            key=options.key,
            auto=auto,
            goal_mine=options.goal_mine,
            goal_inbox=options.goal_inbox,
        )

    async def _read(self, item: Publishable, at: int | None = None) -> Draft | Event | CallerError:
        """What an item describes; `at`: a draft that names no time of its own is of that hour."""
        try:
            if isinstance(item, Event):
                return parse_event(item.raw, self._settings.max_event_bytes)
            if isinstance(item, bytes | str):
                return await self._read_json(item, at)
            return await self._draft_or_event(item, at)
        except CallerError as refusal:
            return refusal

    async def _read_json(self, text: bytes | str, at: int | None) -> Draft | Event:
        limit = self._settings.max_event_bytes
        try:
            return parse_event(text, limit)
        except InvalidEvent:
            fields = _fields_of(text) if len(text) <= limit else None
            if fields is None or "sig" in fields:
                raise
        return await self._draft_or_event(fields, at)

    async def _draft_or_event(
        self, item: Draft | Mapping[str, Any], at: int | None
    ) -> Draft | Event:
        if isinstance(item, Draft):
            draft = make_draft(item.pubkey, item.created_at, item.kind, item.tags, item.content)
        elif not isinstance(item, Mapping):
            raise InvalidEvent(f"{type(item).__name__} is neither an event nor a draft")
        elif "sig" in item:
            return parse_event(_to_json(item), self._settings.max_event_bytes)
        else:
            draft = await self._draft(item, at)
        check_draft_size(draft, self._settings.max_event_bytes)
        return draft

    async def _draft(self, item: Mapping[str, Any], at: int | None) -> Draft:
        unknown = set(item) - _DRAFT_FIELDS - {"id"}
        if unknown:
            name = min(map(str, unknown))
            raise InvalidEvent(f"unknown field {name!r}: a draft has no such field")
        if not {"kind", "content", "tags"} & set(item):
            raise InvalidEvent("a draft must have at least a kind, content or tags")
        kind = item.get("kind", 1)
        pubkey = item.get("pubkey") or self._default_pubkey()
        tags = item.get("tags", ())
        if not isinstance(tags, list | tuple):
            raise InvalidEvent("tags must be arrays of strings")
        created_at = item.get("created_at")
        if created_at is None:
            created_at = await self._new_time(kind, pubkey, tags, at)
        draft = make_draft(pubkey, created_at, kind, tags, item.get("content", ""))
        if item.get("id") not in (None, "", draft.id):
            raise InvalidEvent("id does not match the draft's content")
        return draft

    def _default_pubkey(self) -> str:
        signer = self._signers.default
        if signer is None:
            raise InvalidEvent("the draft names no pubkey, and there is no signer to take it from")
        return signer.pubkey

    async def _new_time(self, kind: Any, pubkey: str, tags: Any, at: int | None) -> int:
        """Now, or its hour; for a new version of a replaceable event, always later than the last
        one (A11)."""
        now = max(self._clock.now(), at or 0) // 1000
        draft = make_draft(pubkey, now, kind, tags)
        address = address_of(draft.kind, pubkey, draft.tags)
        if address is None:
            return now
        last = await self._store.newest_version(address) or 0
        chosen = next_created_at(now, max(last, self._newest.get(address, 0)))
        if len(self._newest) > MANY_VERSIONS:
            self._newest = {key: at for key, at in self._newest.items() if at >= now}
        self._newest[address] = chosen
        return chosen

    def _judge(
        self, content: Draft | Event | CallerError, genuine: dict[int, bool], terms: NewJob
    ) -> NewJob | CallerError:
        if isinstance(content, CallerError):
            return content
        if isinstance(content, Event) and not genuine[id(content)]:
            return InvalidEvent("the signature is not the author's")
        try:
            return self._job(content, terms)
        except CallerError as refusal:
            return refusal

    def _job(self, content: Draft | Event, terms: NewJob) -> NewJob:
        refuse_kind(content.kind)
        policy, expires_at = terms.policy, terms.expires_at
        if classify(content.kind) is KindClass.EPHEMERAL:
            policy = self._ephemeral(content, terms)
            expires_at = self._clock.now() + round(policy.lifetime * 1000)
        return NewJob(
            content,
            self._targets_of(content, terms),
            policy,
            _until(content, expires_at, max(self._clock.now(), terms.due_at or 0)),
            terms.due_at,
            terms.priority,
            terms.goal,
            terms.after,
            terms.key,
            terms.auto,
            terms.goal_mine,
            terms.goal_inbox,
        )

    def _targets_of(self, content: Draft | Event, terms: NewJob) -> tuple[Target, ...]:
        """Where it goes now; nowhere yet, if that must be looked up first."""
        if not terms.auto:
            self._refuse_own_wrap(content, terms)
            return with_pow_relay(terms.targets, content.tags, self._settings.pow_relay)
        made = self._router.plan_now(content)
        if made is None or made.refusal or made.unresolved:
            return ()
        return made.targets

    def _refuse_own_wrap(self, content: Draft | Event, terms: NewJob) -> None:
        """D3 before D13: a gift wrap on one's own relays reaches nobody, and tells on people."""
        if content.kind in WRAPS and any(target.reason != NAMED for target in terms.targets):
            raise BadSetting(
                "a gift wrap goes to its recipient's message relays, which are not looked up"
                " while autopilot is off: name its relays, or turn autopilot on for it"
            )

    def _policy(self, options: Options) -> RetryPolicy:
        if isinstance(options.policy, RetryPolicy):
            return check_policy(options.policy)
        return self._settings.policy_named(options.policy or self._settings.policy)

    def _ephemeral(self, content: Draft | Event, terms: NewJob) -> RetryPolicy:
        """Ephemeral events are tried once, now, or refused (A15)."""
        what = (
            f"kind {content.kind} is ephemeral: relays do not keep it, so it can only be sent now"
        )
        is_later = terms.due_at is not None and terms.due_at > self._clock.now()
        if is_later or terms.after:
            raise RefusedKind(what)
        if not self._network.online:
            raise RefusedKind(f"{what}, and there is no network")
        if isinstance(content, Draft) and content.pubkey not in self._signers:
            raise RefusedKind(f"{what}, and there is no signer for it")
        return PRESETS["once"]


def parcel_of(job: int, new: NewJob) -> Parcel:
    """What lanes need of a signed job, without reading it back."""
    event = new.content
    assert isinstance(event, Event)
    return Parcel(
        job,
        event.id,
        event.pubkey,
        event.created_at,
        int(new.priority),
        new.expires_at,
        policy_text(new.policy),
        event_frame(event.raw),
    )


def _until(content: Draft | Event, expires_at: int, start: int) -> int:
    """How long the job lives: never past the event's own expiration (NIP-40)."""
    expiration = expiration_of(content.tags)
    if expiration is None:
        return expires_at
    if expiration * 1000 <= start:
        raise InvalidEvent("the event's own expiration is over before it could be sent")
    return min(expires_at, expiration * 1000)


def check_draft_size(draft: Draft, limit: int) -> None:
    """Refuse what would be too large once it is signed."""
    size = len(seal(draft, "0" * 128).raw)
    if size > limit:
        raise InvalidEvent(f"event would be {size:,} bytes; the limit is {limit:,}")


def _fields_of(text: bytes | str) -> dict[str, Any] | None:
    try:
        fields = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def _to_json(fields: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(fields)
    except (TypeError, ValueError, OverflowError, RecursionError) as problem:
        raise InvalidEvent(f"not a signed event: {problem}") from None
