# SPDX-License-Identifier: Apache-2.0
"""The objectives file: what it may contain, refusals, and which statement applies."""

from pathlib import Path

import pytest

from cachepilot.domain.objectives.file import ObjectivesError, parse_objectives, read_objectives
from cachepilot.domain.objectives.objective import UNNAMED, Goal, Mode, Objective, size_bytes
from cachepilot.errors import InputError

MIB = 1 << 20
FULL = """
goal = "least_memory"

[[tenant]]
cgroup = "/db/*"
throughput_ops = 5000
latency_p99_us = 900.5
hit_ratio = 0.9
weight = 2
priority = -3
keep = 0.75
memory_min = "64MiB"
memory_max = 0.5
policies = ["s3fifo", "lfu"]
mode = "recommend"
affinity = ["ssd", "zone=a"]
anti_affinity = ["web/*"]
movable = false
cpus = 2.5

[[tenant]]
cgroup = "/db/main"
policies = "lru"
"""


def test_every_key_is_read() -> None:
    objectives = parse_objectives(FULL, "o.toml")
    found = objectives.of("/db/other")
    assert objectives.goal is Goal.LEAST_MEMORY
    assert (found.throughput_ops, found.latency_p99_us, found.hit_ratio) == (5000, 900.5, 0.9)
    assert (found.weight, found.priority, found.mode) == (2, -3, Mode.RECOMMEND)
    assert (found.keep, objectives.of("/db/main").keep) == (0.75, 0.9)
    assert found.policies == ("s3fifo", "lfu")
    assert (found.affinity, found.anti_affinity) == (("ssd", "zone=a"), ("/web/*",))
    assert found.cpus == 2.5
    assert (found.movable, objectives.of("/db/main").movable) == (False, True)
    assert found.memory_min is not None and found.memory_max is not None
    assert size_bytes(found.memory_min, 1000 * MIB) == 64 * MIB
    assert size_bytes(found.memory_max, 1000 * MIB) == 500 * MIB


def test_an_exact_path_comes_before_globs_and_the_first_glob_before_others() -> None:
    objectives = parse_objectives(FULL + '[[tenant]]\ncgroup = "*"\nweight = 7\n', "o.toml")
    assert objectives.of("/db/main").policies == ("lru",)
    assert objectives.of("/db/x").weight == 2
    assert objectives.of("/web").weight == 7


def test_a_cgroup_that_no_objective_matches_is_only_observed() -> None:
    assert parse_objectives("", "o.toml").of("/web") is UNNAMED
    assert UNNAMED.mode is Mode.OBSERVE


@pytest.mark.parametrize(
    ("line", "key", "allowed"),
    [
        ("throughput_ops = 0", "throughput_ops", "above 0"),
        ("throughput_ops = true", "throughput_ops", "above 0"),
        ("latency_p99_us = nan", "latency_p99_us", "above 0"),
        ("hit_ratio = 1.5", "hit_ratio", "above 0 to 1"),
        ("weight = -1", "weight", "above 0"),
        ("weight = inf", "weight", "above 0"),
        ("priority = 1.5", "priority", "an integer"),
        ("keep = 1.1", "keep", "0 to 1"),
        ("keep = -0.1", "keep", "0 to 1"),
        ("keep = nan", "keep", "0 to 1"),
        ("keep = true", "keep", "0 to 1"),
        ('memory_min = "12parsecs"', "memory_min", "KiB"),
        ("memory_max = []", "memory_max", "bytes like 16MiB"),
        ("memory_max = true", "memory_max", "bytes like 16MiB"),
        ("policies = []", "policies", "array of policies"),
        ('policies = ["a", "a"]', "policies", "each once"),
        ("policies = [1]", "policies", "array of policies"),
        ("tasks = []", "tasks", "array of 1 to 16"),
        ("cpus = 0", "cpus", "above 0 to 10000 CPUs"),
        ("affinity = []", "affinity", "1 to 16 names or labels of nodes"),
        ('affinity = "ssd"', "affinity", "an array"),
        ('affinity = ["a", "a"]', "affinity", "each once"),
        ("anti_affinity = [1]", "anti_affinity", "1 to 16 paths of cgroups"),
        ('anti_affinity = ["pod:a/b"]', "anti_affinity", "paths of cgroups"),
        ("movable = 1", "movable", "true or false"),
        ('tasks = "db"', "tasks", "array of 1 to 16"),
        ('tasks = ["a", "a"]', "tasks", "each once"),
        ('tasks = ["a", ""]', "tasks", "1 to 64 bytes"),
        (f"tasks = ['{'a' * 65}']", "tasks", "1 to 64 bytes"),
        ("tasks = [1]", "tasks", "command names"),
        ('mode = "full"', "mode", "observe, recommend, auto"),
        ("cgroup_path = 1", "cgroup_path", "throughput_ops"),
        ('memory_min = "2MiB"\nmemory_max = "1MiB"', "memory_min", "at most 1MiB"),
    ],
)
def test_a_refusal_names_file_key_and_range(line: str, key: str, allowed: str) -> None:
    with pytest.raises(ObjectivesError) as caught:
        parse_objectives(f'[[tenant]]\ncgroup = "/a"\n{line}\n', "o.toml")
    message = str(caught.value)
    assert message.startswith("o.toml: tenant 1: ")
    assert key in message and "allowed: " in message and allowed in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("x = 1", "o.toml: unknown key 'x'"),
        ('goal = "speed"', "o.toml: goal: 'speed'"),
        ("tenant = 3", "o.toml: tenant: "),
        ("tenant = [3]", "o.toml: tenant 1: must be a table"),
        ("[[tenant]]\nweight = 1", "o.toml: tenant 1: cgroup: is missing"),
        ('[[tenant]]\ncgroup = "/a"\n[[tenant]]\ncgroup = "/a"', "o.toml: tenant 2: cgroup"),
        ("goal =", "o.toml: is not TOML"),
        (f"goal = {'9' * 5000}", "o.toml: is not TOML"),
    ],
)
def test_a_file_that_is_not_objectives_is_refused(text: str, part: str) -> None:
    with pytest.raises(ObjectivesError) as caught:
        parse_objectives(text, "o.toml")
    assert part in str(caught.value)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "objectives.toml"
    with pytest.raises(ObjectivesError, match=r"objectives\.toml: cannot be read"):
        read_objectives(path)
    path.write_text(FULL, "utf-8")
    assert read_objectives(path) == parse_objectives(FULL, "elsewhere")


@pytest.mark.parametrize("goal", ["throughput", "fairness", 1])
def test_an_unknown_goal_is_refused_with_the_known_ones(goal: object) -> None:
    with pytest.raises(ObjectivesError) as caught:
        parse_objectives(f"goal = {goal!r}\n", "o.toml")
    assert str(caught.value).startswith("o.toml: goal: ")
    assert "proportional_fairness, total_throughput, least_memory" in str(caught.value)


def test_a_keep_out_of_its_range_is_refused() -> None:
    with pytest.raises(InputError, match=r"objective /a: keep: 2 \(allowed: 0 to 1\)"):
        Objective("/a", keep=2)
