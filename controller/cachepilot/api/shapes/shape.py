# SPDX-License-Identifier: Apache-2.0
"""What every JSON object of the interface is."""

from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict

from cachepilot.domain.names import cgroup_path, cgroup_pattern, node_name, of_key, plain

CgroupPath = Annotated[str, AfterValidator(of_key("cgroup", cgroup_path))]
CgroupPattern = Annotated[str, AfterValidator(of_key("cgroup", cgroup_pattern))]
NodeName = Annotated[str, AfterValidator(of_key("node", node_name))]
PolicyName = Annotated[str, AfterValidator(of_key("policy", plain))]
"""Names as `domain.names` has them; InputError, not an error of validation, for what is none."""


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
