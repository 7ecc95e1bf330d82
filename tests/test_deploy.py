"""What is in `deploy/` can be read by who it is for, and names only what there is."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from postrich.config import read_settings
from tests.doors.test_errors import COMMANDS, DEEDS
from tests.test_docs import figures

pytestmark = pytest.mark.req("G4")

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
HARDENED = {
    *("NoNewPrivileges", "ProtectSystem", "ProtectHome", "PrivateTmp", "PrivateDevices"),
    *("RestrictAddressFamilies", "SystemCallFilter", "CapabilityBoundingSet", "UMask"),
    *("LoadCredential", "StateDirectory", "User", "TimeoutStopSec", "Restart"),
}


def is_command(words: list[str]) -> bool:
    """Whether `postrich` knows these words."""
    name, *rest = words
    deeds = [word for word in rest if not word.startswith("-")]
    if name in DEEDS:
        return not deeds or deeds[0] in DEEDS[name]
    return name in COMMANDS


# -- containers ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "docker-compose.yml").read_text())
    return found


def test_the_services_are_there_and_run_what_there_is(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert {"postgres", "serve", "worker"} <= set(services)
    assert services["worker"]["deploy"]["replicas"] == 2
    for name in ("migrate", "serve", "worker"):
        assert is_command(services[name]["command"])


def test_everything_that_services_name_is_there(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (DEPLOY / source).is_file() if "/" in source else source in compose["volumes"]
        if "build" in service:
            context = (DEPLOY / service["build"]["context"]).resolve()
            assert (context / service["build"]["dockerfile"]).is_file()


def test_no_password_is_written_down(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for name, value in service["environment"].items():
            if "PASS" in name or "SECRET" in name:
                assert value.startswith("${")
        assert "@postgres/" in service["environment"].get("POSTRICH_STORE", "@postgres/")


@pytest.mark.req("F8")
def test_the_service_is_asked_whether_it_works_where_it_listens(compose: dict[str, Any]) -> None:
    settings = read_settings(DEPLOY / "postrich.toml", {})
    assert settings.http.is_hosted
    serve = compose["services"]["serve"]
    assert f"http://127.0.0.1:{settings.http.port}/health" in serve["healthcheck"]["test"][-1]
    [port] = serve["ports"]
    assert port.startswith("127.0.0.1:")  # for the proxy on this machine, not for the world
    assert port.endswith(f":{settings.http.port}")
    mounted = [volume.split(":") for volume in serve["volumes"]]
    assert ["./postrich.toml", "/var/lib/postrich/postrich.toml"] in [v[:2] for v in mounted]


def test_the_image_copies_what_there_is() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY ")]
    assert copied
    for sources in copied:
        assert all((ROOT / source).exists() for source in sources)
    [command] = [line for line in lines if line.startswith("CMD ")]
    assert is_command(json.loads(command.removeprefix("CMD ")))
    assert any(line.startswith("USER ") for line in lines)


# -- systemd -------------------------------------------------------------------------------------


class Unit(configparser.RawConfigParser):
    """A unit file: keys keep their case and may come more than once."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def read_unit(path: Path) -> Unit:
    unit = Unit(strict=False, interpolation=None)
    unit.read_string(path.read_text())
    return unit


def test_there_is_a_serve_and_a_worker() -> None:
    assert [unit.name for unit in UNITS] == ["postrich-worker@.service", "postrich.service"]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_says_all_it_should(path: Path) -> None:
    unit = read_unit(path)
    assert unit["Unit"]["Description"]
    assert unit["Install"]["WantedBy"] == "multi-user.target"
    assert set(unit["Service"]) >= HARDENED
    _, *words = shlex.split(unit["Service"]["ExecStart"])
    assert is_command(words)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_understands_a_unit(path: Path, tmp_path: Path) -> None:
    """With a program in place of ours, which is not installed here."""
    checker = shutil.which("systemd-analyze")
    if checker is None:
        assert read_unit(path).sections() == ["Unit", "Service", "Install"]
        return
    copy = tmp_path / path.name.replace("@", "@1")
    text = re.sub(
        r"^ExecStart=\S+", f"ExecStart={sys.executable}", path.read_text(), flags=re.MULTILINE
    )
    copy.write_text(text)
    done = subprocess.run(
        [checker, "verify", "--man=no", "--recursive-errors=no", str(copy)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    complaints = [line for line in done.stderr.splitlines() if path.stem.split("@")[0] in line]
    assert (done.returncode, complaints) == (0, [])


# -- Grafana -------------------------------------------------------------------------------------


def questions() -> list[str]:
    """All that the dashboard asks Prometheus."""
    board = json.loads((DEPLOY / "grafana" / "postrich.json").read_text())
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in board["panels"]:
        assert panel["title"]
        assert panel["targets"]
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return asked + [variable["query"] for variable in board["templating"]["list"][1:]]


def names_in(text: str) -> set[str]:
    found = re.findall(r"postrich_\w+", text)
    return {re.sub("_(bucket|count|sum)$", "", name) for name in found}


@pytest.mark.req("F8")
def test_the_dashboard_asks_only_for_figures_that_there_are() -> None:
    asked = questions()
    for question in asked:
        assert names_in(question)
        assert question.count("(") == question.count(")")
        assert question.count("{") == question.count("}")
    assert names_in(" ".join(asked)) <= figures()


@pytest.mark.req("F8")
def test_the_dashboard_shows_what_is_to_be_watched() -> None:
    asked = " ".join(questions())
    for figure in (
        "increase(postrich_scheduled_total",
        'postrich_ended_total{job=~"$job",state="published"}',
        'postrich_ended_total{job=~"$job",state="failed"}',
        'postrich_deliveries_total{job=~"$job",outcome="retry"}',
        "postrich_alarm_lateness_seconds_bucket",
    ):
        assert figure in asked


def test_what_is_one_for_all_processes_is_not_added_up() -> None:
    """Every process tells the whole store's figures: the sum would count them twice."""
    for question in questions():
        for name in ("jobs", "oldest_waiting_seconds", "workers", "waiting", "relay_breaker_open"):
            assert not re.search(rf"sum[^()]*(\([^()]*\))? ?\(postrich_{name}\b", question)


def test_the_readme_names_files_that_are_there() -> None:
    text = (DEPLOY / "README.md").read_text()
    for name in re.findall(r"\]\(([^)#]+)\)", text):
        assert (DEPLOY / name).exists(), name
    assert (DEPLOY / "grafana" / "postrich.json").is_file()
