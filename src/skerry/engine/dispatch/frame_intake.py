"""The way in: what a client sends, frame by frame, and who deals with it.

Most of it is ordinary objects, which the hub takes unread. What is more than that is understood
here: a step of the handshake, a message to the node, an object that is not permitted, a fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skerry.codec.frame import FrameCutter
from skerry.engine.clients import Client
from skerry.engine.dispatch.client_queue import ClientQueue
from skerry.engine.dispatch.dispatcher import Dispatcher
from skerry.engine.services.node_services import NodeServices
from skerry.engine.types.node_types import NodeTypes
from skerry.errors import (
    CodecError,
    DecodeError,
    LimitExceeded,
    ProtocolError,
    Refused,
    SchemaError,
)
from skerry.limits import DELIVERIES_PER_LOOK
from skerry.objects.times import seconds_of_ns
from skerry.protocol.access.connection import ConnectionBroken, ConnectionEnded, ReceivedFrame
from skerry.protocol.access.header import Header
from skerry.protocol.access.server import ConnectAsked, JoinsFinished

if TYPE_CHECKING:
    from skerry.engine.node import NodeCore

__all__ = ["LOOKS_PER_MESSAGE", "FrameIntake"]

LOOKS_PER_MESSAGE: Final = 10
"""Looks that a message counts for which the node has to decode, such as a join."""

_BYTES_PER_LOOK: Final = 1024
_TEXT_BYTES_PER_LOOK: Final = 64
_UNITS_PER_LOOK: Final = 4
"""Bytes of a message, or of JSON text, that take as long to read as examining one object
takes."""


class FrameIntake:
    """Everything that clients send to a node."""

    def __init__(
        self, node: NodeCore, hub: Dispatcher, types: NodeTypes, services: NodeServices
    ) -> None:
        self._node = node
        self._hub = hub
        self._types = types
        self._services = services
        self.count = 0
        """Transmissions of all clients."""

    def take(self, client: Client, data: bytes, now_ns: int) -> None:
        """Process input of a client, as far as its turn allows; the rest is queued."""
        waiting = client.input
        if waiting.is_held:
            waiting.data.append(data)
        elif client.lane.is_framed or client.lane.is_old:
            self._take_frames(client, data, now_ns)
        else:
            self._take_messages(client, data, now_ns)

    def go_on(self, client: Client, now_ns: int) -> bool:
        """Process queued input, as far as another turn of the client allows; whether it was all."""
        waiting = client.input
        waiting.is_held = False
        if waiting.is_cutting:
            self._cut(client, now_ns)
        elif waiting.reading is not None:
            self._read_on(client, now_ns)
        elif waiting.messages or waiting.fault is not None:
            self._work_off(client, now_ns)
        while waiting.data and not waiting.is_held and not client.connection.is_over:
            self.take(client, waiting.data.popleft(), now_ns)
        return not waiting.is_held

    def _take_frames(self, client: Client, data: bytes, now_ns: int) -> None:
        """Process frames; most are forwarded without being decoded."""
        try:
            client.connection.wire.cutter.load(data)
        except DecodeError as error:
            self._node.drop(client, now_ns, str(error))
            return
        client.input.is_cutting = True
        self._cut(client, now_ns)

    def _cut(self, client: Client, now_ns: int) -> None:
        """Process the frames that the cutter has."""
        wire, lane = client.connection.wire, client.lane
        cutter = wire.cutter
        wall_ns = self._node.wall_ns(now_ns)
        now_s = seconds_of_ns(wall_ns)
        try:
            while True:
                if lane.looks <= 0 and client.input.can_wait:
                    client.input.is_held = True
                    return
                if client.is_free:
                    if self._have_all_gone(lane, cutter, now_s, wall_ns):
                        if lane.looks <= 0:
                            # There may be more.
                            lane.looks = 0 if client.input.can_wait else lane.look_count_max
                            continue
                        break
                elif not cutter.step():
                    break
                header, payload = wire.read_frame()
                self._take_one(client, header, payload, now_ns)
                if not client.is_present:
                    break
            client.input.is_cutting = False
            self._count_received(client, int(cutter.frame_count))
            if cutter.skipped:
                self._refuse_large(client, now_ns)
            if client.is_present:
                # A fault behind whole frames is told when asked again.
                cutter.load(b"")
        except DecodeError as error:
            client.input.is_cutting = False
            self._node.drop(client, now_ns, str(error))

    def _have_all_gone(
        self, lane: ClientQueue, cutter: FrameCutter, now_s: float, wall_ns: int
    ) -> bool:
        """Whether all frames were of objects that need no look of the node; else the cutter is
        at the first that does."""
        try:
            return self._hub.take_frames(lane, cutter, now_s, wall_ns)
        except (CodecError, LimitExceeded, ProtocolError, Refused, SchemaError):
            # Taken again by who called, where the fault is told. One of the frame itself is not.
            if not cutter.buffer:
                raise
            return False

    def _take_messages(self, client: Client, data: bytes, now_ns: int) -> None:
        """Process input that does not consist of frames."""
        client.input.reading = client.connection.reading(data)
        if client.input.reading is not None:
            self._read_on(client, now_ns)
            return
        arrived, fault = client.connection.feed(data)
        client.lane.looks -= len(data) // _TEXT_BYTES_PER_LOOK
        self._count_received(client, len(arrived))
        client.input.messages.extend(arrived)
        client.input.fault = fault
        self._work_off(client, now_ns)

    def _read_on(self, client: Client, now_ns: int) -> None:
        """Read more of a large message, and process it when all of it is read."""
        waiting, lane = client.input, client.lane
        reading = waiting.reading
        assert reading is not None
        try:
            while reading.message is None:
                if lane.looks <= 0:
                    waiting.is_held = True
                    return
                count = reading.step(int(lane.looks) * _UNITS_PER_LOOK)
                lane.looks -= 1 + count // _UNITS_PER_LOOK
        except DecodeError as error:
            waiting.reading = None
            broken = client.connection.broke(error)
            self._node.drop(client, now_ns, f"{broken.message}: {broken.detail}")
            return
        waiting.reading = None
        waiting.messages.append(reading.message)
        self._count_received(client, 1)
        self._work_off(client, now_ns)

    def _work_off(self, client: Client, now_ns: int) -> None:
        waiting = client.input
        is_first = True
        while waiting.messages:
            if client.lane.looks <= 0 and waiting.can_wait and not is_first:
                waiting.is_held = True
                return
            is_first = False
            header, payload = waiting.messages.popleft()
            self._take_one(client, header, payload, now_ns)
            if not client.is_present:
                return
        self._refuse_large(client, now_ns)
        fault, waiting.fault = waiting.fault, None
        if fault is not None and client.is_present:
            self._node.drop(client, now_ns, f"{fault.message}: {fault.detail}")

    def _refuse_large(self, client: Client, now_ns: int) -> None:
        """Reject the frames that were skipped because of their size."""
        for name, size in client.connection.wire.take_skipped():
            if client.is_present:
                self._node.refuse_large(client, name, size, now_ns)

    def _count_received(self, client: Client, count: int) -> None:
        client.received_count += count
        self.count += count

    def _take_one(self, client: Client, header: Header, payload: bytes, now_ns: int) -> None:
        """Process a transmission that the hub does not handle alone; counts as several looks."""
        client.lane.looks -= LOOKS_PER_MESSAGE + len(payload) // _BYTES_PER_LOOK
        work = self._hub.work
        self._understand(client, header, payload, now_ns)
        client.lane.looks -= (self._hub.work - work) // DELIVERIES_PER_LOOK

    def _understand(self, client: Client, header: Header, payload: bytes, now_ns: int) -> None:
        item = client.connection.understand(header, payload)
        if isinstance(item, ReceivedFrame):
            self._arrived(client, header, payload, now_ns)
        elif isinstance(item, ConnectAsked):
            self._node.introduced(client, item, now_ns)
        elif isinstance(item, JoinsFinished):
            client.when_caught_up(lambda _: self._node.joined(client), self._node.wall_s(now_ns))
        elif isinstance(item, ConnectionEnded):
            if item.code == 0:
                self._node.goodbye(client, now_ns)
            else:
                self._node.drop(client, now_ns, f"received DOTS error: ({item.code}) {item.text}")
        else:
            assert isinstance(item, ConnectionBroken)
            self._node.drop(client, now_ns, f"{item.message}: {item.detail}")

    def _arrived(self, client: Client, header: Header, payload: bytes, now_ns: int) -> None:
        """Act on an object."""
        name = header.type_name
        try:
            topic = self._types.topic(name)
            if topic is None and name in client.connection.received:
                # The client described the type but has no permission to use it.
                self._node.refuse(client, _verb(header), f"{name}: not permitted", now_ns)
                return
            if topic is None:
                self._node.drop(client, now_ns, f"there is no type {name}")
                return
            if topic.type.flags.substruct_only:
                self._node.drop(client, now_ns, f"{name} is only for use inside other structs")
                return
            if not self._services.is_permitted(client, topic, header, payload, now_ns):
                return
            if self._services.serve(client, topic, header, payload, now_ns):
                return
            doubtful = client.lane.doubtful_types
            if doubtful is not None and name in doubtful:
                conflict = self._services.definition_refusal(client, name, now_ns)
                if conflict is not None:
                    self._node.refuse(client, _verb(header), conflict, now_ns)
                    return
                topic = self._types.topic(name)
                assert topic is not None
            self._node.take(client, topic, header, payload, now_ns)
        except LimitExceeded as error:
            self._node.refuse(client, _verb(header), f"{name}: {error}", now_ns)
        except Refused as error:
            self._node.refuse(client, _verb(header), str(error), now_ns)
        except (CodecError, ProtocolError, SchemaError) as error:
            self._node.drop(client, now_ns, str(error))


_VERBS = {
    "DotsAuthentication": "administer",
    "DotsAuthenticationPolicy": "administer",
    "DotsMember": "subscribe",
    "EnumDescriptorData": "describe",
    "StructDescriptorData": "describe",
}


def _verb(header: Header) -> str:
    """What a client wanted by a transmission, in one of few words."""
    return _VERBS.get(header.type_name, "remove" if header.remove_obj == 1 else "publish")
