"""Proof of work through the library: as much as asked for, or as the relays want (A14)."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from postrich import Outbox, SecretSigner
from postrich.errors import InvalidEvent
from postrich.rules.pow import difficulty_of
from tests.deliver.outboxes import PATIENCE, outbox_at
from tests.relays.events import make_event
from tests.relays.scripted import ScriptedRelay
from tests.relays.scripts import accept
from tests.wire.serving import serving


@pytest.mark.req("A14", "A2")
async def test_a_mined_draft_is_published_with_its_nonce_where_mined_events_go(
    tmp_path: Path,
) -> None:
    async with (
        ScriptedRelay(accept) as relay,
        ScriptedRelay(accept) as pow_relay,
        outbox_at(
            tmp_path, relay, signer=SecretSigner.generate(), pow_relay=pow_relay.url
        ) as outbox,
    ):
        seen: list[int] = []
        fields = {"content": "worked for", "created_at": 1_700_000_000, "tags": [["t", "x"]]}
        draft = await outbox.mine(fields, 10, on_progress=lambda p: seen.append(p.hashes))
        job = await (await outbox.publish(draft)).settled(PATIENCE)
        plain = await (await outbox.post("not worked for")).settled(PATIENCE)
    assert job.event_id == draft.id
    assert difficulty_of(draft.id) >= 10
    assert len(job.delivered) == 2
    for place in (relay, pow_relay):
        event = next(e for e in place.events if e["id"] == draft.id)
        assert event["tags"][0] == ["t", "x"]
        assert event["tags"][1][::2] == ["nonce", "10"]
        assert event["created_at"] == 1_700_000_000
    assert [d.relay for d in plain.deliveries] == [f"{relay.url}/"]
    assert seen


@pytest.mark.req("A14")
async def test_no_more_work_is_done_than_is_asked_for(tmp_path: Path) -> None:
    async with (
        ScriptedRelay(accept) as relay,
        outbox_at(tmp_path, relay, signer=SecretSigner.generate()) as outbox,
    ):
        draft = await outbox.mine({"content": "x"})
        assert not draft.tags
        with pytest.raises(InvalidEvent, match="signed"):
            await outbox.mine(make_event(), 8)
        with pytest.raises(InvalidEvent, match="content"):
            await outbox.mine({"content": 5}, 8)


@pytest.mark.req("A14", "C4")
async def test_a_relay_that_asks_for_work_gets_it(tmp_path: Path) -> None:
    async def describe(_request: web.Request) -> web.Response:
        return web.json_response({"limitation": {"min_pow_difficulty": 9}})

    async with (
        serving(describe) as url,
        Outbox.open(
            tmp_path / "o.db", relays=[url], signer=SecretSigner.generate(), deliver=False
        ) as outbox,
    ):
        assert difficulty_of((await outbox.mine({"content": "x"})).id) >= 9
        more = await outbox.mine({"content": "x"}, 11)
        assert more.tags[-1][2] == "11"
