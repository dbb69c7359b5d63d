# SPDX-License-Identifier: Apache-2.0
"""Objectives that match no known tenant are stored, with a warning."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from fake_service import FakeService
from served import served

from cachepilot import cli
from cachepilot.cli.asking.client import URL_VARIABLE
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.objectives.workload import Workload

Run = Callable[..., tuple[str, list[str]]]
NOTE = "note: {}: matches no known tenant"


@pytest.fixture
def url() -> Iterator[str]:
    with served(FakeService()) as found:
        yield found


@pytest.fixture
def run(url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a command. It returns stdout and the lines of stderr."""

    def command(*arguments: str) -> tuple[str, list[str]]:
        monkeypatch.setenv(URL_VARIABLE, url)
        assert cli.run(arguments) == 0
        told = capsys.readouterr()
        return told.out, told.err.splitlines()

    return command


def test_unmatched_objectives_are_listed_in_their_order() -> None:
    patterns = ("/a", "/none", "/b*", "/none*", "*", "pod:shop/*", "pod:none/*", "/a*")
    workload = Workload("/a", "shop", "db", "")
    asked = Objectives(tuple(map(Objective, patterns)), workloads=(workload,))
    assert asked.unmatched({"/a", "/b/c"}) == ["/none", "/none*", "pod:none/*"]
    assert asked.unmatched(()) == list(patterns)


def test_setting_says_it_once_for_what_is_set(run: Run) -> None:
    for dry in (("--dry-run",), ()):
        _, told = run("slo", "set", "tenants/dbb", "--hit-ratio", "0.5", *dry)
        assert told == [NOTE.format("/tenants/dbb")]
    _, told = run("slo", "set", "db", "--hit-ratio", "0.5")
    assert told == []
    text, told = run("slo", "get")
    assert told == [NOTE.format("/tenants/dbb")] and 'cgroup = "/tenants/dbb"' in text


def test_paths_with_other_slashes_are_the_same_objective(run: Run) -> None:
    run("slo", "set", "db", "--hit-ratio", "0.5")
    run("slo", "set", "/db/", "--weight", "2")
    text, _ = run("slo", "get")
    assert text.count("[[tenant]]") == 1 and "weight = 2" in text and "hit_ratio = 0.5" in text
    assert run("slo", "get", "db")[0] == run("slo", "get", "/db")[0] == text.rstrip() + "\n"
    run("slo", "delete", "db/")
    assert "no objectives" in run("slo", "get")[0]


def test_applying_says_it_of_every_objective(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "objectives.toml"
    file.write_text("".join(f'[[tenant]]\ncgroup = "{one}"\n' for one in ("x", "/db", "/y*")))
    for dry in (("--dry-run",), ()):
        assert run("slo", "apply", str(file), *dry)[1] == [NOTE.format("/x"), NOTE.format("/y*")]


def test_json_lists_unmatched_objectives_and_is_accepted_again(run: Run, url: str) -> None:
    text, told = run("slo", "set", "/x", "--hit-ratio", "0.5", "--json")
    assert told == [] and json.loads(text)["unmatched"] == ["/x"]
    text, told = run("slo", "get", "--json")
    document = json.loads(text)
    assert told == [] and document["unmatched"] == ["/x"]
    answer = httpx.put(f"{url}/api/v1/objectives", json=document)
    assert answer.status_code == 200 and answer.json() == document
    left = httpx.delete(f"{url}/api/v1/objectives", params={"cgroup": "x"}).json()
    assert "unmatched" not in left
