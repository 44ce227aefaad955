"""A node in a system on real sockets: the machine, its sockets and its driver."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Final

from skerry.engine.system.config import SystemConfig
from skerry.engine.system.system_core import SystemCore
from skerry.errors import ConfigError, ConnectFailed
from skerry.protocol.machine import MachineEvent
from skerry.protocol.rtps.entities import Channel
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.machine_driver import MachineDriver
from skerry.runtime.udp.system_addresses import SystemNetworkConfig
from skerry.runtime.udp.system_sockets import SocketStatistics, SystemSockets
from skerry.tracing import NO_TRACE, Tracer

__all__ = ["SystemRuntime"]

_DATA_TURN_NS: Final = 5_000_000
"""Time that one turn spends on data before other users of the loop are served."""
_BATCH_COUNT: Final = 32
"""Datagrams that are processed together: between two looks at the clock and for control."""
_INTERFACE_RETRY_S: Final = 0.25
_CHECK_S: Final = 1.0
_STOP_REPEAT_S: Final = 0.3
"""Time after which the notice of the stop is sent again."""

log = logging.getLogger(__name__)


class SystemRuntime:
    """Runs the machine of a node in a system on the running loop.

    After a call of the machine that sends something, call `wake`; in `on_events` that is not
    necessary. `on_events` is called on the loop with the events of the machine.
    """

    def __init__(
        self,
        config: SystemConfig,
        network: SystemNetworkConfig,
        *,
        rng: Random,
        on_events: Callable[[Sequence[MachineEvent]], None],
        make: Callable[..., SystemCore] = SystemCore,
        tracer: Tracer = NO_TRACE,
    ) -> None:
        """The addresses in `config` are replaced by those of the sockets. `make` makes the machine,
        with the parameters of `SystemCore`.
        """
        self._config = config
        self._network = network
        self._rng = rng
        self._on_events = on_events
        self._make = make
        self._tracer = tracer
        self._sockets: SystemSockets | None = None
        self._driver: MachineDriver[SystemCore] | None = None
        self._checking: asyncio.TimerHandle | None = None

    @property
    def machine(self) -> SystemCore:
        """The machine, after `start`."""
        assert self._driver is not None, "start() makes the machine"
        return self._driver.machine

    @property
    def is_started(self) -> bool:
        """Whether there is a machine."""
        return self._driver is not None

    async def start(self) -> None:
        """Open the sockets and begin to look for other nodes.

        Waits for the interface up to the configured time, then raises ConfigError if it does not
        exist, or ConnectFailed if it cannot be used.
        """
        self._sockets = sockets = await self._open()
        now_ns = monotonic_ns()
        link, room_bytes = self._config.link, sockets.loopback_bytes
        try:
            machine = self._make(
                replace(
                    self._config,
                    control=sockets.address(Channel.CONTROL),
                    data=sockets.address(Channel.DATA),
                    link=link.on_loopback(room_bytes) if room_bytes else link,
                ),
                rng=self._rng,
                now_ns=now_ns,
                wall_offset_ns=wall_ns() - now_ns,
                tracer=self._tracer,
            )
            self._driver = driver = MachineDriver(
                machine, take_input=self._take_input, send=self._send, on_events=self._on_events
            )
            sockets.start(driver.turns, driver.wake)
        except BaseException:
            sockets.close()
            raise
        self._check()
        driver.wake()

    def wake(self) -> None:
        """Send what the machine has to send, in the next iteration of the loop."""
        if self._driver is not None:
            self._driver.wake()

    def probe(self) -> None:
        """Send probes to the known nodes; the network may not divide them."""
        assert self._sockets is not None, "start() opens the sockets"
        self._sockets.send_whole(Channel.CONTROL, self.machine.probe(monotonic_ns()))

    @property
    def mtu(self) -> int:
        """The MTU of the interface of the control channel."""
        assert self._sockets is not None, "start() opens the sockets"
        return self._sockets.mtu(Channel.CONTROL)

    def statistics(self) -> SocketStatistics:
        """The counters of the sockets."""
        assert self._sockets is not None, "start() opens the sockets"
        return self._sockets.statistics()

    async def close(self, *, notice: bool = True) -> None:
        """Leave the system: tell the others, twice because no answer is awaited, and close."""
        driver, sockets = self._driver, self._sockets
        if driver is None or sockets is None:
            return
        try:
            if notice:
                for _ in range(2):
                    driver.machine.stop(monotonic_ns())
                    driver.turn()
                    await asyncio.sleep(_STOP_REPEAT_S)
        finally:
            if self._checking is not None:
                self._checking.cancel()
            driver.close()
            sockets.close()

    # -- inside

    async def _open(self) -> SystemSockets:
        config, network = self._config, self._network
        own_type = config.node_types.named(config.type_name)
        loop = asyncio.get_running_loop()
        end_s = loop.time() + network.interface_timeout_s
        has_waited = False
        while True:
            try:
                return SystemSockets(network, config.node_types, own_type, config.seed_groups)
            except (ConfigError, ConnectFailed) as error:
                if loop.time() >= end_s:
                    raise
                if not has_waited:
                    has_waited = True
                    log.warning("waiting for the network interface", extra={"reason": str(error)})
            await asyncio.sleep(_INTERFACE_RETRY_S)

    def _take_input(self, now_ns: int) -> bool:
        """Pass all control datagrams to the machine, and data for a limited time."""
        sockets, machine = self._sockets, self.machine
        assert sockets is not None
        end_ns = now_ns + _DATA_TURN_NS
        while sockets.has_waiting():
            # Control is first even when it arrives while data is processed.
            for channel in Channel:
                received = sockets.take(channel, _BATCH_COUNT)
                if received:
                    machine.receive_all(received, channel, now_ns)
                    break
            now_ns = monotonic_ns()
            if now_ns >= end_ns:
                return sockets.has_waiting()
        return False

    def _send(self) -> None:
        assert self._sockets is not None
        bursts = self.machine.take_bursts()
        if bursts:
            self._sockets.send(bursts)

    def _check(self) -> None:
        """Look at the interfaces, once a second."""
        assert self._sockets is not None
        self._sockets.check(monotonic_ns())
        self._checking = asyncio.get_running_loop().call_later(_CHECK_S, self._check)
