# SPDX-License-Identifier: Apache-2.0
"""What the kernel's verifier demands of the declarations in bpf/include/kernel_api.h."""

import re
from pathlib import Path

HEADER = Path(__file__).parent.parent / "bpf" / "include" / "kernel_api.h"


def test_no_kfunc_returns_a_void_pointer() -> None:
    """Since Linux 6.9 the verifier takes such a pointer for a number that nobody may follow."""
    kfuncs = re.findall(r"^extern (.*?)(bpf_\w+)\(", HEADER.read_text(), re.MULTILINE)
    assert "bpf_cache_ext_folio_state" in [name for _, name in kfuncs]
    assert not [name for returned, name in kfuncs if "void *" in returned]
