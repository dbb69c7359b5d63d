# SPDX-License-Identifier: Apache-2.0
"""The harvest experiment in the virtual machine: streams, orders, the evaluation of a run."""

import json
import re
import sys
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.autopilot.configs import Addresses
from experiments.autopilot.measured import record
from experiments.harvest import __main__ as command
from experiments.harvest.machine import gains, measure, running, streams

from cachepilot.domain.objectives.file import parse_objectives
from cachepilot.domain.objectives.objective import Mode

BEGIN_S = 1e9
SECONDS = 100


def test_a_thinned_stream_has_all_requests_for_the_pages_that_it_keeps() -> None:
    keys = np.random.default_rng(3).integers(0, 1000, 20_000).astype(np.uint64) << np.uint64(20)
    pages = streams.thinned(keys, 250)
    assert set(pages.tolist()) == set(range(250))
    assert pages.size == pytest.approx(5000, rel=0.1)
    assert not (pages == np.roll(pages, 1)).any()
    np.testing.assert_array_equal(pages, streams.thinned(keys, 250))


def test_a_stream_of_few_pages_is_as_it_was_recorded() -> None:
    keys = np.array([7, 9, 9, 8, 7, 7, 9, 7], dtype=np.uint64)
    pages = streams.thinned(keys, 250)
    # 9 8 7 9 7, without the first 7, which follows the last 7 in the next pass.
    assert len(set(pages.tolist())) == 3
    assert [pages[i] == pages[j] for i, j in ((0, 3), (2, 4), (0, 1))] == [True, True, False]
    assert pages.size == 5


def test_the_rate_is_that_of_the_last_whole_passes() -> None:
    # 10 requests per second for 60 s, then 20.
    totals = [(float(s), 10.0 * s + 10.0 * max(0, s - 60)) for s in range(101)]
    assert gains.steady_ops(totals, 50.0, 100.0, 400) == 20
    assert gains.steady_ops(totals, 50.0, 100.0, 850) == pytest.approx(850 / 45)
    assert gains.steady_ops(totals, 50.0, 100.0, 5000) == pytest.approx(900 / 50)


def played(ops: float, seconds: int = SECONDS) -> dict[str, Any]:
    ticks = [[BEGIN_S + s, ops * s, 190.0 * s] for s in range(seconds + 1)]
    return {"ticks": ticks, "cache_ext": ""}


def run_of(autopilot: tuple[float, float], **others: Any) -> gains.Run:
    looks = ["default"] * 3 + ["lirs"] * 5
    return gains.Run(
        {
            "seconds": SECONDS,
            "latency_us": 20_000,
            "players": 4,
            "commit": "c",
            "machine": "m",
            "load": [[BEGIN_S, 3.0, 2.0, 1.0]],
            "requests": {"one": 1000, "two": 1_000_000},
            "played": {
                "one": {
                    "default": played(100.0),
                    "autopilot": played(autopilot[0]),
                    "lirs": played(200.0, SECONDS + 1),
                },
                "two": {
                    "default": played(100.0),
                    "autopilot": played(autopilot[1]),
                    "lirs": played(50.0),
                },
            },
            "looks": {"one": [{"policy": policy} for policy in looks]},
            **others,
        }
    )


def test_gains_are_over_the_default_and_the_best_may_be_the_default() -> None:
    one, two = run_of((150.0, 98.0)).gains()
    assert (one.best, two.best) == ("lirs", "default")
    assert one.over_default("autopilot") == pytest.approx(1.5)
    assert one.policies == ["default", "lirs"]
    assert one.changes == 1


def test_rows_are_of_every_run_and_the_worst_is_of_all() -> None:
    found = {row.metric: row for row in gains.rows([run_of((150, 98)), run_of((200, 99))])}
    share = found["autopilot.harvest.vm.share"]
    assert share.spread == pytest.approx((log(1.5 * 0.98) / log(2), log(2 * 0.99) / log(2)))
    assert (share.goal, share.runs) == (0.80, 2)
    worst = found["autopilot.harvest.vm.worst"]
    assert worst.value == pytest.approx(0.98)
    assert worst.spread == pytest.approx((0.98, 0.99))
    assert worst.reference is not None
    assert worst.reference.endswith("two")


def test_a_run_counts_when_players_waited_for_the_disk_on_a_host_that_was_not_busy() -> None:
    # 190 reads per second of 20 ms each keep 3.8 of 4 players waiting.
    assert run_of((150, 98)).waiting == pytest.approx(0.95)
    assert not run_of((150, 98)).is_starved
    assert run_of((150, 98), latency_us=10_000).is_starved
    assert run_of((150, 98), load=[[BEGIN_S, 9.0, 2.0, 1.0]]).is_starved


def test_the_output_of_the_player_becomes_times_requests_and_reads() -> None:
    lines = [
        '{"at":"start","ns":5000000000,"accesses":0,"block_reads":7}',
        '{"at":"warm","ns":5000000000,"accesses":0,"block_reads":7}',
        "a warning that is no JSON",
        '{"at":"tick","ns":6500000000,"accesses":40,"block_reads":27}',
        '{"at":"end","ns":6600000000,"accesses":43,"block_reads":28}',
    ]
    found = running.ticks("\n".join(lines), BEGIN_S)
    assert found == [[BEGIN_S, 0, 7], [BEGIN_S + 1.5, 40, 27]]


def test_every_recording_is_played_by_every_side_and_only_the_autopilot_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = measure.world(quick=False)
    names = [one.name for part in world.rounds for one in part]
    assert len(set(names)) == len(names) == 6
    assert {"default", "autopilot", "wtinylfu"} <= set(world.sides)
    assert all(one.file_pages > 2 * streams.LIMIT_PAGES for part in world.rounds for one in part)
    assert world.players == 2 * len(world.sides)
    monkeypatch.setenv("CACHEPILOT_AGENT", sys.executable)
    told = running.orders(world, tmp_path, Addresses(7, 8))
    rounds = (tmp_path / "rounds").read_text().splitlines()
    assert [line.split()[1] for line in rounds] == names
    assert (tmp_path / "sides").read_text().startswith("default -\nautopilot -\n")
    assert 'match = ["autopilot/*"]' in (tmp_path / "agent.toml").read_text()
    script = running.SCRIPT.read_text()
    for name in re.findall(r"^#   ([A-Z_]+)(?:, ([A-Z]+))?", script, re.MULTILINE):
        assert {*filter(None, name)} <= set(told["environment"])
    stated = parse_objectives(running.steered(world).objectives, "autopilot")
    assert stated.of(f"/autopilot/{names[0]}").mode is Mode.AUTO
    assert stated.of(f"/default/{names[0]}").mode is Mode.OBSERVE


def test_runs_that_are_kept_are_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "FOLDER", tmp_path)
    assert measure.measure([], quick=False) == ([], {})
    document = {**run_of((150, 98)).document, "experiment": running.NAME}
    record.write(document, 1)
    record.write({**document, "load": [[BEGIN_S, 9.0, 2.0, 1.0]]}, 2)
    found, origin = measure.measure([], quick=False)
    assert {row.runs for row in found} == {1}
    assert origin == {"commit": "c", "machine": "m"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--help"], "3, 10, 30, adoption, unseen, stops, vm"),
        (["--quick", "vn"], "unknown part 'vn'"),
        (["vm", "--runs", "-1"], "--runs -1: must be 0 to 999"),
    ],
)
def test_the_command_names_what_it_does_not_know(
    words: list[str],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["run", *words])
    with pytest.raises(SystemExit):
        command.main()
    assert told in "".join(capsys.readouterr())


@pytest.mark.long
def test_a_short_run_in_the_machine_plays_every_side() -> None:
    document = json.loads(json.dumps(running.run(measure.world(quick=True))))
    for one in gains.Run(document).gains():
        assert min(one.ops.values()) > 0
    assert document["load"]
