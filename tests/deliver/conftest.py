"""Waits of the engine that no setting shortens, shortened."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postrich.rules.health.FIRST_WAIT", 0.05)
    monkeypatch.setattr("postrich.rules.session.READ_BACK_WAIT", 0.3)
    monkeypatch.setattr("postrich.rules.session.CHALLENGE_WAIT", 0.3)
    monkeypatch.setattr("postrich.rules.session.AUTH_WAIT", 0.3)
    monkeypatch.setattr("postrich.wire.connection.LOOK_AGAIN", 0.1)
    monkeypatch.setattr("postrich.deliver.fleet.LOOK_AGAIN", 0.1)
    monkeypatch.setattr("postrich.deliver.results.TRY_AGAIN", 0.05)
    monkeypatch.setattr("postrich.deliver.loop.AFTER_FAULT", 0.05)
