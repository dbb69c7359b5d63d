# SPDX-License-Identifier: Apache-2.0
"""Converts system calls to page reads: tracks descriptors, the offsets they share, and files."""

import os
import stat
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from strace_output import Call, Exit, descriptor

PAGE_BITS = 12
# Columns of a recording. A row is a run of pages that one call read.
COLUMNS = ("time_ns", "device", "inode", "first", "pages", "task")
# File systems whose files look regular but have no page cache.
PSEUDO = {"proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "devpts"}


@dataclass
class OpenFile:
    """An open file description, which descriptors made by dup and fork share."""

    device: int = 0
    inode: int = 0  # 0: not a regular file
    offset: int | None = 0
    append: bool = False
    last_page: int = -1


@dataclass
class Descriptor:
    """One entry of a descriptor table."""

    file: OpenFile
    close_on_exec: bool = False


Table = dict[int, Descriptor]


@dataclass
class Task:
    """A thread: its descriptor table, shared with its process, and its number in the trace."""

    number: int
    table: Table
    command: str


def pseudo_devices() -> set[int]:
    """Return `st_dev` of the mounted file systems that have no page cache."""
    devices = set()
    for line in Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines():
        mount, _, rest = line.partition(" - ")
        if rest.split(" ")[0] in PSEUDO:
            major, minor = mount.split(" ")[2].split(":")
            devices.add(os.makedev(int(major), int(minor)))
    return devices


class Tracker:
    """Follows every task of a recording; `reads` and `tasks` are the results.

    `not_recorded` counts, by reason, what a trace of system calls cannot attribute or see.
    """

    def __init__(self) -> None:
        self.reads: dict[str, array[int]] = {name: array("Q") for name in COLUMNS}
        self.total_pages = 0
        self.tasks: list[Task] = []
        self.not_recorded: Counter[str] = Counter()
        self._alive: dict[int, Task] = {}
        self._early: dict[int, list[Call | Exit]] = {}
        self._pseudo = pseudo_devices()
        self._handlers: dict[str, Callable[[Call, Task], None]] = {}
        for handler, names in {
            self._opened: "open openat openat2 creat",
            self._read: "read readv pread64 preadv preadv2",
            self._written: "write writev pwritev2",
            self._copied: "copy_file_range splice",
            self._sent: "sendfile",
            self._sought: "lseek",
            self._closed: "close",
            self._closed_range: "close_range",
            self._duplicated: "dup dup2 dup3",
            self._controlled: "fcntl ioctl",
            self._forked: "fork vfork clone clone3",
            self._executed: "execve execveat",
            self._mapped: "mmap",
            self._submitted: "io_uring_setup",
        }.items():
            self._handlers |= dict.fromkeys(names.split(), handler)

    def system_calls(self) -> list[str]:
        """Return the names of the calls that must be traced."""
        return sorted(self._handlers)

    def see(self, event: Call | Exit) -> None:
        """Process the next event of the recording."""
        if not self.tasks and isinstance(event, Call):
            self._start(event.task, {}, "")
        task = self._alive.get(event.task)
        if task is None:
            # A child may run before its parent's fork returns. Its events wait for its descriptor
            # table.
            self._early.setdefault(event.task, []).append(event)
        elif isinstance(event, Exit):
            del self._alive[event.task]
        elif event.result >= 0 and event.name in self._handlers:
            self._handlers[event.name](event, task)

    def finish(self) -> None:
        """Count the events of tasks whose fork was never seen."""
        lost = sum(len(events) for events in self._early.values())
        if lost:
            self.not_recorded["calls of unknown tasks"] += lost

    def _start(self, task: int, table: Table, command: str) -> None:
        self._alive[task] = Task(len(self.tasks) + 1, table, command)
        self.tasks.append(self._alive[task])

    def _identify(self, path: str | None) -> OpenFile:
        """Return the file at an absolute path, which is looked up while the command still runs."""
        if path is None or not path.startswith("/") or path.startswith("/proc/"):
            return OpenFile()
        try:
            status = os.stat(path)
        except OSError:
            self.not_recorded["files removed before they were examined"] += 1
            return OpenFile()
        if not stat.S_ISREG(status.st_mode) or status.st_dev in self._pseudo:
            return OpenFile()
        # The kernel's dev_t has 12 bits of major number and 20 of minor.
        device = os.major(status.st_dev) << 20 | os.minor(status.st_dev)
        return OpenFile(device, status.st_ino)

    def _file(self, text: str, task: Task) -> OpenFile:
        """Return the open file behind `3</a/b>`.

        The offset of a file that was opened before the recording is not known.
        """
        number, path = descriptor(text)
        if number not in task.table:
            file = self._identify(path)
            file.offset = None
            task.table[number] = Descriptor(file)
        return task.table[number].file

    def _add(self, call: Call, task: Task, file: OpenFile, start: int | None) -> None:
        if not file.inode:
            return
        if start is None:
            self.not_recorded["reads at an unknown offset"] += 1
            return
        first, last = start >> PAGE_BITS, (start + call.result - 1) >> PAGE_BITS
        # The kernel does not count a read that continues in the page where the last one ended.
        first += first == file.last_page
        file.last_page = last
        if first > last:
            return
        row = (call.time_ns, file.device, file.inode, first, last - first + 1, task.number)
        for column, value in zip(self.reads.values(), row, strict=True):
            column.append(value)
        self.total_pages += last - first + 1

    def _opened(self, call: Call, task: Task) -> None:
        file = self._identify(call.result_path)
        flags = " ".join(call.args)
        file.append = "O_APPEND" in flags
        task.table[call.result] = Descriptor(file, "O_CLOEXEC" in flags)

    def _read(self, call: Call, task: Task) -> None:
        file = self._file(call.args[0], task)
        at = int(call.args[3]) if call.name.startswith("pread") else -1
        if call.result == 0:
            return
        self._add(call, task, file, file.offset if at < 0 else at)
        if at < 0:
            _advance(file, call.result)

    def _written(self, call: Call, task: Task) -> None:
        file = self._file(call.args[0], task)
        if call.name == "pwritev2" and int(call.args[3]) >= 0:
            return
        _advance(file, call.result)
        if file.append:
            file.offset = None

    def _copied(self, call: Call, task: Task) -> None:
        self._transferred(call, task, (call.args[0], call.args[1]), (call.args[2], call.args[3]))

    def _sent(self, call: Call, task: Task) -> None:
        self._transferred(call, task, (call.args[1], call.args[2]), (call.args[0], "NULL"))

    def _transferred(
        self, call: Call, task: Task, source: tuple[str, str], target: tuple[str, str]
    ) -> None:
        """Process a transfer.

        Each end is (descriptor, where): `[8] => [16]`, or NULL for the shared offset.
        """
        for (text, where), is_source in ((source, True), (target, False)):
            file = self._file(text, task)
            at = file.offset if where == "NULL" else int(where.split("]")[0].strip("["))
            if is_source and call.result:
                self._add(call, task, file, at)
            if where == "NULL":
                _advance(file, call.result)

    def _sought(self, call: Call, task: Task) -> None:
        self._file(call.args[0], task).offset = call.result

    def _closed(self, call: Call, task: Task) -> None:
        task.table.pop(descriptor(call.args[0])[0], None)

    def _closed_range(self, call: Call, task: Task) -> None:
        first, last = (int(descriptor(text)[0]) for text in call.args[:2])
        if "CLOSE_RANGE_UNSHARE" in call.args[2]:
            task.table = _copy(task.table)
        for number in [n for n in task.table if first <= n <= last]:
            if "CLOSE_RANGE_CLOEXEC" in call.args[2]:
                task.table[number].close_on_exec = True
            else:
                del task.table[number]

    def _duplicated(self, call: Call, task: Task) -> None:
        file = self._file(call.args[0], task)
        task.table[call.result] = Descriptor(file, "O_CLOEXEC" in call.args[-1])

    def _controlled(self, call: Call, task: Task) -> None:
        command = call.args[1]
        if command.startswith("F_DUPFD"):
            file = self._file(call.args[0], task)
            task.table[call.result] = Descriptor(file, command == "F_DUPFD_CLOEXEC")
        elif command in ("F_SETFD", "FIOCLEX", "FIONCLEX"):
            self._file(call.args[0], task)
            number = descriptor(call.args[0])[0]
            task.table[number].close_on_exec = command == "FIOCLEX" or "FD_CLOEXEC" in call.args[-1]
        elif command == "F_SETFL":
            self._file(call.args[0], task).append = "O_APPEND" in call.args[2]

    def _forked(self, call: Call, task: Task) -> None:
        shared = "CLONE_FILES" in " ".join(call.args)
        self._start(call.result, task.table if shared else _copy(task.table), task.command)
        for event in self._early.pop(call.result, []):
            self.see(event)

    def _executed(self, call: Call, task: Task) -> None:
        path = call.args[1 if call.name == "execveat" else 0]
        task.command = os.path.basename(path.strip('"'))
        task.table = {n: d for n, d in _copy(task.table).items() if not d.close_on_exec}

    def _mapped(self, call: Call, task: Task) -> None:
        if descriptor(call.args[4])[0] >= 0 and self._file(call.args[4], task).inode:
            self.not_recorded["mappings of files, whose page faults are not system calls"] += 1

    def _submitted(self, call: Call, task: Task) -> None:
        self.not_recorded["io_uring instances, whose reads are not system calls"] += 1


def _advance(file: OpenFile, count: int) -> None:
    if file.offset is not None:
        file.offset += count


def _copy(table: Table) -> Table:
    """Return what fork makes: new descriptors of the same open files."""
    return {number: Descriptor(d.file, d.close_on_exec) for number, d in table.items()}
