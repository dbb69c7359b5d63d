#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the agent, and collects the policies compiled for the kernel in `build/bpf`.

Cargo keeps what its build scripts make in folders with a hash in their name; a loader wants one
folder that it can be told.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OBJECTS = ROOT / "build" / "bpf"
BUILD = (
    "cargo build --release --locked -p cachepilot-agent --message-format json-render-diagnostics"
)


def compiled_objects() -> Path:
    """Builds the agent and returns the folder into which its policies were compiled."""
    settings = os.environ | {"CACHEPILOT_REQUIRE_BPF": "1"}
    built = subprocess.run(
        BUILD.split(), cwd=ROOT, env=settings, stdout=subprocess.PIPE, text=True, check=False
    )
    if built.returncode:
        sys.exit(built.returncode)
    messages = map(json.loads, built.stdout.splitlines())
    outs = [
        message["out_dir"]
        for message in messages
        if message["reason"] == "build-script-executed" and "/models#" in message["package_id"]
    ]
    return Path(outs[0]) / "bpf"


def collect(objects: Path) -> None:
    """Makes `build/bpf` hold exactly the files of `objects`; unchanged ones stay as they are."""
    files = [path.relative_to(objects) for path in objects.rglob("*") if path.is_file()]
    for file in files:
        source, target = objects / file, OBJECTS / file
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != source.read_bytes():
            part = target.parent / f".{source.name}.part"
            shutil.copyfile(source, part)
            part.replace(target)
    for old in OBJECTS.rglob("*"):
        if old.is_file() and old.relative_to(OBJECTS) not in files:
            old.unlink()


collect(compiled_objects())
