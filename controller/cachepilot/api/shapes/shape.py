# SPDX-License-Identifier: Apache-2.0
"""The base classes of every JSON object of the interface."""

from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict

from cachepilot.domain.names import cgroup_path, cgroup_pattern, node_name, of_key, plain

CgroupPath = Annotated[str, AfterValidator(of_key("cgroup", cgroup_path))]
CgroupPattern = Annotated[str, AfterValidator(of_key("cgroup", cgroup_pattern))]
NodeName = Annotated[str, AfterValidator(of_key("node", node_name))]
PolicyName = Annotated[str, AfterValidator(of_key("policy", plain))]
"""Names as defined in `domain.names`; a name that is none raises InputError, not
ValidationError."""


class Shape(BaseModel):
    """Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, from_attributes=True)

    @classmethod
    def of(cls, value: object) -> Self:
        """Return the shape of a `domain` value whose attributes have the names of the keys."""
        return cls.model_validate(value)

    @classmethod
    def of_checked(cls, **values: object) -> Self:
        """Return a shape of values that are known to be correct and complete, without validation.

        It takes a fraction of the time of `model_construct`, which matters for nodes with thousands
        of rows.
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
