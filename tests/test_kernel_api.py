# SPDX-License-Identifier: Apache-2.0
"""Requirements of the kernel's verifier on the declarations in bpf/include/kernel_api.h."""

import re
from pathlib import Path

HEADER = Path(__file__).parent.parent / "bpf" / "include" / "kernel_api.h"


def test_no_kfunc_returns_a_void_pointer() -> None:
    """Since Linux 6.9 the verifier treats such a pointer as a number: it cannot be followed."""
    kfuncs = re.findall(r"^extern (.*?)(bpf_\w+)\(", HEADER.read_text(), re.MULTILINE)
    assert "bpf_cache_ext_folio_state" in [name for _, name in kfuncs]
    assert not [name for returned, name in kfuncs if "void *" in returned]
