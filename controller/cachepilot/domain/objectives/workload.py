# SPDX-License-Identifier: Apache-2.0
"""Workloads of Kubernetes, and patterns that name them instead of cgroups.

The path of a pod's cgroup has the pod's uid, which changes whenever the pod is recreated.
`pod:NAMESPACE/POD` names the cgroup of a pod, and `pod:NAMESPACE/POD/CONTAINER` that of a
container. Each part is a glob. `{LABEL=VALUE,...}` after it requires labels of the pod, and each
value is a glob.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache

from cachepilot.domain.names import WORKLOAD
from cachepilot.errors import InputError

ALLOWED = "pod:NAMESPACE/POD[/CONTAINER][{LABEL=VALUE,...}], where all but LABEL may be globs"
_FORM = re.compile(r"pod:([^/{},=\s]+)/([^/{},=\s]+)(?:/([^/{},=\s]+))?(?:\{([^{}\s]*)\})?")


@dataclass(frozen=True)
class Workload:
    """The names of a cgroup in Kubernetes.

    `container` is empty for the cgroup of a pod. `labels` are those of the pod, each `NAME=VALUE`.
    """

    cgroup: str
    namespace: str
    pod: str
    container: str = ""
    labels: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, cgroup: str, namespace: str, pod: str, container: str, labels: Mapping[str, str]
    ) -> "Workload":
        """Build a workload from a mapping of labels."""
        told = tuple(sorted(f"{name}={value}" for name, value in labels.items()))
        return cls(cgroup, namespace, pod, container, told)

    @property
    def name(self) -> str:
        """NAMESPACE/POD, or NAMESPACE/POD/CONTAINER."""
        parts = (self.namespace, self.pod, self.container)
        return "/".join(parts if self.container else parts[:2])


@dataclass(frozen=True)
class WorkloadPattern:
    """A pattern of workloads: a glob for each part of the name, and for labels by name."""

    name: tuple[re.Pattern[str], ...]
    labels: tuple[tuple[str, re.Pattern[str]], ...]

    def matches(self, workload: Workload) -> bool:
        """Whether a workload matches the pattern."""
        names = workload.name.split("/")
        if len(names) != len(self.name):
            return False
        if not all(glob.match(name) for glob, name in zip(self.name, names, strict=True)):
            return False
        told = dict(label.split("=", 1) for label in workload.labels)
        return all(name in told and glob.match(told[name]) for name, glob in self.labels)


@lru_cache(maxsize=1024)
def workload_pattern(text: str) -> WorkloadPattern | None:
    """Parse a pattern of workloads; None if the text is a pattern of cgroups.

    Raises InputError if it is neither.
    """
    if not text.startswith(WORKLOAD):
        return None
    found = _FORM.fullmatch(text)
    if found is None:
        raise InputError(f"{text!r} is not allowed (allowed: {ALLOWED})")
    parts = [part for part in found.groups()[:3] if part is not None]
    labels = []
    for label in filter(None, (found[4] or "").split(",")):
        name, equals, value = label.partition("=")
        if not name or not equals or any(character in name for character in "*?["):
            raise InputError(f"{text!r}: {label!r} is not allowed (allowed: {ALLOWED})")
        labels.append((name, re.compile(translate(value))))
    return WorkloadPattern(tuple(re.compile(translate(part)) for part in parts), tuple(labels))
