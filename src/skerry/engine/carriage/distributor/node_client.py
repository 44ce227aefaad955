"""The connection of a carriage to its node: a client inside the program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skerry.codec.frame import frame
from skerry.engine.node import NodeCore
from skerry.protocol.access.client import EXTENSION_SUBJECTS, Accepted, ClientConnection
from skerry.protocol.access.connection import ReceivedFrame
from skerry.protocol.access.handshake import ConnectionStage
from skerry.protocol.access.header import Header
from skerry.protocol.access.header_repeats import HeaderReader
from skerry.protocol.access.wire import Wire
from skerry.protocol.machine import Address
from skerry.schema.internal import internal_types

_REFUSAL: Final = "SkerryRefusal"


class NodeClient:
    def __init__(self, core: NodeCore, *, name: str) -> None:
        self._core = core
        self._name = name
        self._client: ClientConnection | None = None
        self._headers = HeaderReader()
        self._out: list[bytes] = []
        self.address: Address | None = None
        """The address of the stream at the node; None while there is no stream."""
        self.refusal_count = 0
        """Messages that the node refused."""

    @property
    def is_open(self) -> bool:
        return self._client is not None and self._client.stage is ConnectionStage.CONNECTED

    @property
    def client_id(self) -> int:
        """The client id of the carriage; 0 before the handshake."""
        return 0 if self._client is None else self._client.client_id

    def opened(self, address: Address) -> None:
        """Start the handshake on a new stream, which has this address at the node."""
        self.address = address
        # A client inside the program gets no challenge, so it needs no secret or random number.
        self._client = ClientConnection(
            Wire(),
            name=self._name,
            cnonce="",
            wants_preload=False,
            extensions=EXTENSION_SUBJECTS,
        )

    def closed(self) -> None:
        """The stream was closed."""
        self.address = None
        self._client = None
        self._out.clear()

    def read(self, data: bytes, now_ns: int) -> Iterator[tuple[Header, bytes, int]]:
        """The updates in bytes from the node: header, whole body, and offset of the object."""
        client = self._client
        assert client is not None
        cutter = client.wire.cutter
        cutter.load(data)
        while cutter.step():
            body = cutter.body()
            header, at = self._headers.read(body)
            if header.type_name not in internal_types():
                yield header, body, at
            elif self._client is client:
                self._understand(client, header, body[at:], now_ns)

    def put(self, data: bytes) -> None:
        """Send a header and an object to the node with the next `flush`."""
        self._out.append(frame(data))

    def flush(self, now_ns: int) -> None:
        """Send everything that was put to the node now."""
        if self._out and self.address is not None:
            data = b"".join(self._out)
            self._out.clear()
            self._core.receive(data, self.address, now_ns)

    def _understand(
        self, client: ClientConnection, header: Header, payload: bytes, now_ns: int
    ) -> None:
        assert self.address is not None
        item = client.understand(header, payload, self._core.wall_s(now_ns))
        if isinstance(item, ReceivedFrame):
            # Type descriptions are ignored: the carriage uses the registry of the node.
            self.refusal_count += header.type_name == _REFUSAL
            return
        output = client.take_output()
        if output:
            self._core.receive(output, self.address, now_ns)
        if isinstance(item, Accepted):
            self._core.carry(self.address)
