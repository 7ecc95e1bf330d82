"""Settings: one struct, read from `postrich.toml`, the environment, or given in code.

A setting that cannot work is refused with its name; nothing is guessed. The only
secret that may be here is a password in `store`; no message repeats it.
"""

from __future__ import annotations

import ipaddress
import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from postrich.errors import BadSetting
from postrich.model.event import is_hex_name
from postrich.model.job import Priority, RetryPolicy
from postrich.rules.backoff import PRESETS, check_policy
from postrich.rules.hooks import HookPolicy, check_hook_policy
from postrich.rules.routing import Budgets
from postrich.rules.trust import DialPolicy, normalise_url

AuthPolicy = Literal["own", "always", "never"]


#: Relays that collect everybody's relay lists.
INDEXERS: tuple[str, ...] = (
    "wss://purplepag.es/",
    "wss://user.kindpag.es/",
    "wss://indexer.coracle.social/",
)


class Tier(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What callers of the HTTP service are granted (F4): how many posts may wait for their hour,
    how many requests a second (`burst` at once), and how urgent their posts are."""

    name: str = ""
    pubkeys: tuple[str, ...] = ()
    pending: int = 100
    rate: float = 10.0
    burst: int = 100
    priority: Priority = Priority.NORMAL


class HttpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The HTTP service. Without `public_url` it is personal: on loopback only, for who has the
    token, or signs as one of its accounts. With it, it is hosted: for anybody who signs requests
    (NIP-98), behind a proxy."""

    listen: str = "127.0.0.1:7678"
    public_url: str = ""
    admins: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    cors: tuple[str, ...] = ()
    pending: int = 100
    rate: float = 10.0
    burst: int = 100
    address_rate: float = 50.0
    address_burst: int = 500
    max_body: int = 16 * 1_048_576
    tiers: dict[str, Tier] = {}

    @property
    def is_hosted(self) -> bool:
        return bool(self.public_url)

    @property
    def host(self) -> str:
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.listen.rpartition(":")[2])

    @property
    def everybody(self) -> Tier:
        """What callers are granted who have no tier of their own."""
        return Tier(pending=self.pending, rate=self.rate, burst=self.burst)

    def tier_of(self, pubkey: str) -> Tier:
        for name, tier in self.tiers.items():
            if pubkey in tier.pubkeys:
                return msgspec.structs.replace(tier, name=name)
        return self.everybody


def check_http(http: HttpSettings) -> HttpSettings:
    """The HTTP settings, or `BadSetting`."""
    if not http.host or not http.listen.rpartition(":")[2].isdigit() or http.port > 65_535:
        raise BadSetting("http.listen must be an address and a port, like 127.0.0.1:7678")
    if not http.is_hosted and not _is_loopback(http.host):
        raise BadSetting(
            "http.listen is not a loopback address: set http.public_url (and TLS by a proxy) to"
            " serve others"
        )
    if http.is_hosted and not _ORIGIN.fullmatch(http.public_url):
        raise BadSetting("http.public_url must be like https://posts.example.com, without a path")
    for origin in http.cors:
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            raise BadSetting(f"http.cors: {origin!r} is not an origin like https://app.example")
    _check_callers(http)
    return http


_ORIGIN = re.compile(r"https?://[^/?#@\s]+")


def _check_callers(http: HttpSettings) -> None:
    for pubkey in (*http.admins, *(key for tier in http.tiers.values() for key in tier.pubkeys)):
        if not is_hex_name(pubkey):
            raise BadSetting(f"http: {pubkey!r} is not a pubkey of 64 hex digits")
    for tier in (http.everybody, *http.tiers.values()):
        if tier.pending < 1 or not 0 < tier.rate < math.inf or tier.burst < 1:
            raise BadSetting("http: pending, rate and burst must be more than 0")
    for address in http.trusted_proxies:
        try:
            ipaddress.ip_network(address)
        except ValueError:
            raise BadSetting(f"http.trusted_proxies: {address!r} is no address") from None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How an outbox behaves. Times are seconds, sizes bytes.

    `store`: where it is kept, a file's path or a `postgresql://…` address (command line only).
    """

    relays: tuple[str, ...] = ()
    store: str = ""
    autopilot: bool = True
    indexers: tuple[str, ...] | None = None
    budgets: Budgets = Budgets()
    dial: DialPolicy = DialPolicy()
    trust_lists: bool = False
    pow_relay: str | None = None
    policy: str = "interactive"
    policies: dict[str, RetryPolicy] = {}
    goal: int = 1
    timeout: float = 10.0
    connect_timeout: float = 10.0
    sign_timeout: float = 20.0
    window: int = 512
    lanes: int = 256
    serial: bool = False
    auth: AuthPolicy = "own"
    relay_info: bool = True
    bytes_per_minute: int | None = None
    metered: bool = False
    max_event_bytes: int = 1_048_576
    poll: float = 0.25
    sync: float = 300.0
    sweep: float = 21_600.0
    lease: float = 15.0
    idle: float = 60.0
    series_lead: float = 3600.0
    archive_after: float = 60.0
    history_days: float = 90.0
    http: HttpSettings = HttpSettings()
    hooks: HookPolicy = HookPolicy()

    def guard(self, *, trusted: bool) -> DialPolicy | None:
        """By which policy a relay is dialled; None: it may be anywhere (C11)."""
        return None if trusted or self.trust_lists else self.dial

    def policy_named(self, name: str) -> RetryPolicy:
        """A policy of the owner's, or a preset."""
        policy = self.policies.get(name) or PRESETS.get(name)
        if policy is None:
            known = ", ".join((*self.policies, *PRESETS))
            raise BadSetting(f"retry policy {name!r} is none of {known}")
        return policy


_POSITIVE = (
    "goal",
    "timeout",
    "connect_timeout",
    "sign_timeout",
    "window",
    "lanes",
    "poll",
    "sync",
    "sweep",
    "lease",
    "idle",
    "series_lead",
    "max_event_bytes",
    "history_days",
)


def check_settings(settings: Settings) -> Settings:
    """The settings with relay URLs in normal form, or `BadSetting`."""
    for name in _POSITIVE:
        if not 0 < getattr(settings, name) < math.inf:
            raise BadSetting(f"{name} must be more than 0, and a number")
    if not 0 <= settings.archive_after < math.inf:
        raise BadSetting("archive_after must be 0 or more, and a number")
    if settings.bytes_per_minute is not None and settings.bytes_per_minute <= 0:
        raise BadSetting("bytes_per_minute must be more than 0")
    for policy in settings.policies.values():
        check_policy(policy)
    settings.policy_named(settings.policy)
    check_http(settings.http)
    check_hook_policy(settings.hooks)
    relays = _clean(settings.relays)
    indexers = _clean(INDEXERS if settings.indexers is None else settings.indexers)
    for field in msgspec.structs.fields(Budgets):
        if getattr(settings.budgets, field.name) < 1:
            raise BadSetting(f"budgets.{field.name} must be 1 or more")
    pow_relay = normalise_url(settings.pow_relay) if settings.pow_relay else None
    return msgspec.structs.replace(settings, relays=relays, indexers=indexers, pow_relay=pow_relay)


def _clean(urls: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(normalise_url(url) for url in urls))


def read_settings(path: Path, environment: Mapping[str, str]) -> Settings:
    """`postrich.toml` if it is there, then what the environment says over it."""
    table = _read_table(path)
    if relays := environment.get("POSTRICH_RELAYS", "").split():
        table["relays"] = relays
    if store := environment.get("POSTRICH_STORE"):
        table["store"] = store
    if listen := environment.get("POSTRICH_LISTEN"):
        http = table.setdefault("http", {})
        if isinstance(http, dict):
            http["listen"] = listen
    if "POSTRICH_INDEXERS" in environment:
        table["indexers"] = environment["POSTRICH_INDEXERS"].split()
    try:
        settings = msgspec.convert(_named(table), Settings)
    except msgspec.ValidationError as problem:
        raise BadSetting(f"{path}: {problem}") from None
    return check_settings(settings)


def read_store(path: Path, environment: Mapping[str, str]) -> str:
    """Where the outbox is kept; that is known also where other settings make no sense."""
    store = environment.get("POSTRICH_STORE") or _read_table(path).get("store", "")
    if not isinstance(store, str):
        raise BadSetting(f"{path}: `store` must be a text")
    return store


def _read_table(path: Path) -> dict[str, object]:
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise BadSetting(f"{path} cannot be read: {problem}") from None


def _named(table: dict[str, object]) -> dict[str, object]:
    """A policy's name is its heading: `[policies.patient]` need not say it again."""
    policies = table.get("policies")
    if isinstance(policies, dict):
        for name, policy in policies.items():
            if isinstance(policy, dict):
                policy.setdefault("name", name)
    return table
