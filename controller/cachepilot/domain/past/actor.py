# SPDX-License-Identifier: Apache-2.0
"""Who acts: the autopilot, the controller itself, or whoever asked for it over the network."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum


class ActorKind(StrEnum):
    """By what somebody is known."""

    AUTOPILOT = "autopilot"
    CONTROLLER = "controller"
    CERTIFICATE = "certificate"
    TOKEN = "token"
    ADDRESS = "address"


@dataclass(frozen=True)
class Actor:
    """The name of a certificate or of a token, or an address."""

    kind: ActorKind
    name: str

    def __str__(self) -> str:
        return self.name if self.kind == self.name else f"{self.kind} {self.name}"


AUTOPILOT = Actor(ActorKind.AUTOPILOT, "autopilot")
CONTROLLER = Actor(ActorKind.CONTROLLER, "controller")
"""What happens by itself: a pin whose time is over, objectives read from a file."""
_ACTING: ContextVar[Actor] = ContextVar("acting", default=CONTROLLER)


def acting() -> Actor:
    """Who acts in this context: of a request whoever asked, else the controller."""
    return _ACTING.get()


@contextmanager
def acts(actor: Actor) -> Iterator[None]:
    """What is done inside is done by `actor`, on threads that are given this context too."""
    token = _ACTING.set(actor)
    try:
        yield
    finally:
        _ACTING.reset(token)
