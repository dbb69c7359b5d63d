# SPDX-License-Identifier: Apache-2.0
"""That something changed, for whoever looks: what is told is where to look, not what is there."""

import threading
from collections.abc import Callable
from enum import StrEnum


class Topic(StrEnum):
    """What changed: a node's state, its decisions, or what operators ask of all nodes."""

    NODE = "node"
    DECISIONS = "decisions"
    ASKED = "asked"


Listener = Callable[[Topic, str], None]
"""Called with a topic and the name of a node, empty where it is about all of them."""


class Changes:
    """Listeners; from any thread. A listener must return at once and raise nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[Listener, ...] = ()
        self._told = dict.fromkeys(Topic, 0)

    def __len__(self) -> int:
        """How many listen."""
        return len(self._listeners)

    def count(self, topic: Topic) -> int:
        """How often this topic was told of."""
        return self._told[topic]

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tells `listener` from now on, until what is returned is called."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

        def stop() -> None:
            with self._lock:
                self._listeners = tuple(one for one in self._listeners if one is not listener)

        return stop

    def tell(self, topic: Topic, node: str = "") -> None:
        """Tells all that listen now, on this thread."""
        with self._lock:
            self._told[topic] += 1
        for listener in self._listeners:
            listener(topic, node)
