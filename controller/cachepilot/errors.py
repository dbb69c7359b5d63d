# SPDX-License-Identifier: Apache-2.0
"""The exception that every refusal of outside input raises."""


class InputError(Exception):
    """Bad input from outside: one line naming the option or file and the allowed range."""


class ConflictError(InputError):
    """It could be done, and is refused as things are: the line says what it would cost."""
