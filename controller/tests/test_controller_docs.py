# SPDX-License-Identifier: Apache-2.0
"""The controller's pages agree with the code: keys, routes, alerts, options, the example."""

import re
import tomllib
from dataclasses import asdict
from pathlib import Path

import pytest
from fake_service import FakeService

from cachepilot import cli
from cachepilot.api.app import create_app
from cachepilot.api.shapes.objectives import ObjectiveShape
from cachepilot.decide.config import RANGES as DECIDE_RANGES
from cachepilot.decide.config import DecideConfig
from cachepilot.decide.costs import COLLECTED
from cachepilot.domain.objectives.file import parse_objectives
from cachepilot.fleet.config import TOP, ControllerConfig, read_config
from cachepilot.fleet.moving.seen.patience import LOST_INTERVALS, LOST_S, RETURN_S
from cachepilot.plan.problem.config import Config as PlannerConfig

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
OPERATING = "\n".join(path.read_text("utf-8") for path in sorted((DOCS / "operating").glob("*.md")))


def test_the_example_is_a_document_and_every_key_is_described() -> None:
    text = (DOCS / "reference" / "objectives.md").read_text("utf-8")
    example = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[0]
    assert len(parse_objectives(example, "the example").tenants) == 3
    described = re.findall(r"^\| `([a-z0-9_]+)` \|.*\|.*\|.*\|$", text, re.MULTILINE)
    assert described[: len(ObjectiveShape.model_fields)] == list(ObjectiveShape.model_fields)


def test_every_setting_is_described_with_its_range_and_default() -> None:
    text = (DOCS / "reference" / "configuration.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| .*? \| (.*) \| (.*) \|$", text, re.M)
    told = {key: (allowed, default.strip("`")) for key, allowed, default in rows}
    least_share = {"least_share": ControllerConfig.least_share}
    settings = {**asdict(PlannerConfig()), **least_share, **asdict(DecideConfig())}
    assert told.keys() == {*TOP, *settings}
    for key, value in settings.items():
        default = told[key][1]
        assert (default if isinstance(value, str) else float(default)) == value
    for key, (low, high) in DECIDE_RANGES.items():
        assert [float(one) for one in told[key][0].split(" to ")] == [low, high]


def test_least_costs_and_waits_agree_with_the_code() -> None:
    settings = (DOCS / "reference" / "configuration.md").read_text("utf-8")
    assert f"giving up a confirmed policy counts at least {COLLECTED:g} |" in settings
    told = " ".join(OPERATING.split())
    longer = f"{LOST_INTERVALS} intervals, whichever is longer"
    assert f"for {LOST_S:g} s or for {longer}" in told
    assert RETURN_S == 5 * 60 and f"after five minutes or {longer}, the rollout ends" in told


def test_the_configuration_that_is_installed_states_the_defaults() -> None:
    path = ROOT / "configs" / "controller.toml"
    assert read_config(path) == ControllerConfig()
    assert set(tomllib.loads(path.read_text("utf-8"))["decide"]) == set(DECIDE_RANGES)


def test_every_route_is_listed() -> None:
    paths = create_app(FakeService()).openapi()["paths"]
    routes = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    text = (DOCS / "reference" / "api.md").read_text("utf-8")
    assert set(re.findall(r"^\| `([A-Z]+ /\S+)` \|", text, re.MULTILINE)) == routes


def test_every_alert_is_listed() -> None:
    rules = (ROOT / "configs" / "prometheus" / "rules.yml").read_text("utf-8")
    alerts = re.findall(r"alert: (\w+)", rules)
    assert set(re.findall(r"`(Cachepilot\w+)`", OPERATING)) == set(alerts)


@pytest.mark.parametrize(
    "command",
    ["slo get", "slo apply", "slo set", "slo delete", "status", "explain", "history", "pin",
     "unpin", "revert", "plan", "consolidate", "controller run", "controller check-config",
     "controller check-health"],
)  # fmt: skip
def test_commands_and_options_of_the_examples_exist(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = re.findall(rf"^cachepilot {command}\b(.*?)(?: +#.*)?$", OPERATING, re.MULTILINE)
    assert lines
    assert cli.run([*command.split(), "--help"]) == 0
    usage = capsys.readouterr().out
    for option in re.findall(r"(?<!\S)(--?[a-z][a-z0-9-]*)", " ".join(lines)):
        assert option in usage


def test_every_test_that_a_guarantee_names_is_there() -> None:
    text = (DOCS / "concepts" / "guarantees.md").read_text("utf-8")
    rows = [line.split("|")[2] for line in text.splitlines() if "`test_" in line and "|" in line]
    assert len(rows) > 25
    for row in rows:
        for part in row.split(";"):
            name, *tests = re.findall(r"`(test_[\w.]+)`", part)
            source = (ROOT / "controller" / "tests" / name).read_text("utf-8")
            assert tests
            assert not [one for one in tests if f"def {one}(" not in source], name
