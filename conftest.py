# SPDX-License-Identifier: Apache-2.0
"""What every test of the project shares."""

import signal

# A shell without job control starts background jobs with SIGINT ignored, and the processes that
# tests interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
