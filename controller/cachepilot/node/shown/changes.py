# SPDX-License-Identifier: Apache-2.0
"""Notifications that something changed. They say where to look, and do not carry the data."""

import threading
from collections.abc import Callable
from enum import StrEnum


class Topic(StrEnum):
    """What changed: a node's state, its decisions, or what operators ask of all nodes."""

    NODE = "node"
    DECISIONS = "decisions"
    ASKED = "asked"


Listener = Callable[[Topic, str], None]
"""Called with a topic and the name of a node, which is empty if the topic concerns all nodes."""


class Changes:
    """The listeners; any thread may call it. A listener must return at once and must not raise."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[Listener, ...] = ()
        self._told = dict.fromkeys(Topic, 0)

    def __len__(self) -> int:
        """The number of listeners."""
        return len(self._listeners)

    def count(self, topic: Topic) -> int:
        """How often this topic was notified."""
        return self._told[topic]

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` on every change until the returned function is called."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

        def stop() -> None:
            with self._lock:
                self._listeners = tuple(one for one in self._listeners if one is not listener)

        return stop

    def tell(self, topic: Topic, node: str = "") -> None:
        """Call all present listeners, on this thread."""
        with self._lock:
            self._told[topic] += 1
        for listener in self._listeners:
            listener(topic, node)
