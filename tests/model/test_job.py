"""Jobs as their owner sees them."""

import pytest

from postrich.model.delivery import Delivery, DeliveryState
from postrich.model.event import make_draft, parse_event, seal
from postrich.model.job import Job, JobState, NewJob, QueueStatus
from postrich.rules.backoff import PRESETS


@pytest.mark.req("A12")
@pytest.mark.parametrize(
    ("pending", "expected"),
    [
        (0, "0 items waiting to publish"),
        (1, "1 item waiting to publish"),
        (2, "2 items waiting to publish"),
        (21, "21 items waiting to publish"),
    ],
)
def test_the_queue_says_how_many_wait(pending: int, expected: str) -> None:
    status = QueueStatus(
        pending, scheduled=0, parked=0, failed=0, total_attempts=0, open_deliveries=0, oldest=None
    )
    assert status.text == expected


def delivery(state: DeliveryState, attempts: int) -> Delivery:
    return Delivery("wss://r/", "your relay", state, attempts, None, None, "", None)


@pytest.mark.req("A7")
def test_a_job_sums_up_its_deliveries() -> None:
    job = Job(
        id=1,
        event_id="0" * 64,
        pubkey="0" * 64,
        kind=1,
        created_at=1,
        state=JobState.PUBLISHED,
        priority=1,
        goal=1,
        policy=PRESETS["interactive"],
        accepted_at=1,
        due_at=None,
        expires_at=9,
        published_at=2,
        finished_at=None,
        sign_attempts=4,
        next_at=None,
        error=None,
        content="",
        tags=(),
        size=0,
        waits_for=(),
        deliveries=(
            delivery(DeliveryState.DELIVERED, 1),
            delivery(DeliveryState.SUPERSEDED, 2),
            delivery(DeliveryState.WAITING, 5),
        ),
    )
    assert job.publish_attempts == 8
    assert [d.attempts for d in job.delivered] == [1]
    assert not job.is_finished


def test_a_new_job_knows_whether_it_needs_a_signer() -> None:
    draft = make_draft("ab" * 32, 1)
    event = parse_event(seal(draft, "0" * 128).raw)
    assert not NewJob(draft, (), PRESETS["capture"], 1).is_signed
    assert NewJob(event, (), PRESETS["capture"], 1).is_signed
