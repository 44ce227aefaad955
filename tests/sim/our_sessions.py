"""Sessions for fuzzing that use the additions of skerry: claims and requests.

No captures of them exist, so they are made with the machine of a client, in each framing that has
the additions.
"""

from __future__ import annotations

from typing import Any

from skerry.objects.classes import class_of
from skerry.objects.internal import internal_class
from skerry.protocol.access.connection import AccessConnection
from skerry.protocol.access.json.wire import JsonWire, cut_messages
from skerry.protocol.access.wire import Wire
from skerry.schema.check import define
from skerry.schema.internal import internal_types
from tests.captured_sessions import CapturedSession, Framing

__all__ = ["our_sessions"]

_TYPES = {
    type_.name: type_
    for type_ in define(
        """
        struct FuzzQuestion [cached=false] { 1: string text; 2: uint32 number; }
        struct FuzzBoat { 1: [key] uint32 id; 2: string name; }
        """,
        file="fuzz.dots",
    ).types
}
_NAMES = ("", "router", "router 2")


def our_sessions() -> list[CapturedSession]:
    """One session of each framing."""
    return [_session("v2", Wire()), _session("json", JsonWire(internal_types() | _TYPES))]


def _session(framing: Framing, wire: Wire) -> CapturedSession:
    connection = AccessConnection(wire)
    pieces: list[bytes] = []

    def send(name: str, **fields: Any) -> None:
        connection.send_message(internal_class(name)(**fields), 1.0)
        data = connection.take_output()
        pieces.extend([data] if framing == "v2" else cut_messages(data))

    send("DotsMsgConnect", clientName="claims", preloadCache=False, extensions=3)
    for type_ in _TYPES.values():
        connection.describe(type_, 1.0)
        data = connection.take_output()
        pieces.extend([data] if framing == "v2" else cut_messages(data))
    _send_claims(send)
    _send_requests(send)
    return CapturedSession(name=f"claims-{framing}", framing=framing, pieces=tuple(pieces))


def _send_claims(send: Any) -> None:
    events = internal_class("SkerryClaimEvent")
    boat = class_of(_TYPES["FuzzBoat"])(id=7).encode()
    for number, name in enumerate(_NAMES):
        event = events["standby" if number == 1 else "claim"]
        send("SkerryClaim", number=number, event=event, typeName="FuzzQuestion", handler=name)
    send("SkerryClaim", number=10, event=events["claim"], typeName="FuzzBoat", object=boat)
    send("SkerryClaim", number=11, event=events["claim"], typeName="FuzzBoat")
    send("SkerryClaim", number=12, event=events["standby"], typeName="FuzzBoat", object=boat)
    send("SkerryClaim", number=10, event=events["release"])


def _send_requests(send: Any) -> None:
    question = class_of(_TYPES["FuzzQuestion"])(text="where?", number=3).encode()
    outcomes = internal_class("SkerryOutcome")
    for number in range(6):
        send(
            "SkerryRequest",
            number=number,
            typeName="FuzzQuestion",
            handler=_NAMES[number % len(_NAMES)],
            object=question,
            timeout=0.01 * number + 0.01,
        )
    # The numbers of the node depend on earlier requests. Some of these will match.
    for number in range(1, 5):
        send(
            "SkerryResponse",
            number=number,
            outcome=outcomes["answered" if number % 2 else "failed"],
            typeName="FuzzQuestion",
            object=question,
        )
