#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generate the Python messages of `proto/` into the package. Run by the virtual environment.

The only service has one method, which is written by hand. So only messages are generated.
"""

import sys
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
PACKAGE = ROOT / "controller"


def main() -> int:
    """Generate the modules and their type stubs. Return 0 on success."""
    contracts = sorted(str(path) for path in PROTO.rglob("*.proto"))
    out = [f"--proto_path={PROTO}", f"--python_out={PACKAGE}", f"--pyi_out={PACKAGE}"]
    status: int = protoc.main(["protoc", *out, *contracts])
    return status


sys.exit(main())
