"""Frame intake: processes the input of clients, frame by frame.

Most frames have ordinary objects, which the dispatcher forwards without decoding them. All others
are decoded here and passed on: handshake steps to `Handshakes`, messages for the node to
`NodeServices`, invalid input and refused objects to `Disconnection`.
"""

from __future__ import annotations

from typing import Final

from skerry.codec.frame import FrameCutter
from skerry.engine.clients import Client
from skerry.engine.connections.disconnection import Disconnection
from skerry.engine.connections.handshakes import Handshakes
from skerry.engine.connections.input_clock import InputClock
from skerry.engine.dispatch.client_queue import ClientQueue
from skerry.engine.dispatch.dispatcher import Dispatcher
from skerry.engine.dispatch.frame_forwarding import FrameForwarding
from skerry.engine.dispatch.topics import Topic
from skerry.engine.services.node_services import NodeServices
from skerry.engine.types.type_table import TypeTable
from skerry.errors import (
    CodecError,
    DecodeError,
    LimitExceeded,
    ProtocolError,
    Refused,
    SchemaError,
)
from skerry.limits import DELIVERIES_PER_WORK_UNIT
from skerry.objects.times import seconds_of_ns
from skerry.protocol.access.connection import ConnectionBroken, ConnectionEnded, ReceivedFrame
from skerry.protocol.access.header import Header
from skerry.protocol.access.server import ConnectAsked, JoinsFinished

WORK_PER_MESSAGE: Final = 10
"""Work units for a message that the node has to decode, such as a join."""

_BYTES_PER_WORK_UNIT: Final = 1024
_TEXT_BYTES_PER_WORK_UNIT: Final = 64
"""Bytes of a message, and of JSON text, that take one work unit to read."""
_VALUES_PER_WORK_UNIT: Final = 4
"""Values of a large JSON message that take one work unit to read."""


class FrameIntake:
    def __init__(
        self,
        clock: InputClock,
        dispatcher: Dispatcher,
        types: TypeTable,
        services: NodeServices,
        handshakes: Handshakes,
        disconnection: Disconnection,
    ) -> None:
        self._clock = clock
        self._dispatcher = dispatcher
        self._forwarding = FrameForwarding(dispatcher)
        self._types = types
        self._services = services
        self._handshakes = handshakes
        self._disconnection = disconnection
        self.count = 0

    def process(self, client: Client, data: bytes, now_ns: int) -> None:
        """Process input of a client as far as its turn allows; the rest is queued."""
        held = client.input
        if held.is_held:
            held.data.append(data)
        elif client.queue.is_framed or client.queue.is_old:
            self._process_frames(client, data, now_ns)
        else:
            self._process_messages(client, data, now_ns)

    def resume(self, client: Client, now_ns: int) -> bool:
        """Process queued input as far as another turn allows; returns whether it was all."""
        held = client.input
        held.is_held = False
        if held.is_cutting:
            self._cut(client, now_ns)
        elif held.reading is not None:
            self._read_large(client, now_ns)
        elif held.messages or held.fault is not None:
            self._process_read(client, now_ns)
        while held.data and not held.is_held and not client.connection.is_over:
            self.process(client, held.data.popleft(), now_ns)
        return not held.is_held

    def publish(
        self, client: Client, topic: Topic, header: Header, payload: bytes, now_ns: int
    ) -> None:
        """Dispatch an object of a client; the client is disconnected if the object is invalid."""
        wall_ns = self._clock.wall_ns(now_ns)
        now_s = seconds_of_ns(wall_ns)
        fault = self._dispatcher.take(client.queue.source, topic, header, payload, now_s, wall_ns)
        if fault is not None:
            self._disconnection.drop(client, now_ns, f"{topic.name}: {fault}")

    def _process_frames(self, client: Client, data: bytes, now_ns: int) -> None:
        try:
            client.connection.wire.cutter.load(data)
        except DecodeError as error:
            self._disconnection.drop(client, now_ns, str(error))
            return
        client.input.is_cutting = True
        self._cut(client, now_ns)

    def _cut(self, client: Client, now_ns: int) -> None:
        """Process the frames that the cutter has; most are forwarded without being decoded."""
        wire, queue = client.connection.wire, client.queue
        cutter = wire.cutter
        wall_ns = self._clock.wall_ns(now_ns)
        now_s = seconds_of_ns(wall_ns)
        try:
            while True:
                if queue.work_left <= 0 and client.input.can_wait:
                    client.input.is_held = True
                    return
                if client.is_free:
                    if self._dispatch_all(queue, cutter, now_s, wall_ns):
                        if queue.work_left <= 0:
                            # There may be more.
                            queue.work_left = 0 if client.input.can_wait else queue.work_max
                            continue
                        break
                elif not cutter.step():
                    break
                header, payload = wire.read_frame()
                self._process_one(client, header, payload, now_ns)
                if not client.is_present:
                    break
            client.input.is_cutting = False
            self._count_received(client, int(cutter.frame_count))
            if cutter.skipped:
                self._refuse_large(client, now_ns)
            if client.is_present:
                # Raises the fault of bytes that follow complete frames.
                cutter.load(b"")
        except DecodeError as error:
            client.input.is_cutting = False
            self._disconnection.drop(client, now_ns, str(error))

    def _dispatch_all(
        self, queue: ClientQueue, cutter: FrameCutter, now_s: float, wall_ns: int
    ) -> bool:
        """Dispatch frames with ordinary objects; returns whether those were all.

        Otherwise the cutter is at the first frame that has to be decoded.
        """
        try:
            return self._forwarding.take_frames(queue, cutter, now_s, wall_ns)
        except (CodecError, LimitExceeded, ProtocolError, Refused, SchemaError):
            # The caller processes the same frame again, which raises the error where it is
            # reported. An error of the frame's own bytes is not repeated.
            if not cutter.buffer:
                raise
            return False

    def _process_messages(self, client: Client, data: bytes, now_ns: int) -> None:
        """Process input that does not consist of frames."""
        client.input.reading = client.connection.reading(data)
        if client.input.reading is not None:
            self._read_large(client, now_ns)
            return
        arrived, fault = client.connection.feed(data)
        client.queue.work_left -= len(data) // _TEXT_BYTES_PER_WORK_UNIT
        self._count_received(client, len(arrived))
        client.input.messages.extend(arrived)
        client.input.fault = fault
        self._process_read(client, now_ns)

    def _read_large(self, client: Client, now_ns: int) -> None:
        """Read a slice of a large message, and process the message when all of it is read."""
        held, queue = client.input, client.queue
        reading = held.reading
        assert reading is not None
        try:
            while reading.message is None:
                if queue.work_left <= 0:
                    held.is_held = True
                    return
                count = reading.step(int(queue.work_left) * _VALUES_PER_WORK_UNIT)
                queue.work_left -= 1 + count // _VALUES_PER_WORK_UNIT
        except DecodeError as error:
            held.reading = None
            broken = client.connection.broke(error)
            self._disconnection.drop(client, now_ns, f"{broken.message}: {broken.detail}")
            return
        held.reading = None
        held.messages.append(reading.message)
        self._count_received(client, 1)
        self._process_read(client, now_ns)

    def _process_read(self, client: Client, now_ns: int) -> None:
        """Process the messages that were read."""
        held = client.input
        is_first = True
        while held.messages:
            if client.queue.work_left <= 0 and held.can_wait and not is_first:
                held.is_held = True
                return
            is_first = False
            header, payload = held.messages.popleft()
            self._process_one(client, header, payload, now_ns)
            if not client.is_present:
                return
        self._refuse_large(client, now_ns)
        fault, held.fault = held.fault, None
        if fault is not None and client.is_present:
            self._disconnection.drop(client, now_ns, f"{fault.message}: {fault.detail}")

    def _refuse_large(self, client: Client, now_ns: int) -> None:
        """Refuse the frames that were skipped because of their size."""
        for name, size in client.connection.wire.take_skipped():
            if client.is_present:
                self._disconnection.refuse_large(client, name, size, now_ns)

    def _count_received(self, client: Client, count: int) -> None:
        client.received_count += count
        self.count += count

    def _process_one(self, client: Client, header: Header, payload: bytes, now_ns: int) -> None:
        """Process a frame that the dispatcher does not handle alone."""
        queue, dispatcher = client.queue, self._dispatcher
        queue.work_left -= WORK_PER_MESSAGE + len(payload) // _BYTES_PER_WORK_UNIT
        work = dispatcher.work
        self._understand(client, header, payload, now_ns)
        queue.work_left -= (dispatcher.work - work) // DELIVERIES_PER_WORK_UNIT

    def _understand(self, client: Client, header: Header, payload: bytes, now_ns: int) -> None:
        item = client.connection.understand(header, payload)
        if isinstance(item, ReceivedFrame):
            self._object_received(client, header, payload, now_ns)
        elif isinstance(item, ConnectAsked):
            self._handshakes.connect_received(client, item, now_ns)
        elif isinstance(item, JoinsFinished):
            client.when_caught_up(
                lambda _: self._handshakes.finish_preload(client), self._clock.wall_s(now_ns)
            )
        elif isinstance(item, ConnectionEnded):
            if item.code == 0:
                self._disconnection.goodbye_received(client, now_ns)
            else:
                why = f"received DOTS error: ({item.code}) {item.text}"
                self._disconnection.drop(client, now_ns, why)
        else:
            assert isinstance(item, ConnectionBroken)
            self._disconnection.drop(client, now_ns, f"{item.message}: {item.detail}")

    def _object_received(self, client: Client, header: Header, payload: bytes, now_ns: int) -> None:
        """Check an object, and pass it to the service for its type or to the dispatcher."""
        name = header.type_name
        disconnection = self._disconnection
        try:
            topic = self._types.topic(name)
            if topic is None and name in client.connection.received:
                # The client described the type but has no permission to use it.
                disconnection.refuse(client, _verb(header), f"{name}: not permitted", now_ns)
                return
            if topic is None:
                disconnection.drop(client, now_ns, f"there is no type {name}")
                return
            if topic.type.flags.substruct_only:
                disconnection.drop(client, now_ns, f"{name} is only for use inside other structs")
                return
            if not self._services.is_permitted(client, topic, header, payload, now_ns):
                return
            if self._services.serve(client, topic, header, payload, now_ns):
                return
            doubtful = client.queue.source.doubtful_types
            if doubtful is not None and name in doubtful:
                conflict = self._services.type_descriptions.refusal(client, name, now_ns)
                if conflict is not None:
                    disconnection.refuse(client, _verb(header), conflict, now_ns)
                    return
                topic = self._types.topic(name)
                assert topic is not None
            self.publish(client, topic, header, payload, now_ns)
        except LimitExceeded as error:
            disconnection.refuse(client, _verb(header), f"{name}: {error}", now_ns)
        except Refused as error:
            disconnection.refuse(client, _verb(header), str(error), now_ns)
        except (CodecError, ProtocolError, SchemaError) as error:
            disconnection.drop(client, now_ns, str(error))


_VERBS = {
    "DotsAuthentication": "administer",
    "DotsAuthenticationPolicy": "administer",
    "DotsMember": "subscribe",
    "EnumDescriptorData": "describe",
    "StructDescriptorData": "describe",
}


def _verb(header: Header) -> str:
    """The verb of a refused request, by which refusals are counted."""
    return _VERBS.get(header.type_name, "remove" if header.remove_obj == 1 else "publish")
