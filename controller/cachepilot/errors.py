# SPDX-License-Identifier: Apache-2.0
"""The exceptions for every refusal of outside input."""


class InputError(Exception):
    """Bad input from outside; one line naming the option or file and the allowed range."""


class ConflictError(InputError):
    """The request is possible but is refused in the present state; the line names the reason."""
