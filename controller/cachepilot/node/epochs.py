# SPDX-License-Identifier: Apache-2.0
"""Epochs (numbers of plans) of one node. None is used twice, also after the controller crashes."""

from cachepilot.node.keeper import Keeper
from cachepilot.store.store import Store


class Epochs:
    """Reserves a range of epochs in the store before any of them is used."""

    def __init__(self, node: str, store: Store, keeper: Keeper) -> None:
        self._node, self._store, self._keeper = node, store, keeper
        self._next, self._end = 0, 0

    @property
    def last(self) -> int:
        """The epoch that was used last; 0 before the first."""
        return max(0, self._next - 1)

    def begin_above(self, known: int) -> None:
        """Make the next epoch greater than `known`, the greatest that the node has seen."""
        if self._next <= known:
            self._reserve(known)

    def take(self) -> int:
        """Return the epoch of the next plan."""
        if self._next >= self._end:
            self._reserve(self.last)
        self._next += 1
        return self._next - 1

    def _reserve(self, above: int) -> None:
        """Reserve a range of epochs above `above`; a single one if the store cannot be written."""
        try:
            self._next, self._end = self._store.reserve_epochs(self._node, above)
        except Exception as error:
            self._keeper.failed(error)
            self._next, self._end = above + 1, above + 2
