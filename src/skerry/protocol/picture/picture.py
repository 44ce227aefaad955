"""The machine of the picture: it joins raw statistics, election, membership and states.

It decides which nodes are excluded. Its caller includes and excludes nodes and sends messages.
All of its messages are sent on the control channel, acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from random import Random
from typing import Final

from skerry.errors import DecodeError
from skerry.protocol.deadlines import earliest
from skerry.protocol.exclusion import ExclusionReason
from skerry.protocol.machine import MachineEvent
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.picture.bodies import (
    ELECTION,
    FORGET,
    RAW,
    STATE,
    read_election,
    read_forget,
    read_raw,
    read_state,
    write_forget,
    write_raw,
    write_state,
)
from skerry.protocol.picture.election import Election
from skerry.protocol.picture.entries import NodeEntry, RawStatistics, SystemState
from skerry.protocol.picture.events import (
    Ejected,
    Elected,
    Exclude,
    Forget,
    IncarnationEntered,
    Include,
    LoopWasLate,
    NodeDead,
    PictureAction,
    PictureChanged,
    PictureStatistics,
    SendAll,
    StateContradicts,
)
from skerry.protocol.picture.liveness import slow_reason
from skerry.protocol.picture.membership import IncarnationMembership
from skerry.protocol.picture.other_half import OtherHalf
from skerry.protocol.picture.output import PictureOutput
from skerry.protocol.picture.production import Production
from skerry.protocol.picture.raw_table import RawTable, TrackedNode
from skerry.protocol.picture.state_intake import StateIntake, note_generation

__all__ = ["PictureMachine"]

_MS: Final = 1_000_000
_SECOND: Final = 1_000_000_000
_CHECK_FACTOR_PERCENT: Final = 110
"""Nodes are checked once in this part of a second, or of the shortest keep-alive interval."""
_RAW_NS: Final = 30 * _SECOND
"""Raw statistics are sent at least this often, and when nodes change."""
_RAW_NODE_COUNT: Final = 50
"""With more nodes they are sent less often, in proportion: all nodes receive those of all others,
and each lists all nodes."""
_COALESCE_NS: Final = 200 * _MS
"""Changes within this time are sent together. Counters alone are no change."""
_STATE_NS: Final = _SECOND
_STATE_NS_MAX: Final = 10 * _SECOND
"""The elected node repeats its state after a second, two, four and eight, then this often."""
_FAILED_COUNT_MAX: Final = 60
"""Updates in a row without a state, after which a new election is forced."""


class PictureMachine:
    """The picture of the system, as one node sees and makes it."""

    def __init__(
        self,
        *,
        me: NodeEntry,
        own_type: NodeType,
        node_types: NodeTypes,
        rng: Random,
        now_ns: int,
        alone_timeout_ns: int = 0,
        black_list: Collection[int] = (),
        clock_skew_ns_max: int = 60 * _SECOND,
        is_merging: bool = True,
        is_vetoed: Callable[[NodeEntry], bool] | None = None,
    ) -> None:
        """`is_merging` is whether the smaller half of a system leaves when both meet again.
        `is_vetoed` is called with each node that requests to join."""
        self.state: SystemState | None = None
        """The last accepted state; None before the first."""
        self.table = RawTable(me, own_type, node_types, clock_skew_ns_max=clock_skew_ns_max)
        self.membership = IncarnationMembership(own_type, rng, now_ns, black_list=black_list)
        self.election = Election(
            self.table,
            own_type,
            node_types,
            rng,
            now_ns,
            is_candidate=self._is_candidate,
            alone_timeout_ns=alone_timeout_ns,
        )
        self._me = me
        self._own_type = own_type
        self._types = node_types
        self._production = Production(self.table)
        self._is_merging = is_merging
        self._is_vetoed = is_vetoed
        self._started_ns = now_ns
        shortest_ns = min(_SECOND, *(one.heartbeat_ns for one in node_types))
        self._check_period_ns = shortest_ns * _CHECK_FACTOR_PERCENT // 100
        self._check_ns = now_ns + self._check_period_ns
        self._suspended_ns = now_ns
        """Until when no node is declared dead."""
        self._raw_ns: int | None = now_ns + _RAW_NS
        self._is_update_due = False
        self._state_ns: int | None = None
        self._state_pause_ns = _STATE_NS
        self._intake = StateIntake(self.election, own_type, me.node)
        self._is_ejected = False
        self.other_half = OtherHalf()
        self._reported_election = (0, 0)
        self._outgoing = PictureOutput(node_types)
        self._events: list[MachineEvent] = []
        self._raw_sent_count = 0
        self._raw_received_count = 0
        self._state_sent_count = 0
        self._state_received_count = 0
        self._ignored_count = 0

    # -- nodes

    def node_found(self, entry: NodeEntry, now_ns: int) -> None:
        """Process a node that discovery has found."""
        node_type = self._types.by_id(entry.type_id)
        if node_type is None or entry.node == self._me.node:
            return
        tracked = self.table.nodes.get(entry.node)
        # A light node remembers only for a while that it has excluded a full one.
        if tracked is not None and not (tracked.is_dead and self._own_type.light):
            if tracked.is_dead and node_type.light:
                self.table.revive(tracked, self.state, now_ns)
                self._outgoing.actions.append(Include(node=entry.node))
                self._nodes_changed(now_ns)
            return
        tracked = self.table.add(entry, node_type, now_ns, self.state)
        if tracked.is_dead:
            reason = tracked.entry.dead_reason
            self._outgoing.actions.append(Exclude(node=entry.node, reason=reason))
        elif self._is_vetoed is not None and self._is_vetoed(entry):
            self._exclude(tracked, ExclusionReason.VETO, now_ns)
        else:
            self._outgoing.actions.append(Include(node=entry.node))
        self._nodes_changed(now_ns)

    def clock_measured(self, node: int, offset_ns: int) -> None:
        """Note the clock of a node. If it differs too much, the next check refuses the node."""
        tracked = self.table.nodes.get(node)
        if tracked is not None and not tracked.is_dead:
            self._is_update_due |= tracked.clock_offset_ns is None
            tracked.clock_offset_ns = offset_ns

    def stalled(self, node: int, reason: ExclusionReason, now_ns: int) -> None:
        """Exclude a node with which no messages can be exchanged any more."""
        tracked = self.table.nodes.get(node)
        if tracked is not None and not tracked.is_dead:
            if reason is ExclusionReason.SLOW:
                reason = slow_reason([tracked.control, tracked.data], tracked.type, now_ns=now_ns)
            self._exclude(tracked, reason, now_ns)

    def refused_by(
        self, node: int, reason: int, now_ns: int, *, incarnation_id: int, size: int, elected: int
    ) -> None:
        """Process that another node has excluded this one.

        `incarnation_id`, `size` and `elected` are those of the system of the other node; zeros if
        it belongs to none.
        """
        tracked = self.table.nodes.get(node)
        mine = self.membership.incarnation_id
        is_lost = self.election.is_lost_to(node, elected)
        was_alive = tracked is not None and not tracked.is_dead
        if tracked is not None and was_alive:
            # It receives nothing of this node, which has just received something of it.
            why = ExclusionReason.UNANSWERED if reason == ExclusionReason.SILENT else reason
            self._exclude(tracked, why, now_ns, by=node)
        if self._own_type.light or not self.membership.is_open(incarnation_id):
            return
        if not mine or (is_lost and incarnation_id == mine):
            self._eject(reason, node)
        elif incarnation_id == mine and (self._is_merging or was_alive):
            # Two halves that excluded each other may stay apart. A node that did not exclude the
            # others was only absent, and has to leave if they are more.
            if tracked is None:
                # It joined the other half, and learns of this one when it is refused as well.
                self._outgoing.actions.append(Exclude(node=node, reason=reason))
            self.other_half.refused(node, size, elected, reason, now_ns, was_alive=was_alive)

    def forget(self, nodes: Iterable[int], now_ns: int) -> list[int]:
        """Forget dead nodes everywhere in the system; return those that were known here."""
        ids = tuple(nodes)
        self._outgoing.send_all(FORGET, write_forget(ids))
        return self._forget(ids, now_ns)

    def is_check_due(self, now_ns: int) -> bool:
        """Return whether `advance` at that time examines the health of the nodes, which the
        caller then updates in `table`."""
        return now_ns >= self._check_ns

    # -- messages

    def received(self, node: int, data_type: int, body: bytes, now_ns: int) -> None:
        """Process a message of another node. Nothing in it can do harm."""
        tracked = self.table.nodes.get(node)
        if tracked is None or tracked.is_dead:
            self._ignored_count += 1
            return
        try:
            if data_type == RAW:
                self._raw_received(tracked, read_raw(body), now_ns)
            elif data_type == STATE:
                self._state_received(tracked, read_state(body), now_ns)
            elif data_type == ELECTION:
                self.election.received(node, read_election(body), now_ns)
                self._after_election(now_ns)
            elif data_type == FORGET:
                self._forget(read_forget(body), now_ns)
            else:
                self._ignored_count += 1
        except DecodeError:
            self._ignored_count += 1

    def not_sent(self, action: SendAll, now_ns: int) -> None:
        """Send a message again soon, since there was no room for it."""
        self._outgoing.not_sent(action, now_ns)

    # -- time and output

    def advance(self, now_ns: int) -> None:
        """Do what is due: look for dead nodes, elect, send raw statistics and states."""
        if now_ns >= self._check_ns:
            self._check(now_ns)
        self.election.advance(now_ns)
        self._after_election(now_ns)
        self._form_if_due(now_ns)
        lost = self.other_half.decide(self.size, self.election.elected_id, now_ns)
        if lost is not None:
            self._eject(*lost)
        self._outgoing.advance(now_ns, lambda: write_raw(self.raw()))
        if self._raw_ns is not None and now_ns >= self._raw_ns:
            self._raw_ns = now_ns + _RAW_NS * max(1, len(self.table.nodes) // _RAW_NODE_COUNT)
            self._raw_sent_count += 1
            self._outgoing.send_all(RAW, write_raw(self.raw()))
        if self.election.is_elected:
            self._update(now_ns)

    def deadline_ns(self) -> int | None:
        """When to call `advance`."""
        due_ns = earliest(earliest(self._check_ns, self._raw_ns), self.election.deadline_ns())
        if self.election.is_elected:
            due_ns = earliest(due_ns, self._state_ns)
        return earliest(earliest(due_ns, self.other_half.due_ns), self._outgoing.deadline_ns())

    def take_actions(self) -> list[PictureAction]:
        """Return what is to be done since the last call, in order."""
        return self._outgoing.take()

    def take_events(self) -> list[MachineEvent]:
        """Return the events since the last call, oldest first."""
        events, self._events = self._events, []
        return events

    def raw(self) -> RawStatistics:
        """The raw statistics of this node."""
        return self.table.statistics(self.election.election_id, self.membership.incarnation_id)

    def statistics(self) -> PictureStatistics:
        return PictureStatistics(
            raw_sent_count=self._raw_sent_count,
            raw_received_count=self._raw_received_count,
            state_sent_count=self._state_sent_count,
            state_received_count=self._state_received_count,
            ignored_count=self._ignored_count,
            election_count=self.election.count,
            state_sequence=0 if self.state is None else self.state.sequence,
            dead_count=self.table.dead_count,
        )

    @property
    def size(self) -> int:
        """How many nodes of the system are alive, as far as this one knows."""
        return self.table.alive_count(self.state)

    # -- inside: dead nodes

    def _check(self, now_ns: int) -> None:
        late_ns = now_ns - self._check_ns
        self._check_ns = now_ns + self._check_period_ns
        if late_ns > self._own_type.dead_timeout_ns // 2:
            # What the others sent meanwhile may not have been read yet.
            self._suspended_ns = now_ns + self._own_type.dead_timeout_ns
            self._events.append(LoopWasLate(late_ns=late_ns))
        self.table.expire(now_ns)
        if now_ns >= self._suspended_ns:
            for tracked, reason in self.table.found_dead(now_ns):
                self._exclude(tracked, reason, now_ns)
        for tracked in self.table.wrong_clocks(self.state):
            self._exclude(tracked, ExclusionReason.CLOCK, now_ns)
        self._is_update_due = True
        if self._production.failed_count >= _FAILED_COUNT_MAX:
            self._production.failed_count = 0
            self.election.changed(now_ns, is_forced=True)
        if self._own_type.light:
            self._detach_if_alone(now_ns)

    def _exclude(self, tracked: TrackedNode, reason: int, now_ns: int, *, by: int = 0) -> None:
        """Exclude a node, since another one (`by`) or this one has decided so."""
        self.table.kill(tracked, reason, now_ns)
        self._outgoing.actions.append(Exclude(node=tracked.entry.node, reason=reason))
        self._events.append(NodeDead(entry=tracked.entry, by=by or self._me.node))
        self._nodes_changed(now_ns)

    def _nodes_changed(self, now_ns: int) -> None:
        self._raw_ns = earliest(self._raw_ns, now_ns + _COALESCE_NS)
        self._is_update_due = True
        self._state_ns = earliest(self._state_ns, now_ns)
        self.election.changed(now_ns)

    def _forget(self, ids: tuple[int, ...], now_ns: int) -> list[int]:
        gone = self.table.forget(ids, now_ns)
        if gone:
            self._outgoing.actions.append(Forget(nodes=tuple(gone)))
            self._nodes_changed(now_ns)
        return gone

    def _learn_dead(self, entry: NodeEntry, now_ns: int) -> None:
        """Note a node that was dead before this one knew it. Nothing of it is accepted."""
        if entry.node != self._me.node and self.table.add_dead(entry, now_ns):
            self._outgoing.actions.append(Exclude(node=entry.node, reason=entry.dead_reason))

    def _eject(self, reason: int, by: int) -> None:
        if not self._is_ejected:
            self._is_ejected = True
            self._events.append(Ejected(reason=reason, by=by))

    def _detach_if_alone(self, now_ns: int) -> None:
        """Let a light node without full nodes be a system of its own."""
        is_alone = not self.table.alive_full()
        is_early = now_ns - self._started_ns < self.election.alone_timeout_ns
        was_attached = self.membership.incarnation_id and not self.membership.is_detached
        if not is_alone or self.membership.is_detached or (is_early and not was_attached):
            return
        self.table.forget_all()
        self.state = None
        self.membership.form(is_detached=True)
        self.election.elect_self()
        self._entered(is_formed=True)
        self._after_election(now_ns)
        self._nodes_changed(now_ns)

    # -- inside: incarnation and election

    def _form_if_due(self, now_ns: int) -> None:
        membership, election = self.membership, self.election
        if self._own_type.light or not membership.may_form(now_ns, election.alone_timeout_ns):
            return
        if election.is_elected and self.table.is_clock_wrong():
            self._eject(ExclusionReason.CLOCK, self._me.node)
        elif election.is_elected:
            membership.form()
            self._entered(is_formed=True)
            self._nodes_changed(now_ns)

    def _entered(self, *, is_formed: bool) -> None:
        membership = self.membership
        self._events.append(
            IncarnationEntered(
                incarnation_id=membership.incarnation_id,
                is_formed=is_formed,
                is_detached=membership.is_detached,
            )
        )

    def _is_candidate(self) -> bool:
        """Return whether this node may be elected: it knows the system, and is not refused."""
        is_joining = self.membership.incarnation_id != 0
        return self.state is not None or self.table.knows_all(has_right_clocks=is_joining)

    def _after_election(self, now_ns: int) -> None:
        """Send the messages of the election, and report its result."""
        election = self.election
        self._outgoing.send_election(election.take_outgoing())
        decided = election.elected_id, election.election_id
        if decided != self._reported_election:
            self._reported_election = decided
            self._events.append(Elected(node=decided[0], election_id=decided[1]))
            self._raw_ns = earliest(self._raw_ns, now_ns + _COALESCE_NS)
            self._is_update_due = True
            self._state_ns = now_ns if election.is_elected else None
            self._intake.missing_count = 0

    # -- inside: raw statistics

    def _raw_received(self, tracked: TrackedNode, raw: RawStatistics, now_ns: int) -> None:
        self._raw_received_count += 1
        before_id = self.membership.incarnation_id
        verdict = self.membership.met(raw.incarnation_id, is_light=tracked.type.light)
        if isinstance(verdict, ExclusionReason):
            self._exclude(tracked, verdict, now_ns)
            return
        if self.membership.incarnation_id != before_id:
            if before_id:
                self.state = None
                self.election.clear()
            self._entered(is_formed=False)
            self._raw_ns = earliest(self._raw_ns, now_ns + _COALESCE_NS)
        if not verdict:
            self._ignored_count += 1
            return
        for node in self.table.merge_more_dead(raw.more_dead):
            self._outgoing.actions.append(Exclude(node=node, reason=ExclusionReason.COORDINATOR))
        self.table.raw_received(tracked, raw)
        self._is_update_due = True
        self._state_ns = earliest(self._state_ns, now_ns)
        self.election.compare(tracked, raw.election_id, now_ns)

    # -- inside: states

    def _update(self, now_ns: int) -> None:
        """Make the next state while this node is elected, and send it."""
        if not self.membership.incarnation_id:
            self._state_ns = None
            return
        if self._is_update_due:
            self._is_update_due = False
            proposal = self._production.propose(
                self.state,
                self.election.election_id,
                now_ns,
                is_detached=self.membership.is_detached,
            )
            for entry in proposal.learned:
                self._learn_dead(entry, now_ns)
            for tracked, reason in proposal.dead:
                self._exclude(tracked, reason, now_ns)
            if proposal.state is not None and proposal.state is not self.state:
                self._accept_state(proposal.state, now_ns)
                self._state_pause_ns = _STATE_NS
                self._state_ns = now_ns
        if self._state_ns is not None and now_ns >= self._state_ns:
            self._state_ns = now_ns + self._state_pause_ns
            self._state_pause_ns = min(2 * self._state_pause_ns, _STATE_NS_MAX)
            self._is_update_due = True
            if self.state is not None and self.state.election_id == self.election.election_id:
                self._state_sent_count += 1
                self._outgoing.send_all(STATE, write_state(self.state))

    def _state_received(self, sender: TrackedNode, state: SystemState, now_ns: int) -> None:
        node = sender.entry.node
        if not self.membership.incarnation_id or not self._intake.is_current(
            node, state, self.state
        ):
            self._ignored_count += 1
            return
        self._state_received_count += 1
        reconciled = state.reconciled()
        reason = self._intake.reason_to_leave(reconciled, now_ns)
        if reason is None:
            if self.state is None or not reconciled.is_same_as(self.state):
                if reconciled is not state:
                    self._events.append(StateContradicts(by=node))
                self._accept_state(reconciled, now_ns)
        elif reason and not self._own_type.light:
            self._eject(reason, node)

    def _accept_state(self, state: SystemState, now_ns: int) -> None:
        before, self.state = self.state, state
        for entry in state.nodes:
            tracked = self.table.nodes.get(entry.node)
            if tracked is None:
                if entry.is_dead:
                    self._learn_dead(entry, now_ns)
                continue
            note_generation(tracked, entry, before)
            if entry.is_dead and not tracked.is_dead:
                if entry.generation >= tracked.entry.generation:
                    reason = entry.dead_reason or ExclusionReason.COORDINATOR
                    self._exclude(tracked, reason, now_ns, by=state.elected_id)
            elif not entry.is_dead and tracked.data_since_ns is None:
                tracked.data_since_ns = now_ns
        self._events.append(PictureChanged(state=state))
