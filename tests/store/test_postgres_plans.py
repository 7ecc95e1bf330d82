"""PostgreSQL's plans: with a long queue and a longer history every verb still looks things up."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from postrich.store.postgres import PostgresStore
from postrich.store.postgres.address import parse_address
from postrich.store.postgres.dialect import statements
from postrich.store.postgres.migrating import prepare
from postrich.store.postgres.sessions import connect
from postrich.store.queries import queries
from tests.store.making import RED, hand_in
from tests.store.servers import Admin, empty_dsn, new_dsn

pytestmark = pytest.mark.req("G4")

#: Tables that grow with use. All others are as small as the number of relays or workers.
GROWING = (
    *("jobs", "job_history", "deliveries", "delivery_history", "payloads", "story"),
    *("identities", "idempotency", "addresses", "dependencies", "inboxes", "lists"),
    *("posts", "answers", "authors"),
    "hook_messages",
    *("series", "occurrences"),
)

INDEXES = {
    "claim": "deliveries_due",
    "work": "deliveries_due",
    "backlog": "deliveries_due",
    "status_deliveries": "deliveries_due",
    "stage_due": "jobs_to_stage",
    "next_stage": "jobs_to_stage",
    "unsigned": "jobs_to_sign",
    "drafts_due": "jobs_to_sign",
    "wake_unsigned": "jobs_to_sign",
    "held_for_signer": "deliveries_for_signer",
    "status_open": "jobs_open",
    "expire_candidates": "jobs_open",
    "archive_candidates": "jobs_done",
    "prune_candidates": "job_history_by_age",
    "status_trouble": "jobs_in_trouble",
    "older_versions": "jobs_by_address",
    "dependents_of": "dependencies_by_need",
    "story_of": "story_by_job",
    "series_next": "series_due",
    "series_due": "series_due",
    "series_of_author": "series_by_author",
    "occurrences_of": "occurrences_pkey",
    "settle_delivered": "deliveries_pkey",
    "settle_others": "deliveries_pkey",
    "tally": "deliveries_pkey",
    "lock_live_jobs": "jobs_pkey",
    "parcels": "payloads_pkey",
    "select_jobs": "job_history_pkey",
    "select_of_author": "jobs_by_author",
    "ahead_of": "jobs_ahead",
    "times_taken": "jobs_ahead",
}


#: 20,000 jobs that wait at three relays each, and as many that are over.
MANY = """
INSERT INTO destinations (url) SELECT 'wss://relay' || n FROM generate_series(1, 50) AS n;
INSERT INTO jobs (id, event_id, pubkey, kind, created_at, signed, state, priority, goal, goal_mine,
    goal_inbox, policy, route, accepted_at, expires_at, size)
  SELECT n, sha256(n::text::bytea), sha256((n % 100)::text::bytea), 1, n, 1,
    'signed-pending-publish', 1, 1, 0, 0, 'interactive', 'fixed', n, n + 1000000, 300
  FROM generate_series(1, 20000) AS n;
INSERT INTO deliveries (job, destination, state, band, next_at, attempts, mine)
  SELECT n, 1 + (n * 3 + d) % 50, 'waiting', 2, n, 0, 0
  FROM generate_series(1, 20000) AS n, generate_series(0, 2) AS d;
INSERT INTO job_history SELECT id + 20000, event_id, pubkey, kind, created_at, address, signed,
    'published', priority, goal, goal_mine, goal_inbox, policy, targets, route, route_attempts,
    accepted_at, due_at, expires_at, stage_at, 1, id, sign_attempts, error_code, error_text, size
  FROM jobs;
INSERT INTO identities SELECT event_id, id FROM jobs;
INSERT INTO payloads SELECT id, event_id FROM jobs;
INSERT INTO story (job, at, what) SELECT id, id, 'retried' FROM jobs;
INSERT INTO dependencies SELECT id, id - 1 FROM jobs WHERE id > 1;
INSERT INTO series SELECT n::text, sha256((n % 100)::text::bytea), '', '', '{}', '{}', 1, 1, NULL,
    NULL, 'skip', 'active', 0, 0, n, NULL, 1 FROM generate_series(1, 5000) AS n;
INSERT INTO occurrences SELECT (n % 100)::text, n, 'made', n, NULL, ''
  FROM generate_series(1, 5000) AS n;
ANALYZE;
"""


@pytest.fixture(params=["empty", "full"])
async def link(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    address = parse_address(await new_dsn("plans"))
    await prepare(address)
    link = await connect(address)
    if request.param == "full":
        await link.execute(MANY)
    yield link
    await link.close()


async def plan(link: Any, statement: str) -> str:
    """The plan that serves whatever the parameters are."""
    count = len(set(re.findall(r"\$\d+", statement)))
    values = f"({', '.join(['NULL'] * count)})" if count else ""
    await link.execute(f"SET plan_cache_mode = force_generic_plan; PREPARE verb AS {statement}")
    lines = await link.fetch(f"EXPLAIN EXECUTE verb{values}")
    await link.execute("DEALLOCATE verb")
    return "\n".join(line[0] for line in lines)


def walks(text: str) -> list[str]:
    tables = "|".join(GROWING)
    return re.findall(rf"Seq Scan on (?:{tables})\b.*", text)


async def test_every_verb_looks_things_up(link: Any) -> None:
    for verb in sorted(queries("postgres")):
        for statement in statements(verb):
            assert walks(await plan(link, statement.text)) == [], verb


async def test_nothing_but_what_a_lane_holds_is_hashed(link: Any) -> None:
    """A subquery that is asked for each row must not be answered by reading all of its table."""
    for verb in sorted(queries("postgres")):
        for statement in statements(verb):
            text = await plan(link, statement.text)
            assert "hashed" not in text or "holding" in queries("postgres")[verb], (verb, text)


async def test_a_verb_uses_the_index_made_for_it(link: Any) -> None:
    for verb, index in INDEXES.items():
        [statement] = statements(verb)
        text = await plan(link, statement.text)
        assert re.search(rf"using {index}|Index Scan on {index}", text), (verb, text)


async def test_the_claim_reads_no_row_but_those_it_gives(link: Any) -> None:
    [statement] = statements("claim")
    text = await plan(link, statement.text)
    assert text.count("Index Only Scan using deliveries_due") == 2, text
    condition = text.split("Index Cond:")[1].split("\n")[0]
    assert "next_at <=" in condition
    assert "ROW(next_at, job) >" in condition, "it begins at the floor"


async def test_this_very_check_sees_a_walk(link: Any) -> None:
    await link.execute("CREATE TABLE lists_too AS SELECT * FROM lists; DROP TABLE lists CASCADE")
    await link.execute("ALTER TABLE lists_too RENAME TO lists")  # it has no index at all
    assert walks(await plan(link, "SELECT count(*) FROM lists AS l WHERE l.kind = 7"))


async def test_opening_says_who_we_are() -> None:
    dsn = await empty_dsn()
    store = await PostgresStore.open(dsn)
    await hand_in(store, "hello", RED)
    async with Admin(dsn) as admin:
        assert await admin.hang_up() >= 1  # found by the name postrich
    await store.close()
