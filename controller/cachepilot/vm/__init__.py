# SPDX-License-Identifier: Apache-2.0
"""Virtual machines that run one command on a kernel built by `kernel/build`.

`run(Machine(iops=1500), ["fio", "job.fio"])` boots a machine, runs the command, ends the machine,
and returns the command's output and exit status.
"""

from cachepilot.vm.errors import VmError, VmTimeout
from cachepilot.vm.machine import Machine, Result
from cachepilot.vm.runner import run
from cachepilot.vm.shell import shell

__all__ = ["Machine", "Result", "VmError", "VmTimeout", "run", "shell"]
