# SPDX-License-Identifier: Apache-2.0
"""Who acts: the autopilot, the controller itself, or the author of a network request."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum


class ActorKind(StrEnum):
    """How an actor is identified."""

    AUTOPILOT = "autopilot"
    CONTROLLER = "controller"
    CERTIFICATE = "certificate"
    TOKEN = "token"
    ADDRESS = "address"


@dataclass(frozen=True)
class Actor:
    """An actor by the name of a certificate or of a token, or by an address."""

    kind: ActorKind
    name: str

    def __str__(self) -> str:
        return self.name if self.kind == self.name else f"{self.kind} {self.name}"


AUTOPILOT = Actor(ActorKind.AUTOPILOT, "autopilot")
CONTROLLER = Actor(ActorKind.CONTROLLER, "controller")
"""The actor of what happens by itself: a pin expires, objectives are read from a file."""
_ACTING: ContextVar[Actor] = ContextVar("acting", default=CONTROLLER)


def acting() -> Actor:
    """The actor of this context: the author of the request, otherwise the controller."""
    return _ACTING.get()


@contextmanager
def acts(actor: Actor) -> Iterator[None]:
    """Make `actor` the actor of the block, also on threads that get its context."""
    token = _ACTING.set(actor)
    try:
        yield
    finally:
        _ACTING.reset(token)
