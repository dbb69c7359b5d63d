# SPDX-License-Identifier: Apache-2.0
"""Properties of the patched kernel. Each is a case of the program in `guest`, in every machine.

A class is a set of cases that share a machine; `--dist loadscope` keeps a class in one process.
Every run has each file system and each LRU in some combination. The fourth combination takes
minutes more.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

Finish = Callable[[str], Any]


class Cases:
    """The tests of a set: one for each case, and one for the kernel's log."""

    group: ClassVar[str]

    def test_property(self, case: str | None, finish: Finish) -> None:
        assert case is not None, "the program of tests/kernel/guest is not built"
        outcome = finish(self.group)
        report = outcome.reports.get((self.group, case))
        assert report is not None, f"the machine ended before this case: {outcome.ending}"
        assert report.ok, report.detail

    def test_kernel_log_is_clean(self, finish: Finish) -> None:
        outcome = finish(self.group)
        assert outcome.reports, outcome.ending
        assert not outcome.trouble


class TestExt4(Cases):
    group = "ext4"


class TestExt4Mglru(Cases):
    group = "ext4-mglru"


class TestXfs(Cases):
    group = "xfs"


@pytest.mark.long
class TestXfsMglru(Cases):
    group = "xfs-mglru"


class TestNodes(Cases):
    group = "nodes"


class TestNodesMglru(Cases):
    group = "nodes-mglru"
