# SPDX-License-Identifier: Apache-2.0
"""In which form a command prints its answer: `-o`, and `--json` for the commonest."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import Annotated

import typer


class Form(StrEnum):
    """What is printed: for people, with all columns, or for programs."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"

    @property
    def is_data(self) -> bool:
        """Whether a program reads it."""
        return self in (Form.JSON, Form.YAML)


OutputOption = Annotated[
    Form,
    typer.Option("--output", "-o", metavar="FORM", help="table, wide (all columns), json or yaml."),
]
_form: ContextVar[Form] = ContextVar("form", default=Form.TABLE)


def form() -> Form:
    """That of the command that runs."""
    return _form.get()


@contextmanager
def printed_as(form: Form) -> Iterator[None]:
    """What is printed inside has this form."""
    token = _form.set(form)
    try:
        yield
    finally:
        _form.reset(token)
