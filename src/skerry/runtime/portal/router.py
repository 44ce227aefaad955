"""The routers of a portal: pass publications on to subscribers, in a thread.

XPUB faces the subscribers and XSUB the publishers. `ProxyRouter` works in C: Python does not see
what passes. `CheckingRouter` looks at each message.
"""

from __future__ import annotations

import struct
import threading
from dataclasses import replace
from typing import Final

import zmq

from skerry.protocol.portal.router_checks import RouterChecks
from skerry.protocol.portal.statistics import RouterCounters
from skerry.runtime.portal.frame_reader import ZmqSocket

SUBSCRIPTION_COUNT_MAX: Final = 100_000
"""Subscriptions that wait for a publisher that does not read. ZeroMQ drops what exceeds it, so it
is far above what a system has; its usual bound of a thousand is not."""

_COUNTER_COUNT: Final = 8
_TERMINATE: Final = b"TERMINATE"
_ROUND_COUNT_MAX: Final = 200
"""Messages that the checking router takes from one side before it looks at the other."""


class PortalRouter:
    """Base of the routers: a thread that owns the two sockets."""

    def __init__(self, context: zmq.Context[ZmqSocket], xpub: ZmqSocket, xsub: ZmqSocket) -> None:
        """Takes the bound sockets over, which belong to the thread from now on."""
        self._control = context.socket(zmq.PAIR)
        inner = context.socket(zmq.PAIR)
        inner.bind("inproc://router-control")
        self._control.connect("inproc://router-control")
        self._sockets = (xpub, xsub, inner)
        self.fault = ""
        """Why the thread has ended by itself."""
        self._thread = threading.Thread(target=self._run, name="portal-router", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        """End the thread, and close the sockets."""
        if self._thread.is_alive():
            self._control.send(_TERMINATE)
            self._thread.join()
        self._control.close(linger=0)

    def counters(self, wait_ms: int) -> RouterCounters | None:
        """The counters; None if the router does not answer in time."""
        raise NotImplementedError

    def route(self, xpub: ZmqSocket, xsub: ZmqSocket, control: ZmqSocket) -> None:
        """Pass messages on until the control socket receives TERMINATE."""
        raise NotImplementedError

    def _run(self) -> None:
        try:
            self.route(*self._sockets)
        except zmq.ZMQError as error:
            self.fault = str(error)
        finally:
            for socket in self._sockets:
                socket.close(linger=0)


class ProxyRouter(PortalRouter):
    """Passes all publications on."""

    def route(self, xpub: ZmqSocket, xsub: ZmqSocket, control: ZmqSocket) -> None:
        zmq.proxy_steerable(xpub, xsub, None, control)

    def counters(self, wait_ms: int) -> RouterCounters | None:
        control = self._control
        # An answer that was late for the last call is of no use.
        while control.poll(0):
            control.recv_multipart()
        control.send(b"STATISTICS", zmq.NOBLOCK)
        if not control.poll(wait_ms):
            return None
        answer = control.recv_multipart()
        if len(answer) != _COUNTER_COUNT:
            return None
        numbers = [int(struct.unpack("=q", part)[0]) for part in answer]
        # The first four are those of XPUB: subscriptions are received, publications are sent.
        return RouterCounters(
            sent_count=numbers[2],
            sent_bytes=numbers[3],
            received_count=numbers[4],
            received_bytes=numbers[5],
        )


class CheckingRouter(PortalRouter):
    """Passes valid publications and filters on, and drops the others."""

    def __init__(self, context: zmq.Context[ZmqSocket], xpub: ZmqSocket, xsub: ZmqSocket) -> None:
        self._checks = RouterChecks()
        self._counters = RouterCounters()
        super().__init__(context, xpub, xsub)

    def route(self, xpub: ZmqSocket, xsub: ZmqSocket, control: ZmqSocket) -> None:
        poller = zmq.Poller()
        for socket in (xpub, xsub, control):
            poller.register(socket, zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            if xsub in ready:
                self._pass_publications(xsub, xpub)
            if xpub in ready:
                self._pass_filters(xpub, xsub)
            if control in ready and control.recv() == _TERMINATE:
                return

    def counters(self, wait_ms: int) -> RouterCounters | None:
        checks = self._checks
        refused = checks.refused_publications_count + checks.refused_filters_count
        return replace(self._counters, refused_count=refused)

    def _pass_publications(self, xsub: ZmqSocket, xpub: ZmqSocket) -> None:
        count, size, passed_count, passed_size = 0, 0, 0, 0
        for _ in range(_ROUND_COUNT_MAX):
            try:
                parts = xsub.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            count += 1
            frame = parts[0]
            size += len(frame)
            if self._checks.passes(parts):
                xpub.send(frame)
                passed_count += 1
                passed_size += len(frame)
        now = self._counters
        self._counters = RouterCounters(
            received_count=now.received_count + count,
            received_bytes=now.received_bytes + size,
            sent_count=now.sent_count + passed_count,
            sent_bytes=now.sent_bytes + passed_size,
        )

    def _pass_filters(self, xpub: ZmqSocket, xsub: ZmqSocket) -> None:
        for _ in range(_ROUND_COUNT_MAX):
            try:
                parts = xpub.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            if self._checks.filter_passes(parts):
                xsub.send(parts[0])
