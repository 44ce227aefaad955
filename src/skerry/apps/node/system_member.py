"""The node as a member of its system: the machine on its sockets, which feeds the picture.

It runs on the node's loop. Clients can connect while the network interface is awaited and while the
node joins; the node is ready when it has a picture.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final

from skerry.apps.node.peers import NodePeersConfig, Seed, system_config
from skerry.engine.events import NodesForgotten
from skerry.engine.services.node_links import NodeLinks, ObservedPeer
from skerry.engine.services.picture import (
    Observations,
    PublishedPicture,
    exclusion_text,
    observations,
    probe_objects,
    raw_objects,
)
from skerry.engine.system.config import Rejoin
from skerry.engine.system.events import MemberStatistics, Rejoining, SystemLeft
from skerry.errors import Excluded, SkerryError
from skerry.observe.events import log_events
from skerry.observe.system_log import SystemLog
from skerry.protocol.machine import Address, MachineEvent
from skerry.protocol.picture.entries import SystemState
from skerry.protocol.picture.events import IncarnationEntered, NodeDead, PictureChanged
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.key_files import read_keys
from skerry.runtime.streams.node_server import NodeServer
from skerry.runtime.udp.system_runtime import SystemRuntime
from skerry.schema.internal import LINK_TYPE, PROBE_TYPE, RAW_STATISTICS_TYPE

_OBSERVE_S_MAX: Final = 10
"""Interval at which clock differences are examined, also without new raw statistics."""
_RAW_S: Final = 1.0
"""Interval at which raw statistics are published while they have subscribers."""
_LINKS_S: Final = 10
"""Interval at which the quality of the links to other nodes is published."""
_RESOLVE_RETRY_S: Final = 5.0
"""Pause between attempts to resolve the names of seeds."""

log = logging.getLogger(__name__)


class SystemMember:
    """Connects the server of a node with its system."""

    def __init__(
        self,
        server: NodeServer,
        config: NodePeersConfig,
        *,
        system: str,
        name: str,
        node_id: int,
        rng: Random,
        group_key_file: str = "",
    ) -> None:
        """Raises ConfigError for invalid values; see `system_config`."""
        self._server = server
        self._config = config
        self._key_file = config.key_file or group_key_file
        self._unresolved = [seed for seed in config.seed_addresses() if seed.address is None]
        parameters = system_config(
            config, system=system, name=name, node_id=node_id, group_key_file=group_key_file
        )
        self._node_types = parameters.node_types
        self._runtime = SystemRuntime(parameters, config, rng=rng, on_events=self._report)
        self._starting: asyncio.Task[None] | None = None
        self._resolving: asyncio.Task[None] | None = None
        self._raw_timer: asyncio.TimerHandle | None = None
        self._state: SystemState | None = None
        """The published state; that of the machine is None after it has left the system."""
        self._exclusions: Counter[str] = Counter()
        self._rejoin_count = 0
        self._is_closing = False
        self._observations = Observations()
        self._log = SystemLog()
        self._observed_count = 0
        """Raw statistics that were received when observations were made last."""
        self._observed_s = 0
        """Seconds since then."""
        self._links = NodeLinks()
        self._links_s = 0
        """Seconds since links were published."""
        self._has_probed = False
        """Whether the other nodes were asked a second ago."""
        self._left: SystemLeft | None = None
        """Why the node is not in the system, after it was excluded."""
        self.failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails with the error for which the program has to end."""

    @property
    def trouble(self) -> str:
        """Why the node has no part in the system; empty if it has."""
        if not self._runtime.is_started:
            return "the network interface of the system is awaited"
        if self._left is not None:
            reason = exclusion_text(self._left.reason)
            return f"the system has excluded this node ({reason})"
        if self._runtime.machine.state is None:
            return "the node has not joined the system yet"
        return ""

    def start(self) -> None:
        """Open the sockets and look for other nodes, in the background."""
        self._starting = asyncio.get_running_loop().create_task(self._start())

    def node_reported(self, events: Sequence[MachineEvent]) -> None:
        """Process the events of the node: orders to forget nodes."""
        for event in events:
            if isinstance(event, NodesForgotten) and self._runtime.is_started:
                self._runtime.machine.forget(list(event.nodes), monotonic_ns())
                self._runtime.wake()

    def reload_keys(self) -> None:
        """Read the keys again; if that fails, raises ConfigError and keeps the old ones."""
        if self._key_file and self._runtime.is_started:
            self._runtime.machine.rekey(read_keys(self._key_file))
            log.info("keys of the system reloaded")

    def statistics(self) -> MemberStatistics | None:
        """All counters; None before the sockets are open."""
        if not self._runtime.is_started:
            return None
        machine = self._runtime.machine
        offsets = [abs(one.clock_offset_ns or 0) for one in machine.picture.table.alive()]
        state, sockets = machine.state, self._runtime.statistics()
        return MemberStatistics(
            machine=machine.statistics(),
            is_member=not self.trouble,
            is_elected=state is not None and state.elected_id == machine.node,
            alive_count=0 if state is None else len(state.alive()),
            clock_offset_ns_max=max(offsets, default=0),
            exclusions=dict(self._exclusions),
            rejoin_count=self._rejoin_count,
            kernel_drop_count=sockets.kernel_drop_count,
            unsent_count=sockets.unsent_count,
            reopened_count=sockets.reopened_count,
        )

    async def close(self) -> None:
        """Tell the others that this node stops, and leave the system."""
        self._is_closing = True
        for task in (self._starting, self._resolving):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if self._raw_timer is not None:
            self._raw_timer.cancel()
            self._publish_links()
        await self._runtime.close(notice=self._left is None)
        if not self.failure.done():
            self.failure.cancel()

    # -- inside

    async def _start(self) -> None:
        try:
            await self._runtime.start()
        except SkerryError as error:
            self._fail(error)
            return
        address = self._runtime.machine.config.control
        facts = {"control": address.text, "node_type": self._config.type_name}
        log.info("looking for the nodes of the system", extra=facts)
        if self._unresolved:
            self._resolving = asyncio.get_running_loop().create_task(self._resolve())
        self._publish_raw()

    def _fail(self, error: SkerryError) -> None:
        if not self.failure.done():
            self.failure.set_exception(error)

    async def _resolve(self) -> None:
        """Resolve the names of the seeds, and try those again that cannot be resolved."""
        level = logging.WARNING
        while self._unresolved:
            waiting, self._unresolved = self._unresolved, []
            for seed in waiting:
                address = await self._address(seed)
                if isinstance(address, Address):
                    self._runtime.machine.add_seeds([address])
                    self._runtime.wake()
                else:
                    self._unresolved.append(seed)
                    facts = {"seed": seed.host, "reason": address}
                    log.log(level, "a seed cannot be resolved", extra=facts)
            level = logging.DEBUG
            if self._unresolved:
                await asyncio.sleep(_RESOLVE_RETRY_S)

    async def _address(self, seed: Seed) -> Address | str:
        """The address of a seed, or why there is none."""
        import socket

        family = socket.AF_INET6 if self._config.is_v6 else socket.AF_INET
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(
                seed.host, seed.port, family=family, type=socket.SOCK_DGRAM
            )
        except (OSError, UnicodeError) as error:
            return getattr(error, "strerror", None) or str(error)
        return Address(str(found[0][4][0]), seed.port)

    def _report(self, events: Sequence[MachineEvent]) -> None:
        """Process the events of the machine."""
        if self._is_closing:
            return  # The others exclude this node now, as it wants.
        log_events(events)
        is_changed = False
        for event in events:
            if isinstance(event, PictureChanged):
                self._state, self._left = event.state, None
                self._log.picture(event.state)
                is_changed = True
            elif isinstance(event, NodeDead):
                self._exclusions[exclusion_text(event.entry.dead_reason)] += 1
            elif isinstance(event, IncarnationEntered | Rejoining):
                self._rejoin_count += isinstance(event, Rejoining)
                self._log.reset()
                is_changed = True
            elif isinstance(event, SystemLeft):
                self._left = event
                self._log.reset()
                self._state = self._without_this_node(event)
                is_changed = True
                if self._config.rejoin is Rejoin.MANUAL:
                    self._fail(Excluded(exclusion_text(event.reason)))
        if is_changed:
            self._publish_picture()

    def _without_this_node(self, left: SystemLeft) -> SystemState | None:
        """The last state, in which this node is dead."""
        state, node = self._state, self._runtime.machine.node
        if state is None:
            return None
        nodes = tuple(
            replace(one, is_dead=True, dead_reason=left.reason) if one.node == node else one
            for one in state.nodes
        )
        return replace(state, nodes=nodes).sealed()

    def _publish_picture(self) -> None:
        if self._state is None:
            return
        machine = self._runtime.machine
        # They must not be about nodes that are dead in this picture.
        self._observations = observations(machine.picture.table, machine.picture.raw())
        seen = PublishedPicture(
            node=machine.node,
            state=self._state,
            node_types=self._node_types,
            incarnation_id=machine.picture.membership.incarnation_id,
            observations=self._observations,
        )
        self._server.core.set_picture(seen, monotonic_ns())
        self._server.carry()

    def _observe(self) -> None:
        """Publish the picture again if clock differences or one-way links changed."""
        picture = self._runtime.machine.picture
        received_count = picture.statistics().raw_received_count
        self._observed_s += 1
        if received_count == self._observed_count and self._observed_s < _OBSERVE_S_MAX:
            return
        self._observed_count, self._observed_s = received_count, 0
        observed = observations(picture.table, picture.raw())
        if observed != self._observations:
            self._observations = observed
            self._log.observed(observed)
            self._publish_picture()

    def _publish_raw(self) -> None:
        """Publish raw statistics while they have subscribers, once a second, and links."""
        core, machine = self._server.core, self._runtime.machine
        self._observe()
        drops: Counter[str] = Counter()
        for part in (machine.control, machine.data, machine.discovery):
            drops.update(part.statistics().drops)
        self._log.dropped(drops, monotonic_ns())
        self._links_s += 1
        if self._links_s >= _LINKS_S:
            self._publish_links()
        self._probe()
        if core.wants(RAW_STATISTICS_TYPE) and not machine.is_out:
            now_ns = monotonic_ns()
            core.publish(raw_objects(machine.picture.table, machine.picture.raw(), now_ns), now_ns)
            self._server.carry()
        loop = asyncio.get_running_loop()
        self._raw_timer = loop.call_later(_RAW_S, self._publish_raw)

    def _probe(self) -> None:
        """Publish which nodes have answered, and ask all again, while that has subscribers."""
        core, machine = self._server.core, self._runtime.machine
        has_probed, self._has_probed = self._has_probed, core.wants(PROBE_TYPE)
        if machine.is_out or not self._has_probed:
            self._has_probed = False
            return
        if has_probed:
            found = probe_objects(
                machine.picture.table,
                machine.discovery.probes.results(),
                datagram_bytes=machine.config.link.datagram_bytes,
                mtu=self._runtime.mtu,
            )
            core.publish(found, monotonic_ns())
            self._server.carry()
        self._runtime.probe()

    def _publish_links(self) -> None:
        """Publish what was counted of each link since the last time, if it has subscribers."""
        self._links_s = 0
        core, machine = self._server.core, self._runtime.machine
        if machine.is_out:
            return
        peers = [
            ObservedPeer(
                node=one.entry.node,
                name=one.entry.name,
                channels=tuple(
                    channel.peer_statistics(one.entry.node)
                    for channel in (machine.control, machine.data)
                    if one.entry.node in channel.peers
                ),
            )
            for one in machine.picture.table.alive()
        ]
        links = self._links.take(
            machine.node, machine.config.name, [one for one in peers if one.channels]
        )
        if core.wants(LINK_TYPE):
            core.publish(links, monotonic_ns())
            self._server.carry()
