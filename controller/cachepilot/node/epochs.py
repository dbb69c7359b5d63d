# SPDX-License-Identifier: Apache-2.0
"""Epochs of the plans of one node: each is given out once, whatever ends the controller."""

from cachepilot.node.keeper import Keeper
from cachepilot.store.store import Store


class Epochs:
    """They are reserved in the store by the range, before any of them is given out."""

    def __init__(self, node: str, store: Store, keeper: Keeper) -> None:
        self._node, self._store, self._keeper = node, store, keeper
        self._next, self._end = 0, 0

    @property
    def last(self) -> int:
        """The last one that was given out; 0 before the first."""
        return max(0, self._next - 1)

    def begin_above(self, known: int) -> None:
        """The node knows plans up to this epoch: the next one is above it."""
        if self._next <= known:
            self._reserve(known)

    def take(self) -> int:
        """The epoch of the next plan."""
        if self._next >= self._end:
            self._reserve(self.last)
        self._next += 1
        return self._next - 1

    def _reserve(self, above: int) -> None:
        """Without a store there is one alone, above what is known."""
        try:
            self._next, self._end = self._store.reserve_epochs(self._node, above)
        except Exception as error:
            self._keeper.failed(error)
            self._next, self._end = above + 1, above + 2
