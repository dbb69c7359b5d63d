# SPDX-License-Identifier: Apache-2.0
"""The form in which a command prints its answer: `-o`, or `--json` for the most common one."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import Annotated

import typer


class Form(StrEnum):
    """The forms of output: for people, for people with all columns, or for programs."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"

    @property
    def is_data(self) -> bool:
        """Whether the form is for programs."""
        return self in (Form.JSON, Form.YAML)


OutputOption = Annotated[
    Form,
    typer.Option("--output", "-o", metavar="FORM", help="table, wide (all columns), json or yaml."),
]
_form: ContextVar[Form] = ContextVar("form", default=Form.TABLE)


def form() -> Form:
    """Return the form of the running command."""
    return _form.get()


@contextmanager
def printed_as(form: Form) -> Iterator[None]:
    """Print everything inside the block in this form."""
    token = _form.set(form)
    try:
        yield
    finally:
        _form.reset(token)
