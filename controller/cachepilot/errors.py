# SPDX-License-Identifier: Apache-2.0
"""The exceptions for every refusal of outside input."""


class InputError(Exception):
    """Bad input from outside; one line naming the option or file and the allowed range."""


class OutOfRangeError(InputError):
    """A number outside of what is allowed; the line says it to people, the fields to programs.

    `key` names the number in the API, `value` is what was given; `least` and `most` are allowed.
    """

    def __init__(self, told: str, key: str, value: int, least: int, most: int) -> None:
        super().__init__(told)
        self.key, self.value, self.least, self.most = key, value, least, most

    @property
    def range(self) -> dict[str, str | int]:
        """The fields by name."""
        return {"key": self.key, "value": self.value, "least": self.least, "most": self.most}


class ConflictError(InputError):
    """The request is possible but is refused in the present state; the line names the reason."""
