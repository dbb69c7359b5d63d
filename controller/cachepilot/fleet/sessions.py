# SPDX-License-Identifier: Apache-2.0
"""Which session belongs to a node: the newest of its own agent, and none of another agent.

A hello identifies its agent by the agent's incarnation and the last epoch (plan number) applied on
the node. An agent writes an epoch to disk before it acknowledges it. A restarted agent therefore
knows every epoch that its predecessor acknowledged, and another agent with the same name does not.
"""

import asyncio
from collections.abc import Callable

from cachepilot.errors import InputError
from cachepilot.v1 import session_pb2 as wire


class DisplacedError(InputError):
    """A newer session of the same agent displaced this one."""


class NameTakenError(InputError):
    """Another agent has a session under this node's name, and is alive."""


class Session:
    """One stream of a node, which a newer session of the same node can displace.

    `older` is the session that this one displaces; None once that has ended.
    """

    def __init__(self, hello: wire.Hello, address: str, older: "Session | None") -> None:
        self.node, self.incarnation, self.address = hello.node, hello.incarnation, address
        self.older = older
        self.acked_epoch = 0
        self.waits_since: float | None = None
        """Clock value since which the server waits for the agent's next message; None while it
        handles one."""
        self.is_cut = False
        """Whether the connection is closed; the work that runs for the session may not have ended
        yet."""
        self.has_left = False
        """Whether the agent ended the session itself, so that any agent may use the name at
        once."""
        self.displaced: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ended = asyncio.Event()

    def displace(self) -> None:
        """Signal this session to end."""
        if not self.displaced.done():
            self.displaced.set_result(None)

    async def wait_for_older(self) -> None:
        """Wait until no older session of the node runs.

        If the older session was cut off while it waited for its own predecessors, they still run,
        and this session waits for them, too.
        """
        while self.older is not None:
            self.older.displace()
            await self.older.ended.wait()
            self.older = self.older.older


class Sessions:
    """The newest session of every node, and for a while the last session of each that ended.

    An agent counts as alive while it is connected and sends a message at least every `silence_s`
    seconds, and for `silence_s` seconds after its connection closed. A short network failure
    therefore does not cost a node its name.
    """

    def __init__(self, silence_s: float, clock: Callable[[], float]) -> None:
        self._silence_s, self._clock = silence_s, clock
        self._newest: dict[str, Session] = {}
        self._last: dict[str, tuple[Session, float]] = {}

    def __getitem__(self, node: str) -> Session:
        """Return the newest session of a node; raise KeyError if it has none."""
        return self._newest[node]

    def enter(self, hello: wire.Hello, address: str) -> Session:
        """Make a new session the newest of its node and return it.

        Raises NameTakenError if another agent that is alive has the name.
        """
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
        """Return the session of the agent that is alive, or was alive at most `silence_s` ago."""
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
        """Note that the connection of a session is closed."""
        if session.is_cut:
            return
        session.is_cut, now = True, self._clock()
        for node in [one for one, (_, at) in self._last.items() if now - at > self._silence_s]:
            del self._last[node]
        is_displaced = session.displaced.done()
        if not (is_displaced or session.has_left or self._is_silent(session, now)):
            self._last[session.node] = session, now

    def leave(self, session: Session) -> None:
        """Note that a session is over.

        If it still had to wait for an older session, the next session waits for that one instead.
        """
        self.cut(session)
        session.ended.set()
        if self._newest.get(session.node) is not session:
            return
        if session.older is None:
            del self._newest[session.node]
        else:
            self._newest[session.node] = session.older


def _is_of_same_agent(holder: Session, hello: wire.Hello) -> bool:
    """Whether a hello comes from the agent that has the session, possibly after a restart."""
    if hello.incarnation == holder.incarnation:
        return True
    return 0 < holder.acked_epoch <= hello.last_epoch
