# SPDX-License-Identifier: Apache-2.0
"""The temporary folder of a machine, and the removal of folders whose owner was killed."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "cachepilot-vm-"
_LOCK = "lock"


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a new folder, removed at the end; a lock in it shows that its owner is alive."""
    sweep(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with (folder / "lock.new").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.rename(folder / "lock.new", folder / _LOCK)  # appears only once it is locked
            yield folder


def sweep(parent: Path) -> None:
    """Remove the folders of machines without an owner: no process has their lock."""
    for lock_path in parent.glob(f"{_PREFIX}*/{_LOCK}"):
        try:
            with lock_path.open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock_path.parent, ignore_errors=True)
        except OSError:
            continue  # in use, removed meanwhile, or another user's
