"""The machine of a node in a system: discovery, picture, and the control and data channel.

Both channels have their own sockets and streams, so that the decisions about membership never wait
for data. On the data channel only nodes of the picture take part.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from mypy_extensions import mypyc_attr

from skerry.engine.system.channel_health import health_of
from skerry.engine.system.channel_seal import ChannelSeal
from skerry.engine.system.config import Rejoin, SystemConfig
from skerry.engine.system.events import Rejoining, SystemLeft, SystemStatistics
from skerry.ids import hash64
from skerry.protocol.deadlines import earliest
from skerry.protocol.discovery.descriptions import NodeDescription, SystemStanding
from skerry.protocol.discovery.discovery import Discovery
from skerry.protocol.discovery.events import ClockMeasured, NodeFound, RefusedBy
from skerry.protocol.exclusion import ExclusionReason
from skerry.protocol.link.events import RecordsReceived, Stalled, StallReason
from skerry.protocol.link.link import Link
from skerry.protocol.machine import Address, MachineEvent, Transmit
from skerry.protocol.picture.entries import NodeEntry, SystemState
from skerry.protocol.picture.events import (
    Ejected,
    Exclude,
    Forget,
    Include,
    PictureAction,
    PictureChanged,
    SendAll,
    SendOne,
)
from skerry.protocol.picture.picture import PictureMachine
from skerry.protocol.rtps.entities import Channel
from skerry.protocol.sealing.group_keys import KeyRing
from skerry.tracing import NO_TRACE, DropReason, Tracer

__all__ = ["STOP_NOTICE", "Received", "SystemCore"]

Received = tuple[bytes, Address, Address]
"""A datagram, its source, and the socket or group to which it was sent."""

STOP_NOTICE: Final = hash64("ctl.stop_notice")
"""The data type of the message that a node stops."""
_NODE_ID_BITS: Final = 63
_REJOIN_NS_MIN: Final = 1_000_000_000
_REJOIN_NS_MAX: Final = 60_000_000_000
_STABLE_NS: Final = 300_000_000_000
"""After so long in the system, the next return is not delayed."""
_REASONS: Final = {
    StallReason.LAG: ExclusionReason.SLOW,
    StallReason.BACKLOG: ExclusionReason.SLOW,
    StallReason.STREAM_LOST: ExclusionReason.STREAM,
    StallReason.MALFORMED: ExclusionReason.STREAM,
}


@mypyc_attr(allow_interpreted_subclasses=True)
class SystemCore:
    """A node among others. Its application sends on the data channel, and gets its events."""

    def __init__(
        self,
        config: SystemConfig,
        *,
        rng: Random,
        now_ns: int,
        wall_offset_ns: int = 0,
        tracer: Tracer = NO_TRACE,
    ) -> None:
        self.config = config
        self.own_type = config.node_types.named(config.type_name)
        self._types = {one.name: one for one in config.node_types}
        self._rng = rng
        self._tracer = tracer
        self._wall_offset_ns = wall_offset_ns
        self._control_group = self.own_type.group(Channel.CONTROL)
        self._data_group = self.own_type.group(Channel.DATA)
        self._events: list[MachineEvent] = []
        self._rejoin_ns: int | None = None
        self._rejoin_delay_ns = _REJOIN_NS_MIN
        self._joined_ns = now_ns
        self._now_ns = now_ns
        self._seal = ChannelSeal(config)
        self._first_id = config.node_id
        """The id of the first life; later ones have a random one."""
        self._seeds: list[Address] = list(config.seeds)
        self._is_out = False
        """Whether the node takes no part: it was excluded, or has stopped."""
        self._begin(now_ns)

    # -- for the application

    @property
    def node(self) -> int:
        """The id of this node."""
        return self._node

    @property
    def is_out(self) -> bool:
        """Whether the node takes no part, or not yet again, because it was excluded."""
        return self._is_out

    @property
    def state(self) -> SystemState | None:
        """The picture of the system; None before the first."""
        return self.picture.state

    def send_all(
        self,
        type_name: str,
        data_type: int,
        data: bytes,
        now_ns: int,
        *,
        is_reliable: bool = True,
        key: int | None = None,
    ) -> bool:
        """Send a message on the data channel to all nodes of a type; see `Link.send_all`."""
        node_type = self._types.get(type_name) or self.config.node_types.named(type_name)
        return self.data.send_all(
            node_type, data_type, data, now_ns, is_reliable=is_reliable, key=key
        )

    def send_to(
        self, node: int, data_type: int, data: bytes, now_ns: int, *, is_reliable: bool = True
    ) -> bool:
        """Send a message on the data channel to one node; see `Link.send_to`."""
        return self.data.send_to(node, data_type, data, now_ns, is_reliable=is_reliable)

    def add_seeds(self, addresses: list[Address]) -> None:
        """Add addresses at which other nodes may be."""
        self._seeds += [one for one in addresses if one not in self._seeds]
        self.discovery.add_seeds(addresses)

    def forget(self, nodes: list[int], now_ns: int) -> list[int]:
        """Forget dead nodes everywhere in the system; return those that were known here."""
        gone = self.picture.forget(nodes, now_ns)
        self._settle(now_ns)
        return gone

    def probe(self, now_ns: int) -> list[tuple[Address, bytes]]:
        """Begin a round of probes; return the datagrams, which are to be sent whole on the control
        channel. `discovery.probes` has the results."""
        if self._is_out:
            return []
        seal, wall_ns = self._seal.seal, now_ns + self._wall_offset_ns
        found = self.discovery.probe(now_ns)
        return [(to, seal(Channel.CONTROL, [data], wall_ns)[0]) for to, data in found]

    def stop(self, now_ns: int) -> None:
        """Tell the others that this node stops. Called twice, 300 ms apart, since the message is
        not acknowledged."""
        for one in self.config.node_types:
            self.control.send_all(one, STOP_NOTICE, b"\0", now_ns, is_reliable=False)

    # -- the contract

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        """Process a datagram of the control channel."""
        self.receive_at(data, source, self.config.control, now_ns)

    def receive_at(self, data: bytes, source: Address, destination: Address, now_ns: int) -> None:
        """Process a datagram to one of the sockets or groups of this node."""
        if self._is_out:
            return
        self._now_ns = now_ns
        if destination.port == self.config.data.port or destination == self._data_group:
            self._receive_data(data, source, destination, now_ns)
        else:
            self._receive_control(data, source, destination, now_ns)
        self._settle(now_ns)

    def receive_all(self, received: Sequence[Received], channel: Channel, now_ns: int) -> None:
        """Process datagrams of one channel. Those with data are processed as one batch."""
        if channel is Channel.CONTROL:
            for data, source, destination in received:
                self.receive_at(data, source, destination, now_ns)
        elif not self._is_out:
            self._now_ns = now_ns
            for data, source, destination in received:
                self._receive_data(data, source, destination, now_ns)
            self._settle(now_ns)

    def advance(self, now_ns: int) -> None:
        """Do what is due."""
        self._now_ns = now_ns
        if self._rejoin_ns is not None and now_ns >= self._rejoin_ns:
            self._rejoin_ns = None
            self._begin(now_ns)
            self._events.append(Rejoining(node=self._node))
        if self._is_out:
            return
        self.control.advance(now_ns)
        self.data.advance(now_ns)
        self.discovery.advance(now_ns)
        self._settle(now_ns)
        if self.picture.is_check_due(now_ns):
            self.picture.table.health(health_of(self.control), health_of(self.data))
        self.picture.advance(now_ns)
        self._settle(now_ns)

    def deadline_ns(self) -> int | None:
        """When to call `advance`."""
        if self._is_out:
            return self._rejoin_ns
        due_ns = earliest(self.control.deadline_ns(), self.data.deadline_ns())
        due_ns = earliest(due_ns, self.discovery.deadline_ns())
        return earliest(due_ns, self.picture.deadline_ns())

    def take_bursts(self) -> list[tuple[Channel, Address, list[bytes]]]:
        """Return what is to be sent since the last call: the channel of the socket, and datagrams
        to one destination."""
        control, data = Channel.CONTROL, Channel.DATA
        sent = [(control, to, [one]) for to, one in self.discovery.take_datagrams()]
        sent += [(control, to, datagrams) for to, datagrams in self.control.take_bursts()]
        sent += [(data, to, datagrams) for to, datagrams in self.data.take_bursts()]
        if self._is_out:
            return []
        seal, wall_ns = self._seal.seal, self._now_ns + self._wall_offset_ns
        return [(channel, to, seal(channel, datagrams, wall_ns)) for channel, to, datagrams in sent]

    def take_transmits(self) -> list[Transmit]:
        """Return the same as transmits."""
        ports = {Channel.CONTROL: self.config.control.port, Channel.DATA: self.config.data.port}
        return [
            Transmit(destination=address, data=data, port=ports[channel])
            for channel, address, datagrams in self.take_bursts()
            for data in datagrams
        ]

    def take_events(self) -> list[MachineEvent]:
        """Return the events since the last call, oldest first."""
        events, self._events = self._events, []
        return events

    def set_wall_offset(self, wall_offset_ns: int, now_ns: int) -> None:
        """Set the offset of wall time, after the wall clock was changed."""
        self._wall_offset_ns = wall_offset_ns
        for part in (self.control, self.data, self.discovery):
            part.set_wall_offset(wall_offset_ns, now_ns)

    def rekey(self, keys: KeyRing) -> None:
        """Seal with other keys from now on. For a system that was started with keys."""
        self._seal.rekey(keys)

    def statistics(self) -> SystemStatistics:
        """All counters."""
        wall_ns = self._now_ns + self._wall_offset_ns
        return SystemStatistics(
            node=self._node,
            control=self.control.statistics(),
            data=self.data.statistics(),
            discovery=self.discovery.statistics(),
            picture=self.picture.statistics(),
            seal=self._seal.statistics(wall_ns),
        )

    # -- inside

    def _begin(self, now_ns: int) -> None:
        """Begin a life with a new id."""
        config = self.config
        self._is_out = False
        self._joined_ns = now_ns
        self._node, self._first_id = self._first_id or self._random_id(), 0
        self._seal.begin(self._node)
        me = NodeDescription(
            node=self._node,
            name=config.name,
            type_id=self.own_type.id,
            control=config.control,
            data=config.data,
        )
        self.control = self._link(Channel.CONTROL, now_ns)
        self.data = self._link(Channel.DATA, now_ns)
        self.discovery = Discovery(
            me=me,
            own_type=self.own_type,
            node_types=config.node_types,
            system=hash64(config.system),
            rng=self._rng,
            now_ns=now_ns,
            seeds=self._seeds,
            groups=config.seed_groups,
            datagram_bytes=self._seal.link_config.datagram_bytes,
            checksum=self._seal.link_config.checksum,
            wall_offset_ns=self._wall_offset_ns,
        )
        self.picture = PictureMachine(
            me=_entry(me),
            own_type=self.own_type,
            node_types=config.node_types,
            rng=self._rng,
            now_ns=now_ns,
            alone_timeout_ns=config.alone_timeout_ns,
            black_list=config.black_list,
            clock_skew_ns_max=config.clock_skew_ns_max,
            is_merging=config.rejoin is Rejoin.AUTO,
            is_vetoed=config.is_vetoed,
        )

    def _random_id(self) -> int:
        number = self._rng.getrandbits(_NODE_ID_BITS) or 1
        # A node that may form a system has a positive id, so that it wins elections.
        return number if self.own_type.can_form else -number

    def _link(self, channel: Channel, now_ns: int) -> Link:
        return Link(
            channel=channel,
            node=self._node,
            node_types=self.config.node_types,
            own_type=self.own_type,
            now_ns=now_ns,
            config=self._seal.link_config,
            wall_offset_ns=self._wall_offset_ns,
            tracer=self._tracer,
        )

    def _receive_data(
        self, data: bytes, source: Address, destination: Address, now_ns: int
    ) -> None:
        data = self._seal.open(self.data, data, source, now_ns + self._wall_offset_ns)
        if not data:
            return
        is_multicast = destination == self._data_group
        unknown = self.data.receive(data, source, now_ns, is_multicast=is_multicast)
        if unknown is not None:
            is_excluded = self.discovery.is_excluded(unknown.node)
            self.data.drop(DropReason.EXCLUDED if is_excluded else DropReason.STRANGER, source)

    def _receive_control(
        self, data: bytes, source: Address, destination: Address, now_ns: int
    ) -> None:
        data = self._seal.open(self.control, data, source, now_ns + self._wall_offset_ns)
        if not data:
            return
        is_multicast = destination != self.config.control
        if not is_multicast and self.discovery.is_own(data):
            self.discovery.own_received(data, source, now_ns)
            return
        found = self.control.receive(
            data, source, now_ns, is_multicast=is_multicast and destination == self._control_group
        )
        if found is None:
            return
        if self.discovery.is_excluded(found.node):
            self.discovery.standing = self._standing()
            self.discovery.receive(found, source, now_ns)
            self.discovery.refuse(found.node, source, now_ns)
            self.control.drop(DropReason.EXCLUDED, source)
            return
        before_count = len(self.discovery.directory.known)
        reason = self.discovery.receive(found, source, now_ns)
        if reason is not None:
            self.control.drop(reason, source)
        elif found.node not in self.control.peers and (
            len(self.discovery.directory.known) == before_count
        ):
            self.control.drop(DropReason.STRANGER, source)

    def _settle(self, now_ns: int) -> None:
        """Pass what one part reports to the others, until nothing is left."""
        is_busy = True
        while is_busy and not self._is_out:
            is_busy = False
            for found in self.discovery.take_events():
                is_busy = True
                self._discovered(found, now_ns)
            for event in self.control.take_events():
                is_busy = True
                self._control_reported(event, now_ns)
            for event in self.data.take_events():
                if isinstance(event, Stalled):
                    is_busy = True
                    self.picture.stalled(event.node, _REASONS[event.reason], now_ns)
                else:
                    self._events.append(event)
            for action in self.picture.take_actions():
                is_busy = True
                self._perform(action, now_ns)
            for event in self.picture.take_events():
                is_busy = True
                self._picture_reported(event, now_ns)

    def _discovered(self, event: MachineEvent, now_ns: int) -> None:
        if isinstance(event, NodeFound):
            node_type = self.config.node_types.named(event.type_name)
            if event.node not in self.control.peers:
                self.control.meet(event.node, node_type, event.control)
            entry = NodeEntry(
                node=event.node,
                name=event.name,
                type_id=node_type.id,
                control=event.control,
                data=event.data,
            )
            self.picture.node_found(entry, now_ns)
        elif isinstance(event, RefusedBy):
            standing = event.standing or SystemStanding(incarnation_id=0, size=0, elected=0)
            self.picture.refused_by(
                event.node,
                event.reason,
                now_ns,
                incarnation_id=standing.incarnation_id,
                size=standing.size,
                elected=standing.elected,
            )
        elif isinstance(event, ClockMeasured):
            self.picture.clock_measured(event.node, event.offset_ns)
        else:
            self._events.append(event)

    def _control_reported(self, event: MachineEvent, now_ns: int) -> None:
        if isinstance(event, RecordsReceived):
            for data_type, _, body in event.records:
                if data_type == STOP_NOTICE:
                    self.picture.stalled(event.node, ExclusionReason.ORDERED, now_ns)
                else:
                    self.picture.received(event.node, data_type, body, now_ns)
        elif isinstance(event, Stalled):
            self.picture.stalled(event.node, _REASONS[event.reason], now_ns)

    def _perform(self, action: PictureAction, now_ns: int) -> None:
        if isinstance(action, Include):
            peer = self.control.peers.get(action.node)
            if peer is not None and not peer.is_included:
                self.control.include(action.node, now_ns)
        elif isinstance(action, Exclude):
            self.discovery.exclude(action.node, action.reason, now_ns)
            peer = self.control.peers.get(action.node)
            if peer is not None:
                # It may still receive what this node sends, and has to learn of it.
                self.discovery.standing = self._standing()
                self.discovery.refuse(action.node, peer.address, now_ns)
            self.control.exclude(action.node, now_ns)
            self.data.exclude(action.node, now_ns)
        elif isinstance(action, Forget):
            self.discovery.forget(action.nodes)
        elif isinstance(action, SendAll):
            node_type = self.config.node_types.named(action.type_name)
            if not self.control.send_all(node_type, action.data_type, action.body, now_ns):
                self.picture.not_sent(action, now_ns)
        elif isinstance(action, SendOne):
            self.control.send_to(action.node, action.data_type, action.body, now_ns)

    def _picture_reported(self, event: MachineEvent, now_ns: int) -> None:
        if isinstance(event, Ejected):
            self._leave(event, now_ns)
            return
        if isinstance(event, PictureChanged):
            self._follow(event.state, now_ns)
        self._events.append(event)

    def _follow(self, state: SystemState, now_ns: int) -> None:
        """Let the nodes of a new state take part in the data channel."""
        members = [one.node for one in state.alive() if one.node != self._node]
        for node in members:
            tracked = self.picture.table.nodes.get(node)
            if node not in self.data.peers and tracked is not None and not tracked.is_dead:
                self.data.meet(node, tracked.type, tracked.entry.data)
                self.data.include(node, now_ns)

    def _standing(self) -> SystemStanding | None:
        """Return the system of this node, for nodes that it refuses; None if it belongs to none, or
        only for a while, as light nodes do, or if it may have to leave."""
        picture = self.picture
        is_inside = picture.other_half.is_inside
        if self.own_type.light or not picture.membership.incarnation_id or is_inside:
            return None
        return SystemStanding(
            incarnation_id=picture.membership.incarnation_id,
            size=picture.size,
            elected=picture.election.elected_id,
        )

    def _leave(self, event: Ejected, now_ns: int) -> None:
        """Take no part any more, or return after a while."""
        self._is_out = True
        self._events.append(SystemLeft(reason=event.reason, by=event.by))
        if self.config.rejoin is Rejoin.MANUAL:
            return
        if now_ns - self._joined_ns >= _STABLE_NS:
            self._rejoin_delay_ns = _REJOIN_NS_MIN
        self._rejoin_ns = now_ns + self._rejoin_delay_ns
        self._rejoin_delay_ns = min(2 * self._rejoin_delay_ns, _REJOIN_NS_MAX)


def _entry(me: NodeDescription) -> NodeEntry:
    return NodeEntry(
        node=me.node, name=me.name, type_id=me.type_id, control=me.control, data=me.data
    )
