"""The carrier at its node: a client inside the program, by the protocol that all clients speak."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skerry.codec.frame import frame
from skerry.engine.carriage.distributor.headers import HeaderReader
from skerry.engine.node import NodeCore
from skerry.protocol.access.client import EXTENSION_SUBJECTS, Accepted, ClientConnection
from skerry.protocol.access.connection import ConnectionStage, ReceivedFrame
from skerry.protocol.access.header import Header
from skerry.protocol.access.wire import Wire
from skerry.protocol.machine import Address
from skerry.schema.internal import internal_types

__all__ = ["NodeClient"]

_REFUSAL: Final = "SkerryRefusal"


class NodeClient:
    """The way in and out of one node."""

    def __init__(self, core: NodeCore, *, name: str) -> None:
        self._core = core
        self._name = name
        self._client: ClientConnection | None = None
        self._headers = HeaderReader()
        self._out: list[bytes] = []
        self.address: Address | None = None
        """By which the node knows the carrier; None while it is not connected."""
        self.refusal_count = 0
        """How often the node refused what it was given."""

    @property
    def is_open(self) -> bool:
        """Whether the node let the carrier in."""
        return self._client is not None and self._client.stage is ConnectionStage.CONNECTED

    @property
    def client_id(self) -> int:
        """What the node calls the carrier; 0 before it does."""
        return 0 if self._client is None else self._client.client_id

    def opened(self, address: Address) -> None:
        """There is a stream to the node, under this address."""
        self.address = address
        # No secret and no chance: who is inside the node is not asked.
        self._client = ClientConnection(
            Wire(),
            name=self._name,
            cnonce="",
            wants_preload=False,
            extensions=EXTENSION_SUBJECTS,
        )

    def closed(self) -> None:
        """It is gone."""
        self.address = None
        self._client = None
        self._out.clear()

    def hear(self, data: bytes, now_ns: int) -> Iterator[tuple[Header, bytes, int]]:
        """The objects in bytes from the node: header, whole body, and where the object begins."""
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
        """Hand the node a header and an object, with the next `flush`."""
        self._out.append(frame(data))

    def flush(self, now_ns: int) -> None:
        """Let the node have all of it now."""
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
            # Descriptions come, too; the carrier looks types up in the registry of the node.
            self.refusal_count += header.type_name == _REFUSAL
            return
        output = client.take_output()
        if output:
            self._core.receive(output, self.address, now_ns)
        if isinstance(item, Accepted):
            self._core.carry(self.address)
