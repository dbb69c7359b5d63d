#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the page cache accesses of a command's file reads, by strace.

    record.py OUT.cptrace.zst [--limit-seconds 120] [--limit-pages 2000000] [--json] -- COMMAND...

Exit status: 0 when the trace was written, 2 with one line on stderr when it was not.
"""

import argparse
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from page_reads import Tracker
from strace_output import Parser

from cachepilot import _models

STRACE = "strace -f -y -s 0 --seccomp-bpf --quiet=attach,personality --absolute-timestamps=unix,ns"
GRACE_SECONDS = 5.0
TASKS_SHOWN = 6


class RecordError(Exception):
    """A recording cannot be made. The message is one line."""


def page_records(reads: "dict[str, array[int]]") -> NDArray[np.void]:
    """Return one record per page of every read, by time.

    Times count from the first record.
    """
    columns = {name: np.array(column, dtype=np.uint64) for name, column in reads.items()}
    order = np.argsort(columns["time_ns"], kind="stable")
    columns = {name: column[order] for name, column in columns.items()}
    pages = columns.pop("pages").astype(np.int64)
    run = np.repeat(np.arange(len(pages)), pages)
    records = np.zeros(len(run), dtype=_models.record_dtype())
    in_run = np.arange(len(run)) - np.repeat(np.cumsum(pages) - pages, pages)
    records["index"] = columns.pop("first")[run] + in_run.astype(np.uint64)
    for name, column in columns.items():
        records[name] = column[run]
    if len(records):
        records["time_ns"] -= records["time_ns"][0]
    return records


class Recording:
    """A command under strace, whose output is followed line by line while it runs."""

    def __init__(self, command: list[str], limit_seconds: float, limit_pages: int) -> None:
        self.tracker = Tracker()
        self.parser = Parser()
        self.stopped_by: str | None = None
        self.status = 0
        self._command = command
        self._limit_seconds = limit_seconds
        self._limit_pages = limit_pages
        self._partial = b""

    def run(self) -> None:
        """Run the command to its end or to a limit."""
        calls = ",".join("?" + name for name in self.tracker.system_calls())
        with tempfile.TemporaryDirectory(prefix="cachepilot-record-") as folder:
            fifo = Path(folder) / "strace"
            os.mkfifo(fifo)
            # Opened for writing too; otherwise the FIFO would report its end until strace has
            # opened it.
            lines = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
            try:
                with subprocess.Popen(
                    [*STRACE.split(), "-o", str(fifo), "-e", f"trace={calls}", *self._command],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                ) as process:
                    self._follow(process, lines)
                    self.status = process.wait()
            finally:
                os.close(lines)
        self.tracker.finish()

    def _follow(self, process: "subprocess.Popen[bytes]", lines: int) -> None:
        poller = select.poll()
        poller.register(lines, select.POLLIN)
        deadline = time.monotonic() + self._limit_seconds
        try:
            while poller.poll(100) or process.poll() is None:
                self._take(lines)
                now = time.monotonic()
                if self.stopped_by is None and self._limit_reached(now >= deadline):
                    os.killpg(process.pid, signal.SIGTERM)
                    deadline = now + GRACE_SECONDS
                elif self.stopped_by is not None and now >= deadline:
                    return
        finally:
            if process.poll() is None and self.stopped_by is not None:
                os.killpg(process.pid, signal.SIGKILL)

    def _limit_reached(self, late: bool) -> bool:
        if self.tracker.total_pages >= self._limit_pages:
            self.stopped_by = "pages"
        elif late:
            self.stopped_by = "seconds"
        return self.stopped_by is not None

    def _take(self, lines: int) -> None:
        """Process the lines that are available."""
        try:
            data = os.read(lines, 1 << 16)
        except BlockingIOError:
            return
        *whole, self._partial = (self._partial + data).split(b"\n")
        for line in whole:
            event = self.parser.parse(line.decode("utf-8", "surrogateescape"))
            if event is not None:
                self.tracker.see(event)


def summary(recording: Recording, records: NDArray[np.void], seconds: float) -> dict[str, object]:
    """Return what was recorded and what was not."""
    tracker = recording.tracker
    not_recorded = dict(tracker.not_recorded)
    if recording.parser.lines_not_understood:
        not_recorded["lines of strace that were not parsed"] = recording.parser.lines_not_understood
    per_task = np.bincount(records["task"], minlength=len(tracker.tasks) + 1)
    pages = np.unique(records[["device", "inode", "index"]])
    return {
        "records": len(records),
        "pages": len(pages),
        "files": len(np.unique(pages[["device", "inode"]])),
        "seconds": round(seconds, 3),
        "status": recording.status,
        "stopped_by": recording.stopped_by,
        "tasks": [
            {"task": task.number, "command": task.command, "records": int(per_task[task.number])}
            for task in tracker.tasks
            if per_task[task.number]
        ],
        "not_recorded": not_recorded,
    }


def record(command: list[str], out: Path, limits: tuple[float, int]) -> dict[str, object]:
    """Run `command` under strace, write `out`, and return the summary."""
    for program in ("strace", command[0]):
        if shutil.which(program) is None:
            raise RecordError(f"{program}: command not found")
    if not out.name.endswith((".cptrace", ".cptrace.zst")) or not out.parent.is_dir():
        raise RecordError(f"{out}: must be .cptrace or .cptrace.zst in a folder that exists")
    recording = Recording(command, *limits)
    start = time.monotonic()
    recording.run()
    records = page_records(recording.tracker.reads)
    if recording.status and recording.stopped_by is None:
        raise RecordError(f"{command[0]}: exit status {recording.status}; no trace was written")
    if not len(records):
        raise RecordError(f"{command[0]}: read no page of a regular file; no trace was written")
    _models.write_records(str(out), records)
    return summary(recording, records, time.monotonic() - start)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Record the file reads of a command as a trace.")
    parser.add_argument("out", type=Path, help="trace to write, .cptrace or .cptrace.zst")
    parser.add_argument("--limit-seconds", type=float, default=120.0)
    parser.add_argument("--limit-pages", type=int, default=2_000_000)
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("command", nargs="+", help="command and its arguments, after --")
    arguments = parser.parse_args()
    try:
        limits = (arguments.limit_seconds, arguments.limit_pages)
        result = record(arguments.command, arguments.out, limits)
    except (RecordError, _models.ModelsError, OSError) as error:
        print(f"record: {error}", file=sys.stderr)
        return 2
    if arguments.json:
        print(json.dumps(result, indent=2))
        return 0
    tasks: Any = result.pop("tasks")
    for key, value in result.items():
        print(f"{key}: {value}")
    for row in sorted(tasks, key=lambda row: -row["records"])[:TASKS_SHOWN]:
        print(f"task {row['task']} ({row['command']}): {row['records']} records")
    if len(tasks) > TASKS_SHOWN:
        print(f"and {len(tasks) - TASKS_SHOWN} tasks with fewer records")
    return 0


if __name__ == "__main__":
    sys.exit(main())
