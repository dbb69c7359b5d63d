# SPDX-License-Identifier: Apache-2.0
"""What every JSON object of the interface is."""

from typing import Self

from pydantic import BaseModel, ConfigDict


class Shape(BaseModel):
    """Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, from_attributes=True)

    @classmethod
    def of(cls, value: object) -> Self:
        """The shape of a value of `domain`, whose attributes have the names of the keys."""
        return cls.model_validate(value)

    @classmethod
    def of_checked(cls, **values: object) -> Self:
        """One of values that are right and complete, which nothing looks at again.

        A fraction of the time of `model_construct`, for the thousands of rows of a node.
        """
        found = cls.__new__(cls)
        object.__setattr__(found, "__dict__", values)
        object.__setattr__(found, "__pydantic_fields_set__", set(values))
        object.__setattr__(found, "__pydantic_extra__", None)
        object.__setattr__(found, "__pydantic_private__", None)
        return found


class View(Shape):
    """What is answered. A command reads a few of these: each is built when it is first needed."""

    model_config = ConfigDict(defer_build=True)
