"""Query plans: no verb walks through a table that grows, whatever the queue's length."""

from __future__ import annotations

import re
from collections.abc import Iterator

import apsw
import pytest

from postrich.store.queries import migrations, queries

#: Tables that grow with use. All others are as small as the number of relays or workers.
GROWING = (
    "series",
    "occurrences",
    "jobs",
    "job_history",
    "deliveries",
    "delivery_history",
    "payloads",
    "story",
    "identities",
    "idempotency",
    "addresses",
    "dependencies",
    "posts",
    "answers",
    "hook_messages",
)

#: What these are for is to go through something, and why that is all right.
MAY_WALK = {
    "select_jobs": "lists newest first by number and stops at its limit",
    "deleted_originals": "a vanish request means every job; deletions look up",
    "where_sent": "a vanish request means every job of its author; deletions look up",
    "reroute": "a changed list may concern any open job of its owner",
    "sweep": "every few hours, once through what is open",
    "held_for_signer": "its index holds only deliveries that wait for a signer",
}
#: These count: one pass over an index that holds only open rows, never over the table.
COUNTS = ("backlog", "status_deliveries", "status_open")


@pytest.fixture(scope="module")
def link() -> Iterator[apsw.Connection]:
    link = apsw.Connection(":memory:")
    for step in migrations("sqlite").values():
        link.execute(step)
    yield link
    link.close()


def statements(sql: str) -> Iterator[str]:
    """The statements of a verb; a semicolon within a text ends none."""
    text = ""
    for part in re.sub(r"^--.*", "", sql, flags=re.MULTILINE).split(";"):
        text += part + ";"
        if apsw.complete(text) and text.strip("; \n"):
            yield text
            text = ""


def plan(link: apsw.Connection, statement: str) -> list[str]:
    """The plan's lines with tables by their own names."""
    tables = {
        alias: table
        for table, alias in re.findall(r"\b(\w+) AS (\w+)\b", statement)
        if table in GROWING
    }
    values = dict.fromkeys(re.findall(r":(\w+)", statement))
    lines = [row[3] for row in link.execute("EXPLAIN QUERY PLAN " + statement, values)]
    return [
        re.sub(r"^(SCAN|SEARCH) (\w+)", lambda m: f"{m[1]} {tables.get(m[2], m[2])}", line)
        for line in lines
    ]


def walks(lines: list[str]) -> list[str]:
    return [line for line in lines if re.match(rf"SCAN ({'|'.join(GROWING)})\b", line)]


@pytest.mark.parametrize("verb", sorted(set(queries("sqlite")) - set(MAY_WALK) - set(COUNTS)))
def test_a_verb_looks_things_up(link: apsw.Connection, verb: str) -> None:
    for statement in statements(queries("sqlite")[verb]):
        assert walks(plan(link, statement)) == []


@pytest.mark.parametrize("verb", COUNTS)
def test_counting_needs_only_the_index_of_what_is_open(link: apsw.Connection, verb: str) -> None:
    [statement] = statements(queries("sqlite")[verb])
    [walk] = walks(plan(link, statement))
    assert "USING COVERING INDEX" in walk


@pytest.mark.parametrize(
    ("verb", "index"),
    [
        (
            "claim",
            "deliveries_due (destination=? AND band=? AND next_at>? AND next_at<?)",
        ),
        ("work", "COVERING INDEX deliveries_due (destination=? AND band=?)"),
        ("stage_due", "INDEX jobs_to_stage (stage_at<?)"),
        ("next_stage", "COVERING INDEX jobs_to_stage"),
        ("unsigned", "COVERING INDEX jobs_to_sign (pubkey>?)"),
        ("drafts_due", "INDEX jobs_to_sign (pubkey=? AND stage_at<?)"),
        ("wake_unsigned", "INDEX jobs_to_sign (pubkey=? AND stage_at>?)"),
        ("held_for_signer", "INDEX deliveries_for_signer"),
        ("expire_candidates", "INDEX jobs_open (expires_at<?)"),
        ("archive_candidates", "INDEX jobs_done (finished_at>? AND finished_at<?)"),
        ("prune_candidates", "COVERING INDEX job_history_by_age (finished_at<?)"),
        ("parcels", "INTEGER PRIMARY KEY (rowid=?)"),
        ("tally", "PRIMARY KEY (job=?)"),
        ("show_jobs", "INTEGER PRIMARY KEY (rowid=?)"),
        ("states_of", "INTEGER PRIMARY KEY (rowid=?)"),
        ("select_named", "INTEGER PRIMARY KEY (rowid=?)"),
        ("settle_delivered", "PRIMARY KEY (job=? AND destination=?)"),
        ("settle_others", "PRIMARY KEY (job=? AND destination=?)"),
        ("find_jobs", "PRIMARY KEY (event_id>? AND event_id<?)"),
        ("story_of", "INDEX story_by_job (job=?)"),
        ("older_versions", "INDEX jobs_by_address (address=?)"),
        ("dependents_of", "INDEX dependencies_by_need (needs=?)"),
        ("select_of_author", "INDEX jobs_by_author (pubkey=? AND id<?)"),
        ("select_of_author", "INDEX job_history_by_author (pubkey=? AND id<?)"),
        ("ahead_of", "COVERING INDEX jobs_ahead (pubkey=?"),
        ("times_taken", "COVERING INDEX jobs_ahead (pubkey=? AND due_at>? AND due_at<?)"),
        ("status_trouble", "COVERING INDEX jobs_in_trouble (state=?)"),
        ("series_next", "COVERING INDEX series_due"),
        ("series_due", "INDEX series_due (next_at>? AND next_at<?)"),
        ("series_of_author", "INDEX series_by_author (pubkey=? AND id>?)"),
        ("occurrences_of", "PRIMARY KEY (series=? AND at>? AND at<?)"),
    ],
)
def test_a_verb_uses_the_index_made_for_it(link: apsw.Connection, verb: str, index: str) -> None:
    [statement] = statements(queries("sqlite")[verb])
    assert any(index in line for line in plan(link, statement))


def test_the_claim_sorts_nothing(link: apsw.Connection) -> None:
    [statement] = statements(queries("sqlite")["claim"])
    assert not any("TEMP B-TREE" in line for line in plan(link, statement))


def test_this_very_check_sees_a_walk(link: apsw.Connection) -> None:
    assert walks(plan(link, "SELECT count(*) FROM jobs AS j WHERE j.size > :size;"))
    assert walks(plan(link, "UPDATE deliveries SET attempts = 0 WHERE destination = :d;"))
