# SPDX-License-Identifier: Apache-2.0
"""KVM where it works, emulation elsewhere.

Permission to open /dev/kvm proves little: nested virtualization may be broken, or hang. The kernel
is therefore booted under KVM once per boot of the host, without a root file system. The proof is
that it reaches the resulting panic within a time-out.
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path

from cachepilot.vm import host
from cachepilot.vm.folder import temporary_folder

PROBE_SECONDS = 20
PROOF = "Unable to mount root fs"


def choose(qemu: str, kernel: Path) -> str:
    """Return `kvm` or `tcg`; CACHEPILOT_ACCEL takes precedence if it is set to one of them."""
    forced = os.environ.get("CACHEPILOT_ACCEL")
    if forced in {"kvm", "tcg"}:
        return forced
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    answer = host.cache_folder() / "vm" / "accelerator.json"
    known = _read(answer)
    if known.get("boot_id") != boot_id:
        known = {"boot_id": boot_id, "accelerator": "kvm" if probe(qemu, kernel) else "tcg"}
        _write(answer, known)
    return known["accelerator"]


def probe(qemu: str, kernel: Path, device: Path = Path("/dev/kvm")) -> bool:
    """Whether a boot under KVM reaches the mount of its root."""
    if not os.access(device, os.R_OK | os.W_OK):
        return False
    with temporary_folder() as folder:
        console = folder / "console.log"
        command = [
            *(qemu, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            *("-machine", "q35", "-accel", "kvm", "-cpu", "host", "-smp", "2", "-m", "256M"),
            *("-kernel", str(kernel), "-append", "console=ttyS0 panic=-1 nokaslr"),
            *("-chardev", f"file,id=console,path={console}", "-serial", "chardev:console"),
        ]
        try:
            subprocess.run(command, capture_output=True, check=False, timeout=PROBE_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        return console.exists() and PROOF in console.read_text("utf-8", "replace")


def _read(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and "accelerator" in found else {}


def _write(path: Path, answer: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        json.dump(answer, file)
    os.replace(file.name, path)
