# SPDX-License-Identifier: Apache-2.0
"""What the kernel experiments run in the guest, and how they read its output; run on the host."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from experiments.kernel_guest import streams
from experiments.kernel_guest.compiled import program
from experiments.kernel_guest.guest_run import GuestError, Lines

SHAPE = streams.Shape(pages=400, accesses=3000)


EVERY_STREAM = {**streams.STREAMS, **streams.READAHEAD_STREAMS}


@pytest.mark.parametrize("name", EVERY_STREAM)
def test_streams_are_the_same_every_time_and_repeat_no_page(name: str) -> None:
    pages = EVERY_STREAM[name](SHAPE)
    assert np.array_equal(pages, EVERY_STREAM[name](SHAPE))
    read_pages = streams.LARGE_READ_PAGES if name == "large_reads" else 1
    assert len(pages) == SHAPE.accesses // read_pages
    assert int(pages.max()) + read_pages <= SHAPE.pages
    assert not (pages[1:] == pages[:-1]).any()


def test_a_loop_is_a_quarter_longer_than_what_fits() -> None:
    pages = streams.loop(SHAPE)
    assert len(np.unique(pages)) == 125
    assert np.array_equal(pages[:125], pages[125:250])


def test_the_hot_pages_of_a_phase_change_are_others_in_each_third() -> None:
    pages = streams.phase_change(SHAPE)
    hottest = [
        int(np.bincount(part.astype(np.int64)).argmax()) for part in np.array_split(pages, 3)
    ]
    assert len(set(hottest)) == 3


def test_a_third_of_scan_zipf_is_one_scan_in_order() -> None:
    pages = streams.scan_zipf(SHAPE)
    third_run = pages[128:192].astype(np.int64)
    assert int((np.diff(third_run) == 1).sum()) > 50


def test_runs_of_strided_reads_have_one_distance_each() -> None:
    pages = streams.strided(SHAPE).astype(np.int64)
    steps = np.diff(pages[: streams.STRIDED_RUN_READS]) % SHAPE.pages
    assert len(np.unique(steps)) == 1


def test_each_interleaved_stream_stays_in_its_quarter() -> None:
    quarters = streams.interleaved(SHAPE).astype(np.int64) // (SHAPE.pages // 4)
    assert np.array_equal(quarters, np.arange(SHAPE.accesses) % 4)


@pytest.fixture
def played(tmp_path: Path) -> Path:
    """Write a file of 400 pages, and its stream beside it."""
    (tmp_path / "pages").write_bytes(b"x" * (400 * 4096))
    streams.write("zipf", streams.zipf(SHAPE), tmp_path)
    return tmp_path


def play(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [str(program("play_stream")), "--file", str(folder / "pages")]
    return subprocess.run(
        [*command, "--stream", str(folder / "zipf.u64"), *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("threads", [1, 4])
def test_the_player_reads_every_page_once_and_says_where_it_is(played: Path, threads: int) -> None:
    done = play(played, "--warmup", "1000", "--ticks", "4", "--threads", str(threads))
    assert done.returncode == 0, done.stderr
    lines = Lines.parse(done.stdout, "zipf")
    assert lines.start["accesses"] == 0
    assert [tick["accesses"] for tick in lines.ticks] == [1400, 1800, 2200, 2600]
    assert lines.measured(lambda line: line["accesses"]) == 2000
    assert lines.accesses_per_second == pytest.approx(2000 / lines.seconds)


@pytest.mark.parametrize("threads", [1, 4])
def test_the_player_restarts_the_stream_until_its_time_is_over(played: Path, threads: int) -> None:
    # Each read is followed by a pause, so that one pass takes at least a tenth of the time.
    options = ["--seconds", "1", "--every-ms", "250", "--pause-us", "20"]
    done = play(played, *options, "--threads", str(threads))
    assert done.returncode == 0, done.stderr
    lines = Lines.parse(done.stdout, "zipf")
    assert lines.seconds == pytest.approx(1.0, abs=0.5)
    assert lines.end["accesses"] > SHAPE.accesses
    assert lines.end["accesses"] >= lines.ticks[-1]["accesses"] > lines.ticks[0]["accesses"]
    refused = play(played, "--seconds", "1")
    assert "--seconds needs --every-ms" in refused.stderr


def test_the_player_tells_of_each_step_of_the_warm_up_and_of_the_rest(played: Path) -> None:
    done = play(played, "--warmup", "1000", "--step", "600")
    assert done.returncode == 0, done.stderr
    lines = Lines.parse(done.stdout, "zipf")
    assert [tick["accesses"] for tick in lines.ticks] == [600, 1600, 2200, 2800]
    assert (lines.warm["accesses"], lines.end["accesses"]) == (1000, 3000)


def test_another_process_prints_and_ends_with_the_player(played: Path) -> None:
    command = [str(program("play_stream")), "--file", str(played / "pages")]
    options = ["--stream", str(played / "zipf.u64"), "--seconds", "60", "--every-ms", "20"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as player:
        assert player.stdout is not None
        printed = [player.stdout.readline() for _ in range(4)]
        counts = Path(f"/proc/{player.pid}/io").read_text("ascii")
        player.kill()
        # The pipe ends when every process that has it open has ended.
        player.stdout.read()
    assert all(line.startswith('{"at":') for line in printed)
    assert "wchar: 0\n" in counts


def test_the_player_refuses_a_warm_up_as_long_as_the_stream(played: Path) -> None:
    done = play(played, "--warmup", "3000")
    assert done.returncode == 1
    assert "3000 accesses, not more than --warmup" in done.stderr


def test_reads_of_pages_that_are_not_cached_are_counted_with_readahead(played: Path) -> None:
    with (played / "pages").open("rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    done = play(played, "--readahead", "--warmup", "1000")
    if "cachestat: Function not implemented" in done.stderr:
        pytest.skip("a kernel before 6.5")
    assert done.returncode == 0, done.stderr
    lines = Lines.parse(done.stdout, "zipf")
    assert lines.start["uncached_reads"] == 0
    distinct = len(np.unique(streams.zipf(SHAPE)))
    kind = subprocess.check_output(["stat", "-f", "-c", "%T", played], text=True).strip()
    # On a file system in memory, pages cannot be dropped.
    assert kind == "tmpfs" or 0 < lines.warm["uncached_reads"] <= distinct
    assert lines.measured(lambda line: line["uncached_reads"]) <= lines.warm["uncached_reads"]
    assert "uncached_reads" not in play(played, "--warmup", "1000").stdout
    last = int(streams.zipf(SHAPE).max())
    os.truncate(played / "pages", (last + 1) * 4096)
    large = play(played, "--readahead", "--warmup", "1000", "--read-pages", "2")
    assert f"page {last}" in large.stderr, "the second page of that read is beyond the file"
    assert "--read-pages: 1 to 64" in play(played, "--read-pages", "0").stderr


def test_a_page_beyond_the_file_is_an_error(played: Path) -> None:
    (played / "pages").write_bytes(b"x" * 4096)
    done = play(played)
    assert done.returncode == 1
    assert "page" in done.stderr


def test_scans_and_gets_are_counted_apart(played: Path) -> None:
    arguments = ["--file", str(played / "pages"), "--stream", str(played / "zipf.u64")]
    sizes = ["--scan-pages", "50", "--warm-seconds", "0", "--seconds", "1"]
    done = subprocess.run(
        [str(program("get_scan")), *arguments, *sizes, "--get-threads", "2"],
        input="go\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    tasks = dict(line.split(" ") for line in done.stdout.splitlines()[:2])
    assert len(tasks["get_tasks"].split(",")) == 2
    assert len(tasks["scan_tasks"].split(",")) == 1
    result = Lines.parse(done.stdout, "get_scan").result
    assert result["gets_per_second"] > 0
    assert result["scanned_pages_per_second"] > 0
    assert result["get_p50_us"] <= result["get_p99_us"]


def test_output_without_an_end_is_refused() -> None:
    with pytest.raises(GuestError, match="zipf: no line 'end'"):
        Lines.parse(json.dumps({"at": "warm"}), "zipf")
