# SPDX-License-Identifier: Apache-2.0
"""Which session is a node's: its own agent's newest, and no other agent's of the same name.

Whose session it is, is told by what a hello says: the incarnation of the agent, and the last epoch
that was applied on the node. An agent has an epoch on disk before it acknowledges it. So one that
was started again knows what its predecessor acknowledged, and another agent of that name does not.
"""

import asyncio
from collections.abc import Callable

from cachepilot.errors import InputError
from cachepilot.v1 import session_pb2 as wire


class DisplacedError(InputError):
    """A newer session of the same agent took the place of this one."""


class NameTakenError(InputError):
    """Another agent has a session in the name of this node, and is alive."""


class Session:
    """What one stream is to the others: it can be displaced by a newer one of its node.

    `older` is the session whose place it takes, until that has ended.
    """

    def __init__(self, hello: wire.Hello, address: str, older: "Session | None") -> None:
        self.node, self.incarnation, self.address = hello.node, hello.incarnation, address
        self.older = older
        self.acked_epoch = 0
        self.waits_since: float | None = None
        """Since when it is waited for the agent to say something; None while it is answered."""
        self.is_cut = False
        """Whether its connection is closed, though what runs for it has yet to end."""
        self.has_left = False
        """Whether the agent ended it itself: it leaves its name to whoever comes."""
        self.displaced: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ended = asyncio.Event()

    def displace(self) -> None:
        """Tells it to end."""
        if not self.displaced.done():
            self.displaced.set_result(None)

    async def wait_for_older(self) -> None:
        """Until no older session of the node runs.

        One that was cut off while it waited leaves those that it waited for: they still run.
        """
        while self.older is not None:
            self.older.displace()
            await self.older.ended.wait()
            self.older = self.older.older


class Sessions:
    """The newest session of every node, and the last one for a while after it ended.

    An agent is alive while it is connected and says something at least every `silence_s`, and as
    long after it was cut off: a network that fails for a moment costs no node its name.
    """

    def __init__(self, silence_s: float, clock: Callable[[], float]) -> None:
        self._silence_s, self._clock = silence_s, clock
        self._newest: dict[str, Session] = {}
        self._last: dict[str, tuple[Session, float]] = {}

    def __getitem__(self, node: str) -> Session:
        """The newest of a node; KeyError when it has none."""
        return self._newest[node]

    def enter(self, hello: wire.Hello, address: str) -> Session:
        """Makes a session the newest of its node; NameTakenError when that is another agent's."""
        holder = self._holder(hello.node)
        if holder is not None and not _is_of_same_agent(holder, hello):
            raise NameTakenError(
                f"node {hello.node}: another agent has a session in this name, from "
                f"{holder.address}, and is alive (allowed: one agent per name; give each another"
                f" `node`, or stop one)"
            )
        found = Session(hello, address, self._newest.get(hello.node))
        found.acked_epoch = 0 if holder is None else holder.acked_epoch
        self._newest[hello.node] = found
        return found

    def _holder(self, node: str) -> Session | None:
        """The session of an agent that is alive, or was until a moment ago."""
        now = self._clock()
        newest = self._newest.get(node)
        if newest is not None and not newest.is_cut:
            return None if self._is_silent(newest, now) else newest
        last, cut_at = self._last.get(node, (None, 0.0))
        return last if now - cut_at <= self._silence_s else None

    def _is_silent(self, session: Session, now: float) -> bool:
        since = session.waits_since
        return since is not None and now - since > self._silence_s

    def cut(self, session: Session) -> None:
        """The connection of a session is closed."""
        if session.is_cut:
            return
        session.is_cut, now = True, self._clock()
        for node in [one for one, (_, at) in self._last.items() if now - at > self._silence_s]:
            del self._last[node]
        is_displaced = session.displaced.done()
        if not (is_displaced or session.has_left or self._is_silent(session, now)):
            self._last[session.node] = session, now

    def leave(self, session: Session) -> None:
        """A session is over; the next one waits for the one that this had yet to displace."""
        self.cut(session)
        session.ended.set()
        if self._newest.get(session.node) is not session:
            return
        if session.older is None:
            del self._newest[session.node]
        else:
            self._newest[session.node] = session.older


def _is_of_same_agent(holder: Session, hello: wire.Hello) -> bool:
    """Whether a hello is of the agent that has a session, which may have been started again."""
    if hello.incarnation == holder.incarnation:
        return True
    return 0 < holder.acked_epoch <= hello.last_epoch
