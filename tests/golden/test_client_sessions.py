"""Captured sessions of real DOTS programs, mirrored: our client says what the captured one said.

The host's frames are played to a space, and what the captured program did beside the handshake is
done by calls: it joined, published, removed, asked, left. Times are left out of the comparison.
Sessions of guests that were written to break rules, or to say all at once without listening, are
not here: no call of ours does that.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

import skerry
from skerry.client.core.node_connection import NodeConnection
from skerry.client.core.settings import SpaceConfig
from skerry.client.core.space import SpaceCore
from skerry.client.core.states import SpaceState
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import NEVER, Header
from skerry.protocol.access.json.wire import JsonWire, cut_messages
from skerry.protocol.access.wire import OldWire, Wire
from skerry.protocol.machine import Address, CloseReason, Disconnect
from skerry.schema.internal import internal_types

VECTORS = Path(__file__).parent / "dots"
NODE = Address("node", 0, is_stream=True)
KNOWN = {
    **skerry.define_types((VECTORS / "golden.dots").read_text()),
    **skerry.define_types(
        "struct RawThing { 1: [key] uint32 id; 2: string text; 3: float64 value; }"
    ),
}
DESCRIPTIONS = ("EnumDescriptorData", "StructDescriptorData")

SESSIONS: dict[str, dict[str, Any]] = {
    "auth-accepted": {"secret": "sesame"},
    "cleanup-and-clients": {},
    "clear-cache-by-another-guest": {},
    "client-states": {},
    "closed-client-removed": {},
    "descriptor-request": {},
    # The C++ program describes the type once more that the host has just described to it.
    "dynamic-publish-client": {"left_out": {13}},
    "dynamic-trace-client": {},
    "early-subscribe-cached-then-clear": {},
    "join-before-type-is-known": {},
    # Written by hand: without a time, and with a tag that the type does not have.
    "merge-and-remove": {"left_out": {15, 16}},
    "publish-all-types": {},
    "v1-early-subscribe-cached-then-clear": {},
    "v1-publish-all-types": {},
}


class Chance(Random):
    """Draws the number that the captured program drew."""

    def __init__(self, number: int) -> None:
        super().__init__(0)
        self._number = number

    def getrandbits(self, k: int, /) -> int:
        return self._number


class Mirror:
    """Our space in the place of the captured program."""

    def __init__(self, name: str, *, secret: str | None = None) -> None:
        session = json.loads((VECTORS / f"{name}.json").read_text())
        self.frames = [frame for frame in session["frames"] if "hex" in frame]
        self.wire: type[Wire] = OldWire if session["framing"] == "v1" else Wire
        wire = self.wire
        said = [f for f in self.frames if f["dir"] == "client->server"]
        first = said[0]["payload"] if said else {"clientName": "nobody"}
        self.core = SpaceCore(
            NodeConnection(
                node=NODE,
                wire=lambda _: wire(),
                rng=Chance(int(first.get("cnonce", "0"), 16)),
                config=SpaceConfig(name=first["clientName"], secret=secret),
            )
        )
        self._ear = wire()
        self.heard: list[tuple[Header, bytes]] = []
        self.is_closed = False
        self._now_ns = 0
        self._prepare(said)

    def _prepare(self, said: list[dict[str, Any]]) -> None:
        """What the program will publish and wants early, it knows before it connects."""
        described: set[str] = set()
        has_joined = False
        for frame in said[1:]:
            payload = frame["payload"]
            if frame["type"] == "DotsMember":
                has_joined = True
                self.join(payload["groupName"], described)
            elif frame["type"] == "StructDescriptorData":
                cls = KNOWN[payload["name"]]
                described.add(payload["name"])
                if not has_joined and not cls.descriptor.flags.substruct_only:
                    self.core.will_publish(cls)
            elif frame["type"] not in DESCRIPTIONS:
                break

    def join(self, group: str, described: set[str]) -> None:
        if group in described or group in internal_types():
            cls = internal_class(group) if group in internal_types() else KNOWN[group]
            self.core.types.learn(cls)
        interest = self.core.subscriptions.of_group(group)
        interest.holder_count += 1
        self.core.subscriptions.join(interest, 1.0)

    def open(self) -> None:
        self.core.connection.start(0)
        self.core.connection.advance(0)
        self.core.connection.take_transmits()
        self.core.connection.stream_opened(NODE, 0)

    def play(self, frame: dict[str, Any]) -> None:
        self._now_ns += 1_000_000
        if frame["dir"] == "server->client":
            self.core.connection.receive(bytes.fromhex(frame["hex"]), NODE, self._now_ns)
        elif self.core.connection.state is SpaceState.CONNECTED:
            self._act(frame)
        self.pump()

    def pump(self) -> None:
        for transmit in self.core.connection.take_transmits():
            if isinstance(transmit, Disconnect):
                self.is_closed = True
            else:
                self.heard += self._ear.feed(transmit.data)

    def _act(self, frame: dict[str, Any]) -> None:
        name, payload = frame["type"], bytes.fromhex(frame["payload_hex"])
        if name in DESCRIPTIONS:
            # It is said by itself, before the type is first joined or published.
            if name == "StructDescriptorData":
                self.core.types.learn(KNOWN[frame["payload"]["name"]])
            return
        if name == "DotsMember":
            self.join(frame["payload"]["groupName"], set())
        elif name == "DotsMsgError":
            self.core.close(self._now_ns)
        elif name == "DotsDescriptorRequest" and "blacklist" not in frame["payload"]:
            if frame["payload"].get("whitelist") == []:
                self.core.publish(internal_class(name)(whitelist=[]), 1.0)
            else:
                asked = frame["payload"].get("whitelist", ())
                self.core.request_types(reversed(asked), self._now_ns)
        else:
            self._publish(name, payload, frame)

    def _publish(self, name: str, payload: bytes, frame: dict[str, Any]) -> None:
        cls = internal_class(name) if name in internal_types() else self._class(name)
        obj = cls.decode(payload)
        if frame["header"].get("removeObj"):
            self.core.remove(obj, 1.0)
            return
        tags = frame["header"]["attributes"]["tags"]
        only = [field.name for field in cls.descriptor.fields if field.tag in tags]
        self.core.publish(obj, 1.0, only=only)

    def _class(self, name: str) -> Any:
        return self.core.types.class_named(name) or KNOWN[name]


def comparable(header: Header, payload: bytes) -> dict[str, Any]:
    return {
        "type": header.type_name,
        "attributes": int(header.attributes),
        "sender": int(header.sender),
        "remove": int(header.remove_obj),
        "from_cache": int(header.from_cache),
        "from_myself": int(header.is_from_myself),
        "subscription": int(header.subscription_id),
        "subject": header.subject,
        "has_times": (header.sent_time != NEVER, header.server_sent_time != NEVER),
        "payload": _sorted_names(header, payload),
    }


def _sorted_names(header: Header, payload: bytes) -> Any:
    """The order of names in a question for types is the program's own."""
    if header.type_name != "DotsDescriptorRequest":
        return payload
    message = internal_class(header.type_name).decode(payload)
    return sorted(message.whitelist or ()), sorted(message.blacklist or ())


@pytest.mark.parametrize("name", SESSIONS)
def test_client_says_what_the_captured_one_said(name: str) -> None:
    options = dict(SESSIONS[name])
    left_out = options.pop("left_out", set())
    mirror = Mirror(name, **options)
    mirror.open()
    theirs: list[dict[str, Any]] = []
    for frame in mirror.frames:
        if frame["n"] in left_out:
            continue
        mirror.play(frame)
        if frame["dir"] == "client->server":
            theirs += [comparable(*item) for item in mirror.wire().feed(_bytes(frame))]
    ours = [comparable(*item) for item in mirror.heard]
    for index, (our, their) in enumerate(zip(ours, theirs, strict=False)):
        assert our == their, f"frame {index} of {name}"
    assert len(ours) == len(theirs)
    ends_orderly = mirror.frames[-1]["type"] == "DotsMsgError"
    assert mirror.is_closed == ends_orderly


def _bytes(frame: dict[str, Any]) -> bytes:
    return bytes.fromhex(frame["hex"])


def test_client_without_a_secret_goes_without_a_word() -> None:
    mirror = Mirror("auth-client-without-secret")
    mirror.open()
    for frame in mirror.frames:
        mirror.play(frame)
    assert mirror.heard == []
    assert mirror.is_closed
    assert mirror.core.connection.is_refused


def test_rejected_client_does_not_come_back() -> None:
    mirror = Mirror("auth-rejected", secret="not sesame")
    mirror.open()
    for frame in mirror.frames:
        mirror.play(frame)
    assert [header.type_name for header, _ in mirror.heard] == ["DotsMsgConnect"]
    mirror.core.connection.stream_closed(NODE, CloseReason.ENDED, 5)
    assert mirror.core.connection.state is SpaceState.CLOSED
    assert mirror.core.connection.deadline_ns() is None


def test_containers_are_what_the_captured_client_saw() -> None:
    mirror = Mirror("merge-and-remove")
    mirror.open()
    things: list[str] = []
    mirror.core.types.learn(KNOWN["RawThing"])
    for frame in mirror.frames:
        mirror.play(frame)
        if frame["n"] in (10, 12, 25, 29):
            route = mirror.core.intake.routes["RawThing"]
            assert route.store is not None
            entries = [route.shape.decode(e.payload) for e in route.store.objects.values()]
            things.append(", ".join(str(obj.id) for obj in sorted(entries, key=lambda o: o.id)))
    assert things == ["1, 7", "1, 7, 20", "1, 7, 20", "1, 7"]


def test_client_of_the_websocket_says_what_the_captured_one_said() -> None:
    session = json.loads((VECTORS / "websocket-json.json").read_text())
    core = SpaceCore(
        NodeConnection(
            node=NODE,
            wire=JsonWire,
            rng=Random(1),
            config=SpaceConfig(name="ws-client"),
        )
    )
    core.subscriptions.of_group("GoldenAll").holder_count += 1
    core.connection.start(0)
    core.connection.advance(0)
    core.connection.take_transmits()
    core.connection.stream_opened(NODE, 0)
    ours: list[Any] = []
    theirs: list[Any] = []
    for message in session["messages"][1:]:
        if message["dir"] == "server->client":
            core.connection.receive(message["text"].encode(), NODE, 1)
        else:
            header, content = json.loads(message["text"])
            theirs.append((header["typeName"], header["attributes"], content))
            if core.connection.state is SpaceState.CONNECTED:
                cls: Any = core.types.class_named(header["typeName"])
                obj = cls.from_json(json.dumps(_named(content)))
                fields = cls.descriptor.fields
                only = [f.name for f in fields if header["attributes"] >> f.tag & 1]
                core.publish(obj, 1.0, only=only)
        for transmit in core.connection.take_transmits():
            for text in cut_messages(transmit.data):
                header, content = json.loads(text)
                ours.append((header["typeName"], header["attributes"], content))
    for _, _, content in theirs:
        content.pop("str", None)
    assert ours == theirs


def _named(content: dict[str, Any]) -> dict[str, Any]:
    """Our own JSON names elements of enums, and has no null."""
    named = {key: value for key, value in content.items() if value is not None}
    if "color" in named:
        named["color"] = "blue"
    return named
