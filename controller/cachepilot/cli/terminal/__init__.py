# SPDX-License-Identifier: Apache-2.0
"""Tables, formats, progress and options that commands share."""
