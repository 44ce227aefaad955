"""The control messages of one sender, as datagrams."""

from __future__ import annotations

from typing import Final

from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.events import SenderInfo
from skerry.protocol.distributor.identity import SenderIdentity
from skerry.protocol.distributor.messages import (
    CONFIGURATION,
    NAK,
    POSITION,
    POSITION_REQUEST,
    RELAYED,
    REQUEST,
    UPDATE,
    WHOLE,
    Configuration,
    DatagramHeader,
    HeartbeatMessage,
    Nak,
    Position,
    PositionRequest,
    RepairRequest,
)
from skerry.protocol.distributor.wire import wire_of

_U32: Final = 0xFFFFFFFF


class ControlMessages:
    def __init__(
        self, identity: SenderIdentity, config: DistributorConfig, *, group: bytes, port: int
    ) -> None:
        self.identity = identity
        self.wire = wire_of(config.dialect)
        self._config = config
        self._group = group
        self._port = port
        self._is_java = self.wire.text_length_bytes == 4

    def data_header(self, flags: int) -> bytes:
        """Return the header of a data datagram, without its numbers."""
        relayed = RELAYED if self._config.is_gateway else 0
        return self.wire.header(self._header(UPDATE, flags | relayed))

    def heartbeat(self, kind: int, last_seq: int) -> bytes:
        """Return a heartbeat, or a goodbye, which has the same fields."""
        return self.wire.encode(
            HeartbeatMessage(
                header=self._header(kind),
                group=self._group,
                port=self._port,
                sender_id=self.identity.sender_id,
                start_ms=self.identity.start_ms if self._is_java else None,
                last_seq=last_seq,
            )
        )

    def configuration(self) -> bytes:
        """Return the announcement of the sender."""
        start_ms = self.identity.start_ms
        return self.wire.encode(
            Configuration(
                header=self._header(CONFIGURATION),
                group=self._group,
                port=self._port,
                sender_id=self.identity.sender_id,
                start=start_ms if self._is_java else start_ms // 1000,
                heartbeat_interval_ms=self._config.heartbeat_interval_ms,
                configuration_interval_ms=self._config.configuration_interval_ms,
                host=self.identity.address,
                application=self._config.application,
            )
        )

    def nak(self, seqs: list[int]) -> bytes:
        """Return the answer that these datagrams are no longer kept."""
        return self.wire.encode(
            Nak(
                header=self._header(NAK),
                group=self._group,
                port=self._port,
                sender_id=self.identity.sender_id,
                seqs=tuple(seqs),
            )
        )

    def position(self, seq: int, span_us: int, first_seq: int, elapsed_us: int) -> bytes:
        """Return the answer to a position request."""
        return self.wire.encode(
            Position(
                header=self._header(POSITION),
                seq=seq,
                span_us=span_us,
                first_seq=first_seq,
                elapsed_us=elapsed_us,
            )
        )

    def request_to(self, other: SenderInfo, first_seq: int, last_seq: int) -> bytes:
        """Return a repair request to another sender."""
        return self.wire.encode(
            RepairRequest(
                header=self._header(REQUEST),
                address=self.identity.address,
                target_id=other.sender_id,
                target_start=other.start & _U32,
                first_seq=first_seq,
                last_seq=last_seq,
                host=self._config.host,
                application=self._config.application,
            )
        )

    def position_request_to(self, other: SenderInfo, seq: int, span_us: int) -> bytes:
        return self.wire.encode(
            PositionRequest(
                header=self._header(POSITION_REQUEST),
                target_id=other.sender_id,
                target_start=other.start & _U32,
                seq=seq,
                span_us=span_us,
            )
        )

    def _header(self, kind: int, flags: int = WHOLE) -> DatagramHeader:
        return DatagramHeader(
            kind=kind,
            flags=flags,
            address=self.identity.address,
            sender_id=self.identity.sender_id,
            start=self.identity.start(self._config.dialect),
            application_id=self.identity.application_id,
        )
