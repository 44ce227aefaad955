"""Nodes as parameter lists: the messages of discovery."""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import Final

from skerry.errors import DecodeError
from skerry.protocol.machine import Address
from skerry.protocol.rtps.entities import PARTICIPANT, VENDOR, Channel, guid_prefix, node_of
from skerry.protocol.rtps.parameters import (
    locator,
    locator_address,
    parameter_list,
    read_parameters,
    read_text,
    text,
)

__all__ = [
    "NODE_NAME_CHAR_COUNT_MAX",
    "DiscoveryKind",
    "DiscoveryMessage",
    "NodeDescription",
    "SystemStanding",
]

NODE_NAME_CHAR_COUNT_MAX: Final = 100
"""Of the name of a node, so that a description fits a datagram."""

_VERSION: Final = b"\x02\x02"
_DATA_LOCATOR: Final = 0x0031
_CONTROL_LOCATOR: Final = 0x0032
_PROTOCOL_VERSION: Final = 0x0015
_VENDOR_ID: Final = 0x0016
_GUID: Final = 0x0050
_ENDPOINTS: Final = 0x0058
_NAME: Final = 0x0062
_KIND: Final = 0x8001
_TYPE: Final = 0x8002
_SENT_TO: Final = 0x8003
_PACKET: Final = 0x8004
_SYSTEM: Final = 0x8005
_REASON: Final = 0x8006
_INCARNATION: Final = 0x8007
_SIZE: Final = 0x8008
_ELECTED: Final = 0x8009
_PROBE: Final = 0x800A

_I64: Final = struct.Struct("<q")
_U32: Final = struct.Struct("<I")
_PAIR: Final = struct.Struct("<II")


class DiscoveryKind(enum.IntEnum):
    """What a message of discovery is."""

    DISCOVER = 1
    """The sender introduces itself and asks for nodes."""
    SELF = 2
    """An answer: the sender itself."""
    OTHER = 3
    """In an answer: a node from which the sender has received."""
    SEED = 4
    """In an answer: an address that the sender knows from its settings or from another node."""
    REFUSAL = 5
    """The addressee is excluded by the sender."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDescription:
    """The description of a node that it sends to others."""

    node: int
    name: str
    type_id: int
    control: Address
    data: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemStanding:
    """The system of a node that refuses another one. It is sent with the refusal, so that the
    smaller one of two halves of a system can leave."""

    incarnation_id: int
    size: int
    """How many nodes are alive."""
    elected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryMessage:
    """One message; which fields it has depends on its kind."""

    kind: DiscoveryKind
    node: NodeDescription | None = None
    """The node that it is about. Without addresses in a refusal; None for a seed."""
    seed: Address | None = None
    sent_to: int | None = None
    """The id under which the addressee was contacted."""
    packet: int = 0
    packet_count: int = 1
    system: int | None = None
    reason: int = 0
    standing: SystemStanding | None = None
    """In a refusal: the system of the sender; None if it belongs to none."""
    probe_bytes: int | None = None
    """Padding of a probe, which is answered without a list of nodes; None in other messages."""

    def encode(self) -> bytes:
        kind, node = self.kind, self.node
        parameters = [(_KIND, _U32.pack(kind))]
        if node is not None:
            parameters += [
                (_PROTOCOL_VERSION, _VERSION),
                (_VENDOR_ID, VENDOR),
                (_GUID, guid_prefix(node.node, Channel.CONTROL) + PARTICIPANT.to_bytes(4, "big")),
                (_ENDPOINTS, bytes(4)),
                (_TYPE, _I64.pack(node.type_id)),
                (_NAME, text(node.name)),
            ]
        if node is not None and kind is not DiscoveryKind.REFUSAL:
            parameters.append((_CONTROL_LOCATOR, locator(node.control)))
            parameters.append((_DATA_LOCATOR, locator(node.data)))
        if self.seed is not None:
            parameters.append((_CONTROL_LOCATOR, locator(self.seed)))
        if self.sent_to is not None:
            parameters.append((_SENT_TO, _I64.pack(self.sent_to)))
        if kind is DiscoveryKind.SELF:
            parameters.append((_PACKET, _PAIR.pack(self.packet, self.packet_count)))
        if kind is DiscoveryKind.REFUSAL:
            parameters.append((_REASON, _U32.pack(self.reason)))
        if self.standing is not None:
            parameters.append((_INCARNATION, _I64.pack(self.standing.incarnation_id)))
            parameters.append((_SIZE, _U32.pack(self.standing.size)))
            parameters.append((_ELECTED, _I64.pack(self.standing.elected)))
        if self.system is not None:
            parameters.append((_SYSTEM, _I64.pack(self.system)))
        if self.probe_bytes is not None:
            parameters.append((_PROBE, bytes(self.probe_bytes)))
        return parameter_list(parameters)

    @staticmethod
    def decode(payload: bytes) -> DiscoveryMessage:
        """Return the message in a payload. Raises DecodeError if it is malformed."""
        found = read_parameters(payload)
        try:
            return _message(found)
        except (KeyError, ValueError, struct.error) as error:
            detail = f"a parameter is missing or malformed: {error}"
            raise DecodeError(type_name="Discovery", detail=detail) from error


_NOWHERE: Final = Address("")
_ABOUT_SENDER: Final = (DiscoveryKind.DISCOVER, DiscoveryKind.SELF, DiscoveryKind.REFUSAL)


def _message(found: dict[int, bytes]) -> DiscoveryMessage:
    kind = DiscoveryKind(_U32.unpack(found[_KIND])[0])
    if kind is DiscoveryKind.SEED:
        return DiscoveryMessage(kind=kind, seed=locator_address(found[_CONTROL_LOCATOR]))
    has_addresses = kind is not DiscoveryKind.REFUSAL
    node = NodeDescription(
        node=node_of(found[_GUID][:12]),
        name=read_text(found[_NAME])[:NODE_NAME_CHAR_COUNT_MAX],
        type_id=_I64.unpack(found[_TYPE])[0],
        control=locator_address(found[_CONTROL_LOCATOR]) if has_addresses else _NOWHERE,
        data=locator_address(found[_DATA_LOCATOR]) if has_addresses else _NOWHERE,
    )
    packet, packet_count = 0, 1
    if kind is DiscoveryKind.SELF:
        packet, packet_count = _PAIR.unpack(found[_PACKET])
        if packet >= packet_count:
            raise ValueError(f"packet {packet} of {packet_count}")
    is_asked = kind in (DiscoveryKind.DISCOVER, DiscoveryKind.SELF)
    return DiscoveryMessage(
        kind=kind,
        node=node,
        sent_to=_I64.unpack(found[_SENT_TO])[0] if is_asked else None,
        packet=packet,
        packet_count=packet_count,
        system=_I64.unpack(found[_SYSTEM])[0] if kind in _ABOUT_SENDER else None,
        reason=_U32.unpack(found[_REASON])[0] if kind is DiscoveryKind.REFUSAL else 0,
        standing=_standing(found) if _INCARNATION in found else None,
        probe_bytes=len(found[_PROBE]) if _PROBE in found else None,
    )


def _standing(found: dict[int, bytes]) -> SystemStanding:
    return SystemStanding(
        incarnation_id=_I64.unpack(found[_INCARNATION])[0],
        size=_U32.unpack(found[_SIZE])[0],
        elected=_I64.unpack(found[_ELECTED])[0],
    )
