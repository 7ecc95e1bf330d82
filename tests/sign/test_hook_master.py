"""The master secret of hooks: found or made, its owner's alone, the same for everybody."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from postrich.errors import BadSetting, KeyProblem
from postrich.sign.hook_master import FILE, VARIABLE, HookMaster

pytestmark = pytest.mark.req("F6")


def test_it_is_made_when_it_is_needed_and_not_before(tmp_path: Path) -> None:
    home = tmp_path / "home"
    master = HookMaster(home, {})
    assert master.find() is None
    assert not home.exists()
    made = master.need()
    assert (home / FILE).read_bytes().strip() == made
    assert len(made) == 64
    assert stat.S_IMODE((home / FILE).stat().st_mode) == 0o600
    assert list(home.iterdir()) == [home / FILE]
    assert HookMaster(home, {}).find() == made
    assert HookMaster(home, {}).need() == made
    assert made.decode() not in repr(master)


def test_who_is_first_makes_it_for_all(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda _: HookMaster(tmp_path, {}).need(), range(64)))
    assert len(set(found)) == 1


def test_the_environment_is_over_the_file(tmp_path: Path) -> None:
    HookMaster(tmp_path, {}).need()
    secret = "s" * 40
    assert HookMaster(tmp_path, {VARIABLE: f"{secret}\n"}).find() == secret.encode()
    assert HookMaster(None, {VARIABLE: secret}).need() == secret.encode()


def test_without_a_home_it_must_be_given() -> None:
    assert HookMaster(None, {}).find() is None
    with pytest.raises(BadSetting, match=f"set {VARIABLE}"):
        HookMaster(None, {}).need()


def test_what_is_no_secret(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="32 characters") as problem:
        HookMaster(None, {VARIABLE: "hunter2"}).find()
    assert "hunter2" not in str(problem.value)
    for damaged in (b"", b"short", b"\xff" * 64):
        (tmp_path / FILE).write_bytes(damaged)
        for ask in (HookMaster(tmp_path, {}).find, HookMaster(tmp_path, {}).need):
            with pytest.raises(KeyProblem, match="is damaged"):
                ask()
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).mkdir()
    with pytest.raises(KeyProblem, match="cannot be read"):
        HookMaster(tmp_path, {}).find()
