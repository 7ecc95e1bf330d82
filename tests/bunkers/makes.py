"""The bunkers that tests meet, by one relay each: two makes by others, and one that is scripted."""

from __future__ import annotations

from typing import Any

from tests.bunkers import ndk_bunker, snstr_bunker
from tests.bunkers.process import BunkerProcess
from tests.bunkers.scripted import ScriptedBunker
from tests.relays.process import RelayProcess


def simple(relay: RelayProcess, **options: Any) -> BunkerProcess:
    return snstr_bunker([relay.url], **options)


def full(relay: RelayProcess, **options: Any) -> BunkerProcess:
    return snstr_bunker([relay.url], make="full", **options)


def ndk(relay: RelayProcess, **options: Any) -> BunkerProcess:
    return ndk_bunker([relay.url], **options)


def scripted(relay: RelayProcess, **options: Any) -> ScriptedBunker:
    return ScriptedBunker([relay.url], **options)
