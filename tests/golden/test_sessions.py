"""Captured sessions of real DOTS programs, played against our node: it says what the host said.

Times, and the ids that the host happened to give, are left out of the comparison; everything else
is compared, the order of frames included. What other guests had done before, or did meanwhile, is
done by guests of our own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import skerry
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.origins import Origin
from skerry.engine.admission.permissions import PermissionRule
from skerry.engine.node import NodeCore
from skerry.objects.classes import class_of
from skerry.objects.descriptors import from_description
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import ClientConnection
from skerry.protocol.access.header import NEVER, Header
from skerry.protocol.access.wire import OldWire, Wire
from skerry.protocol.machine import Address, CloseReason, Disconnect

VECTORS = Path(__file__).parent / "dots"
CAPTURED = Address("captured", 1, is_stream=True)
RAW_THING = skerry.define_types(
    "struct RawThing { 1: [key] uint32 id; 2: string text; 3: float64 value; }"
).RawThing
GOLDEN = skerry.define_types((VECTORS / "golden.dots").read_text())


HERE = Origin(kind="tcp", host="127.0.0.1")
UNGUARDED = AdmissionConfig(permission=(PermissionRule(verbs=("all",), network="local"),))
"""The real host permits everything to all clients."""


class Drawn(Random):
    """Draws the number that the real host drew."""

    def __init__(self, number: int) -> None:
        super().__init__(0)
        self._number = number

    def getrandbits(self, k: int, /) -> int:
        return self._number


class Play:
    """A node, the captured client's stream to it, and guests."""

    def __init__(self, framing: str, *, challenge: int = 0) -> None:
        self.node = NodeCore(
            name="dotsd",
            wall_offset_ns=1_700_000_000_000_000_000,
            admission=Admission(UNGUARDED, rng=Drawn(challenge)),
            extensions=False,
        )
        self.now_ns = 0
        self.heard: list[tuple[Header, bytes]] = []
        self.is_closed = False
        self._wire: Callable[[], Wire] = Wire if framing == "v2" else OldWire
        self._ear = self._wire()
        self._guests: dict[Address, ClientConnection] = {}

    def open(self) -> None:
        self.node.open(CAPTURED, self._wire(), self.now_ns, origin=HERE)
        self.pump()

    def say(self, data: bytes) -> None:
        self.now_ns += 1_000_000
        self.node.receive(data, CAPTURED, self.now_ns)
        self.pump()

    def pump(self) -> None:
        for transmit in self.node.take_transmits():
            if transmit.destination != CAPTURED:
                if not isinstance(transmit, Disconnect):
                    self._guests[transmit.destination].receive(transmit.data, 0.0)
            elif isinstance(transmit, Disconnect):
                self.is_closed = True
            else:
                self.heard += self._ear.feed(transmit.data)
        for address, guest in self._guests.items():
            if guest.out_bytes:
                self.now_ns += 1_000_000
                self.node.receive(guest.take_output(), address, self.now_ns)

    def guest(self, name: str, *, wants_preload: bool = False) -> Address:
        address = Address(name, 100 + len(self._guests), is_stream=True)
        self._guests[address] = ClientConnection(
            Wire(), name=name, cnonce="", wants_preload=wants_preload
        )
        self.node.open(address, Wire(), self.now_ns, origin=HERE)
        for _ in range(3):
            self.pump()
        if wants_preload:
            self._guests[address].finish_joins(0.0)
            self.pump()
            self.pump()
        return address

    def publish(self, address: Address, obj: skerry.Struct) -> None:
        guest = self._guests[address]
        header = Header(obj.descriptor.name)
        header.sent_time = 1.0
        header.attributes = int(obj.attributes)
        header.remove_obj = 0
        guest.send(header, obj.encode(), obj.descriptor, 0.0)
        self.pump()

    def describe(self, address: Address, *classes: type[skerry.Struct]) -> None:
        for cls in classes:
            self._guests[address].describe(cls.descriptor, 0.0)
        self.pump()

    def leave(self, address: Address) -> None:
        self._guests[address].end(0.0)
        self.pump()

    def vanish(self, address: Address) -> None:
        """The stream of a guest is gone, without a word."""
        self._guests[address].take_output()
        self.node.stream_closed(address, CloseReason.LOST, self.now_ns)
        self.pump()

    def wait(self, seconds: float) -> None:
        self.now_ns += int(seconds * 1e9)
        self.node.advance(self.now_ns)
        self.pump()

    def next_client(self, frames: list[dict[str, Any]]) -> None:
        """Let the next client have the number that it had then: it speaks of itself by that."""
        answers = [frame.get("payload") or {} for frame in frames]
        number = next((answer["clientId"] for answer in answers if "clientId" in answer), 0)
        self.node._table.next_id = max(self.node._table.next_id, number)

    def captured_guest(self, name: str) -> None:
        """Another guest does what the client of another captured session did."""
        address = Address(name, 200, is_stream=True)
        self.next_client(json.loads((VECTORS / f"{name}.json").read_text())["frames"])
        self._guests[address] = ClientConnection(Wire(), name=name, cnonce="")
        self.node.open(address, Wire(), self.now_ns, origin=HERE)
        self.node.take_transmits()
        for data in client_frames(name):
            self.now_ns += 1_000_000
            self.node.receive(data, address, self.now_ns)
            self._guests[address].take_output()
            self.pump()


Step = Callable[[Play], None]


def play(
    name: str, *, before: Step | None = None, meanwhile: dict[int, Step] | None = None
) -> Play:
    """The captured client's part of a session; `meanwhile` is done before its n-th frame."""
    session = json.loads((VECTORS / f"{name}.json").read_text())
    hello = session["frames"][0]["payload"]
    stage = Play(session["framing"], challenge=hello["authChallenge"])
    if before is not None:
        before(stage)
    stage.heard.clear()
    stage.next_client(session["frames"])
    stage.open()
    for frame in session["frames"]:
        if step := (meanwhile or {}).get(frame.get("n", -1)):
            step(stage)
        if "hex" in frame and frame["dir"] == "client->server":
            stage.say(bytes.fromhex(frame["hex"]))
    return stage


def client_frames(name: str) -> list[bytes]:
    session = json.loads((VECTORS / f"{name}.json").read_text())
    frames = session["frames"]
    return [bytes.fromhex(f["hex"]) for f in frames if "hex" in f and f["dir"] == "client->server"]


def said(name: str) -> list[tuple[Header, bytes]]:
    """What the real host said."""
    session = json.loads((VECTORS / f"{name}.json").read_text())
    wire = Wire() if session["framing"] == "v2" else OldWire()
    frames = [f for f in session["frames"] if "hex" in f and f["dir"] == "server->client"]
    return [item for frame in frames for item in wire.feed(bytes.fromhex(frame["hex"]))]


def comparable(header: Header, payload: bytes) -> dict[str, Any]:
    cls = INTERNAL.get(header.type_name)
    content: Any = payload
    if cls is not None:
        content = json.loads(cls.decode(payload).to_json())
        # Ids are as many as clients came; texts of errors are free; times are of that day.
        for key in ("clientId", "id", "errorText"):
            if key in content:
                content[key] = "..."
    return {
        "type": header.type_name,
        "attributes": int(header.attributes),
        "sender": int(header.sender) if header.sender <= 1 else "a client",
        "from_cache": int(header.from_cache),
        "remove": int(header.remove_obj),
        "from_myself": int(header.is_from_myself),
        "has_times": (header.sent_time != NEVER, header.server_sent_time != NEVER),
        "content": content,
    }


INTERNAL = {
    name: internal_class(name) for name in ("DotsMsgConnectResponse", "DotsClient", "DotsMsgError")
}


def one_thing(stage: Play) -> None:
    stage.publish(stage.guest("other"), RAW_THING(id=1, text="x", value=0.5))


def two_things(stage: Play) -> None:
    one_thing(stage)
    stage.publish(stage.guest("more"), RAW_THING(id=7, text="not seen", value=7.0))


def notes(stage: Play) -> None:
    guest = stage.guest("other")
    stage.publish(guest, RAW_THING(id=1, text="n1"))
    stage.publish(guest, RAW_THING(id=2, text="n2"))


def vanished_client(stage: Play) -> None:
    stage.vanish(stage.guest("raw-nopreload"))


def golden_object(stage: Play) -> None:
    """What is left of the session publish-all-types."""
    guest = stage.guest("golden-all", wants_preload=True)
    number = stage.node._table.next_id - 1
    stage.publish(guest, internal_class("DotsClient")(id=number, running=True))
    obj = GOLDEN.GoldenAll(id=2, name="second", f32=0.0, f64=float("inf"))
    stage.publish(guest, obj)
    stage.leave(guest)


def vanished_client_and_golden_object(stage: Play) -> None:
    vanished_client(stage)
    golden_object(stage)


def roundtrip_type(stage: Play) -> None:
    session = json.loads((VECTORS / "dynamic-publish-client.json").read_text())
    (frame,) = [f for f in session["frames"] if f.get("n") == 11]
    description = internal_class("StructDescriptorData").decode(bytes.fromhex(frame["payload_hex"]))
    cls = class_of(from_description(description, {}))
    stage.publish(stage.guest("other"), cls(id=1))


def transient_guest(stage: Play) -> None:
    guest = stage.guest("transient", wants_preload=True)
    number = stage.node._table.next_id - 1
    stage.publish(guest, internal_class("DotsClient")(id=number, running=True))
    stage.leave(guest)
    stage.wait(10)


def guest_that_vanishes(stage: Play) -> None:
    stage.vanish(stage.guest("raw-nopreload"))


def cleanup_guest(stage: Play) -> None:
    running = internal_class("DotsClient")
    guest = stage.guest("golden-cleanup", wants_preload=True)
    number = stage.node._table.next_id - 1
    stage.publish(guest, running(id=number, running=True))
    stage.publish(guest, GOLDEN.GoldenCleanup(id="c1", v=1))
    stage.publish(guest, GOLDEN.GoldenCleanup(id="c2", v=2))
    stage.leave(guest)


def captured_object(name: str, number: int, cls: type[skerry.Struct]) -> Any:
    """An object as it was captured."""
    session = json.loads((VECTORS / f"{name}.json").read_text())
    (frame,) = [f for f in session["frames"] if f.get("n") == number]
    return cls.decode(bytes.fromhex(frame["payload_hex"]))


def golden_types(stage: Play) -> Address:
    guest = stage.guest("other")
    stage.describe(
        guest, GOLDEN.GoldenAll, GOLDEN.GoldenCleanup, GOLDEN.GoldenSingleton, GOLDEN.GoldenUncached
    )
    return guest


def golden_types_and_thing(stage: Play) -> None:
    stage.describe(golden_types(stage), RAW_THING)


def golden_objects(stage: Play) -> None:
    guest = golden_types(stage)
    for number, cls in ((21, GOLDEN.GoldenAll), (24, GOLDEN.GoldenSingleton)):
        stage.publish(guest, captured_object("dynamic-trace-client", number, cls))


def roundtrip_objects(stage: Play) -> None:
    """A guest comes with a type that is new, and publishes 20 objects of it."""
    description = captured_object(
        "dynamic-trace-client", 27, internal_class("StructDescriptorData")
    )
    cls = class_of(from_description(description, {}))
    guest = stage.guest("roundtrip")
    for number in range(29, 49):
        stage.publish(guest, captured_object("dynamic-trace-client", number, cls))


def authentication_rules(stage: Play) -> None:
    stage.captured_guest("auth-configure-rules")


SESSIONS: dict[str, dict[str, Any]] = {
    "auth-accepted": {"before": authentication_rules},
    "auth-client-without-secret": {"before": authentication_rules},
    "auth-configure-rules": {},
    "auth-rejected": {"before": authentication_rules},
    "descriptor-request": {"before": golden_types_and_thing},
    "dynamic-trace-client": {"before": golden_objects, "meanwhile": {26: roundtrip_objects}},
    "error-integer-for-float-property": {},
    "error-missing-key-property": {},
    "error-publish-of-unknown-type": {},
    "error-remove-of-uncached-type": {},
    "error-wrong-message-in-handshake": {},
    "handshake-no-preload": {},
    "v1-publish-all-types": {},
    "join-leave-echo": {"before": one_thing},
    "clear-cache-by-another-guest": {"before": notes},
    "cleanup-and-clients": {"meanwhile": {32: cleanup_guest}},
    "publish-all-types": {"before": vanished_client},
    "merge-and-remove": {"before": two_things},
    "early-subscribe-cached-then-clear": {"before": vanished_client_and_golden_object},
    "v1-early-subscribe-cached-then-clear": {"before": golden_object},
    "dynamic-publish-client": {"before": roundtrip_type},
    "closed-client-removed": {"meanwhile": {16: transient_guest}},
    "client-states": {"meanwhile": {12: guest_that_vanishes}},
    "join-before-type-is-known": {
        "meanwhile": {25: lambda stage: stage.captured_guest("publish-all-types")}
    },
}


ENDED_BY_CLOSING = ("auth-client-without-secret", "handshake-no-preload", "client-states")
"""Sessions whose client just closed its stream."""


@pytest.mark.parametrize("name", SESSIONS)
def test_node_says_what_the_real_host_said(name: str) -> None:
    stage = play(name, **SESSIONS[name])
    ours = [comparable(*item) for item in stage.heard]
    theirs = [comparable(*item) for item in said(name)]
    for index, (our, their) in enumerate(zip(ours, theirs, strict=False)):
        assert our == their, f"frame {index} of {name}"
    assert len(ours) == len(theirs)
    assert stage.node.statistics().unexplained == 0
    assert stage.is_closed == (name not in ENDED_BY_CLOSING)


def test_every_captured_session_is_played() -> None:
    sessions = [json.loads(path.read_text()) for path in VECTORS.glob("*.json")]
    played = {s["name"] for s in sessions if s.get("framing") in ("v1", "v2")}
    assert played == set(SESSIONS)


def test_rules_of_who_may_connect_are_kept_without_their_secrets() -> None:
    stage = play("auth-configure-rules")
    ((_, entry),) = stage.node.cache.objects("DotsAuthentication")
    rule = internal_class("DotsAuthentication").decode(entry.payload)
    assert rule.accept
    assert not rule.is_set("secret")
