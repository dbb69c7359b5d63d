#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates the Python messages of `proto/` into the package; run by the virtual environment.

There is one service with one method, which is written by hand; only messages are generated.
"""

import sys
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
PACKAGE = ROOT / "controller"


def main() -> int:
    """Generates modules and their types; 0 when it worked."""
    contracts = sorted(str(path) for path in PROTO.rglob("*.proto"))
    out = [f"--proto_path={PROTO}", f"--python_out={PACKAGE}", f"--pyi_out={PACKAGE}"]
    status: int = protoc.main(["protoc", *out, *contracts])
    return status


sys.exit(main())
