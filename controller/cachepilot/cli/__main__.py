# SPDX-License-Identifier: Apache-2.0
"""Makes `python -m cachepilot.cli` equivalent to the script `cachepilot`."""

from cachepilot.cli import main

main()
