"""Stories of an outbox are told of each kind of store (G4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deliver import outboxes


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.req("G4"))])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a story's outbox is: `outboxes.place_in` makes a file of it, or a schema."""
    monkeypatch.setattr(outboxes, "STORE", request.param)
    return tmp_path
