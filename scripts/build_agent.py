#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Build the agent, and collect the policies compiled for the kernel in `build/bpf`.

Cargo keeps the output of build scripts in folders with a hash in their name. A loader needs one
folder with a fixed name.
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
    """Build the agent, and return the folder with its compiled policies."""
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
    """Make `build/bpf` hold exactly the files of `objects`. Unchanged files are not written."""
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
