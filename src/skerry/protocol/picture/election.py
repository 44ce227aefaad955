"""Which node decides: the full node with the highest id.

A node that has reason to doubt the elected one asks all full nodes. If a higher one answers, it
waits for that one; if not, it declares itself elected. A node that is new to the system does not
stand for election before it knows all nodes that the others report.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from skerry.protocol.deadlines import earliest
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.picture.bodies import ElectionAction, ElectionMessage
from skerry.protocol.picture.raw_table import RawTable, TrackedNode

__all__ = ["Election"]

_MS: Final = 1_000_000
_TIMEOUT_NS_MIN: Final = 100 * _MS
_COLLECT_FACTOR: Final = 4
"""Triggers are collected for this many election timeouts."""
_PATIENCE_NS: Final = 2_000_000_000
"""How long to wait for the victory of a higher node that has answered."""
_FORCED_AFTER_COUNT: Final = 3
"""After this many raw statistics in a row with the same other election, a new one is forced."""
_ID_BITS: Final = 62


class Election:
    """The election as one node sees it."""

    def __init__(
        self,
        table: RawTable,
        own_type: NodeType,
        node_types: NodeTypes,
        rng: Random,
        now_ns: int,
        *,
        is_candidate: Callable[[], bool],
        alone_timeout_ns: int = 0,
    ) -> None:
        """`is_candidate` says whether this node may be elected now. `alone_timeout_ns` is how long
        to wait for other nodes; 0 for a suitable time."""
        full = [one for one in node_types if not one.light] or list(node_types)
        self.alone_timeout_ns = alone_timeout_ns or max(
            2 * one.heartbeat_ns * one.lost_heartbeat_count_max for one in full
        )
        self._timeout_ns = max(
            _TIMEOUT_NS_MIN,
            *(one.retry_timeouts_ms[0] * _MS * one.lost_heartbeat_count_max for one in full),
        )
        self.elected_id = 0
        """The elected node; 0 if none is."""
        self.election_id = 0
        self.count = 0
        self._outgoing: list[tuple[int | bool | None, ElectionMessage]] = []
        self._table = table
        self._own_type = own_type
        self._rng = rng
        self._is_candidate = is_candidate
        self._is_forced = False
        self._check_ns: int | None = None if own_type.light else now_ns + self.alone_timeout_ns
        """When to look whether an election is needed."""
        self._inquiry_id = 0
        """The running inquiry; 0 if there is none."""
        self._inquiry_ns: int | None = None
        """When it is won."""

    def take_outgoing(self) -> list[tuple[int | bool | None, ElectionMessage]]:
        """Return the messages to send since the last call: with None for all full nodes, True for
        all nodes, or the id of one node."""
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    @property
    def is_elected(self) -> bool:
        return self.elected_id == self._table.me.node

    def is_lost_to(self, node: int, elected: int) -> bool:
        """Return whether the elected node has excluded this one, as `node` refuses it, which
        follows `elected`. If two nodes exclude each other, the elected one decides."""
        mine = self.elected_id
        tracked = self._table.nodes.get(mine)
        if mine in (0, self._table.me.node) or elected != mine or tracked is None:
            return False
        return (node == mine) != tracked.is_dead

    def compare(self, tracked: TrackedNode, election_id: int, now_ns: int) -> None:
        """Compare with the election that another node reports. Force a new election if a full node
        reports another one repeatedly. Announce it again to a node that knows of none."""
        mine = self.election_id
        if not election_id and self.is_elected:
            self.changed(now_ns)
        if tracked.type.light or not election_id or not mine or election_id == mine:
            tracked.wrong_election_count = 0
            return
        is_same = election_id == tracked.wrong_election_id
        tracked.wrong_election_id = election_id
        tracked.wrong_election_count = tracked.wrong_election_count + 1 if is_same else 1
        if tracked.wrong_election_count >= _FORCED_AFTER_COUNT:
            tracked.wrong_election_count = 0
            self.changed(now_ns, is_forced=True)

    def changed(self, now_ns: int, *, is_forced: bool = False) -> None:
        """Look soon whether an election is needed, since nodes changed."""
        if self._own_type.light:
            return
        self._is_forced |= is_forced
        self._check_ns = earliest(self._check_ns, now_ns + _COLLECT_FACTOR * self._timeout_ns)

    def elect_self(self) -> None:
        """Declare this node elected, since there is no other one."""
        self._accept(self._table.me.node, self._new_id())

    def clear(self) -> None:
        """Forget the elected node."""
        self.elected_id = self.election_id = 0

    def received(self, sender: int, message: ElectionMessage, now_ns: int) -> None:
        """Process a message of another node, which is alive."""
        mine = self._table.me.node
        tracked = self._table.nodes.get(sender)
        if tracked is None or tracked.is_dead or tracked.type.light:
            return
        if self._own_type.light:
            if message.action is ElectionAction.VICTORY:
                self._accept(sender, message.election_id)
            return
        if message.action is ElectionAction.INQUIRY:
            if sender < mine and self._is_candidate():
                alive = ElectionMessage(
                    action=ElectionAction.ALIVE, election_id=message.election_id
                )
                self._outgoing.append((sender, alive))
                self._contest(now_ns)
        elif message.action is ElectionAction.ALIVE:
            if sender > mine and message.election_id == self._inquiry_id:
                self._inquiry_id, self._inquiry_ns = 0, None
                self._check_ns = earliest(self._check_ns, now_ns + _PATIENCE_NS)
        elif sender < mine and self._is_candidate():
            self._contest(now_ns)
        elif not self._has_higher(sender):
            self._inquiry_id, self._inquiry_ns = 0, None
            self._is_forced = False
            self._accept(sender, message.election_id)

    def advance(self, now_ns: int) -> None:
        """Do what is due."""
        if self._check_ns is not None and now_ns >= self._check_ns:
            self._check_ns = None
            if not self._is_candidate():
                self._check_ns = now_ns + _PATIENCE_NS
            elif self._is_needed():
                self._start(now_ns)
            elif self.is_elected:
                self._announce()
            self._is_forced = False
        if self._inquiry_ns is not None and now_ns >= self._inquiry_ns:
            won_id, self._inquiry_id, self._inquiry_ns = self._inquiry_id, 0, None
            self._accept(self._table.me.node, won_id)
            self._announce()

    def deadline_ns(self) -> int | None:
        """When to call `advance`."""
        return earliest(self._check_ns, self._inquiry_ns)

    def _is_needed(self) -> bool:
        if self._is_forced or not self.elected_id:
            return True
        mine = self._table.me.node
        if self.is_elected:
            # A higher node that appears becomes the elected one.
            return any(one.entry.node > mine for one in self._table.alive_full())
        elected = self._table.nodes.get(self.elected_id)
        if elected is None or elected.is_dead or elected.entry.node < mine:
            return True
        raw = elected.raw
        return raw is not None and raw.election_id != self.election_id

    def _has_higher(self, sender: int) -> bool:
        """Return whether the elected node is a higher one than `sender`, which may not know it."""
        elected = self._table.nodes.get(self.elected_id)
        if elected is None or elected.is_dead or self.elected_id <= sender:
            return False
        return elected.raw is None or elected.raw.election_id == self.election_id

    def _contest(self, now_ns: int) -> None:
        """Answer a lower node that wants to be elected."""
        if self.is_elected and not self._is_needed():
            self._announce()
        else:
            self._start(now_ns)

    def _start(self, now_ns: int) -> None:
        if self._inquiry_ns is not None:
            return
        self._inquiry_id = self._new_id()
        self._inquiry_ns = now_ns + self._timeout_ns
        inquiry = ElectionMessage(action=ElectionAction.INQUIRY, election_id=self._inquiry_id)
        self._outgoing.append((None, inquiry))

    def _announce(self) -> None:
        victory = ElectionMessage(action=ElectionAction.VICTORY, election_id=self.election_id)
        self._outgoing.append((True, victory))

    def _accept(self, node: int, election_id: int) -> None:
        if (node, election_id) != (self.elected_id, self.election_id):
            self.elected_id, self.election_id = node, election_id
            self.count += 1

    def _new_id(self) -> int:
        return self._rng.getrandbits(_ID_BITS) + 1
