# SPDX-License-Identifier: Apache-2.0
"""Guest program: systemd runs the agent by the shipped unit, installed like the package.

systemd is the first process of a PID namespace, as in a container, and has the guest's own cgroup
hierarchy. The host's tree is read-only, so what is installed goes to an overlay.
"""

import ctypes
import os
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

UNIT = "cachepilot-agent.service"
UNITS = Path("/run/units")
# Where systemd keeps properties that are set until the next boot.
PROPERTIES = Path("/run/systemd/system.control")
LOG = Path("/run/agent.log")
BOOT_LOG = Path("/run/systemd.log")
OVERLAID = ("/etc", "/usr/bin", "/usr/lib", "/var/lib")
# Units by which services are ordered. Nothing else needs to start here.
TARGETS = ("sysinit", "basic", "shutdown", "network-online", "multi-user")
BUS = ("dbus.socket", "dbus.service")
START_SECONDS = 120.0
CLONE_NEWPID = 0x20000000


def overlay() -> None:
    """Make the folders of a package writable until the guest ends."""
    for folder in OVERLAID:
        layers = Path("/run/overlay") / folder.strip("/").replace("/", "-")
        upper, work = layers / "upper", layers / "work"
        upper.mkdir(parents=True)
        work.mkdir()
        options = f"lowerdir={folder},upperdir={upper},workdir={work}"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, folder], check=True)
    # Without a machine id, systemd would treat this as the first boot of the machine.
    Path("/etc/machine-id").write_text(f"{uuid.uuid4().hex}\n")


def install(program: Path, objects: Path, unit: Path, config: Path) -> None:
    """Install the files of the package at their places. The unit is unchanged."""
    places = {"/usr/bin/cachepilot-agent": program, "/usr/lib/cachepilot/bpf": objects}
    for place, found in places.items():
        at = Path(place)
        at.parent.mkdir(parents=True, exist_ok=True)
        if found.is_dir():
            at.mkdir()
        else:
            at.touch()
        # A bind mount and not a copy: the program is large, and a copy would be in memory.
        subprocess.run(["mount", "--bind", found, at], check=True)
    UNITS.mkdir()
    (UNITS / UNIT).write_text(unit.read_text())
    (UNITS / f"{UNIT}.d").mkdir()
    # There is no journal here.
    output = f"[Service]\nStandardOutput=append:{LOG}\nStandardError=append:{LOG}\n"
    (UNITS / f"{UNIT}.d" / "output.conf").write_text(output)
    for target in TARGETS:
        (UNITS / f"{target}.target").write_text(f"[Unit]\nDescription={target}\n")
    configure(config)


def install_bus() -> None:
    """Let systemd run the system bus, by Debian's units."""
    for name in BUS:
        (UNITS / name).write_text((Path("/lib/systemd/system") / name).read_text())


def configure(config: Path) -> None:
    """Install the agent's configuration."""
    place = Path("/etc/cachepilot/agent.toml")
    place.parent.mkdir(exist_ok=True)
    place.write_text(config.read_text())


def configure_unit(name: str, text: str) -> None:
    """Add a drop-in to the unit for its next start."""
    (UNITS / f"{UNIT}.d" / name).write_text(text)
    subprocess.run(["systemctl", "daemon-reload"], check=True)


def boot() -> "subprocess.Popen[bytes]":
    """Start systemd, and return when it answers."""
    environment = {
        "PATH": os.environ["PATH"],
        "container": "guest",
        "SYSTEMD_UNIT_PATH": f"{PROPERTIES}:{UNITS}",
    }
    manager = [
        "/lib/systemd/systemd",
        "--system",
        "--unit=multi-user.target",
        "--log-target=console",
    ]
    spaces = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    with BOOT_LOG.open("wb") as log:
        child = subprocess.Popen(
            [*spaces, *manager], env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
    # systemd must be the first process of the namespace, so no child may start there before.
    _wait(child, Path("/run/systemd/private").exists)
    # systemd only listens to processes that it can see.
    enter(child)
    _wait(child, is_up)
    return child


def _wait(manager: "subprocess.Popen[bytes]", is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_so():
        if manager.poll() is not None or time.monotonic() > deadline:
            raise SystemExit("systemd does not run\n" + BOOT_LOG.read_text(errors="replace"))
        time.sleep(0.5)


def enter(manager: "subprocess.Popen[bytes]") -> None:
    """Start later children in the PID namespace of systemd, where the agent sees them."""
    with Path(f"/proc/{manager.pid}/ns/pid_for_children").open() as space:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(space.fileno(), CLONE_NEWPID) != 0:
            raise OSError(ctypes.get_errno(), "setns")


def is_up() -> bool:
    """Whether systemd has finished starting its units."""
    asked = ["systemctl", "is-system-running"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return done.stdout.strip() in {"running", "degraded"}


def systemctl(*words: str) -> str:
    """Return what systemctl prints about the unit; exit the guest's program if it fails."""
    command = ["systemctl", "--no-pager", *words, UNIT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        log = LOG.read_text(errors="replace")[-4000:] if LOG.exists() else ""
        raise SystemExit(f"systemctl {' '.join(words)}: {done.stdout}{done.stderr}\n{log}")
    return done.stdout


def shown(*properties: str) -> Mapping[str, str]:
    """Return properties of the unit."""
    lines = systemctl("show", f"--property={','.join(properties)}").splitlines()
    return dict(line.split("=", 1) for line in lines)
