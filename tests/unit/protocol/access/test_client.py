"""The client's end: the handshake, received messages, and sent ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.codec.values import PropertySet
from skerry.objects.classes import class_of
from skerry.objects.descriptors import from_description
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import (
    EXTENSION_ORIGIN,
    EXTENSION_SUBJECTS,
    Accepted,
    ClientConnection,
    Connected,
    Rejected,
    SecretMissing,
)
from skerry.protocol.access.connection import (
    AccessConnection,
    ConnectionBroken,
    ConnectionEnded,
    ReceivedFrame,
)
from skerry.protocol.access.handshake import ConnectionStage
from skerry.protocol.access.header import NEVER, Header
from skerry.protocol.access.json.wire import JsonWire
from skerry.protocol.access.secrets import digest
from skerry.protocol.access.wire import OldWire, Wire
from skerry.schema.internal import internal_types
from skerry.schema.model import NamedType

FOLDER = Path(__file__).resolve().parents[3] / "golden" / "dots"
WIRES: dict[str, type[Wire]] = {"v1": OldWire, "v2": Wire}
NOW_S = 1_800_000_000.5
STAGES = [ConnectionStage.CONNECTING, ConnectionStage.EARLY_SUBSCRIBE, ConnectionStage.CONNECTED]


def message(name: str, **fields: Any) -> bytes:
    peer = AccessConnection(Wire())
    peer.send_message(internal_class(name)(**fields), NOW_S)
    return peer.take_output()


HELLO = message("DotsMsgHello", serverName="node", authChallenge=0)
ACCEPTED = message("DotsMsgConnectResponse", clientId=5, accepted=True, preload=True)
FINISHED = message("DotsMsgConnectResponse", preloadFinished=True)
OBJECT = message("DotsClient", id=2)


def new_client(**arguments: Any) -> ClientConnection:
    return ClientConnection(Wire(), name="c", cnonce="n", **arguments)


def client_in(stage: ConnectionStage) -> ClientConnection:
    """A connection in this stage."""
    client = new_client()
    if stage is not ConnectionStage.CONNECTING:
        client.receive(HELLO + ACCEPTED, NOW_S)
    if stage is ConnectionStage.CONNECTED:
        client.receive(FINISHED, NOW_S)
    assert client.stage is stage
    client.take_output()
    return client


def sent_messages(client: ClientConnection) -> list[Any]:
    frames = Wire().feed(client.take_output())
    return [internal_class(header.type_name).decode(payload) for header, payload in frames]


# -- the handshake


@pytest.mark.parametrize("wants_preload", [False, True])
def test_a_client_sends_nothing_before_the_hello(wants_preload: bool) -> None:
    client = new_client(wants_preload=wants_preload)
    assert client.take_output() == b""
    assert client.receive(HELLO, NOW_S) == []
    connect = internal_class("DotsMsgConnect")
    assert sent_messages(client) == [connect(clientName="c", preloadCache=wants_preload)]
    assert (client.stage, client.server_name) == (ConnectionStage.CONNECTING, "node")


def test_without_preload_a_client_is_connected_at_once() -> None:
    client = new_client(wants_preload=False)
    response = message("DotsMsgConnectResponse", clientId=5, accepted=True, preload=False)
    inputs = client.receive(HELLO + response + OBJECT, NOW_S)
    assert inputs[0] == Accepted(client_id=5, has_preload=False)
    assert isinstance(inputs[1], ReceivedFrame)
    assert (client.stage, client.client_id) == (ConnectionStage.CONNECTED, 5)


def test_with_preload_objects_precede_the_connected_stage() -> None:
    client = new_client()
    client.receive(HELLO, NOW_S)
    client.take_output()
    assert client.receive(ACCEPTED, NOW_S) == [Accepted(client_id=5, has_preload=True)]
    assert (client.stage, client.client_id) == (ConnectionStage.EARLY_SUBSCRIBE, 5)
    client.join("T", NOW_S)
    client.leave("U", NOW_S)
    client.finish_joins(NOW_S)
    member, events = internal_class("DotsMember"), internal_class("DotsMemberEvent")
    assert sent_messages(client) == [
        member(groupName="T", event=events["join"]),
        member(groupName="U", event=events["leave"]),
        internal_class("DotsMsgConnect")(preloadClientFinished=True),
    ]
    inputs = client.receive(OBJECT + FINISHED, NOW_S)
    assert isinstance(inputs[0], ReceivedFrame)
    assert inputs[1:] == [Connected()]
    assert client.stage is ConnectionStage.CONNECTED


def test_a_response_may_have_more_fields_than_required() -> None:
    client = new_client()
    extra = {"serverName": "node", "clientId": 5, "accepted": True}
    accepted = message("DotsMsgConnectResponse", preload=True, **extra)
    finished = message("DotsMsgConnectResponse", preloadFinished=True, **extra)
    inputs = client.receive(HELLO + accepted + finished, NOW_S)
    assert inputs == [Accepted(client_id=5, has_preload=True), Connected()]


def test_a_node_without_a_name_is_greeted_back() -> None:
    client = new_client()
    assert client.receive(message("DotsMsgHello"), NOW_S) == []
    assert client.server_name == "<unnamed>"
    assert len(sent_messages(client)) == 1


@pytest.mark.parametrize("challenge", [0, 2**64 - 1])
def test_a_challenge_is_answered_with_the_secret(challenge: int) -> None:
    client = new_client(secret="s")
    hello = message("DotsMsgHello", authChallenge=challenge, authenticationRequired=True)
    assert client.receive(hello, NOW_S) == []
    (connect,) = sent_messages(client)
    assert connect.cnonce == "n"
    wanted = digest(name="c", secret="s", nonce=challenge, cnonce="n")
    assert connect.authChallengeResponse == wanted


def test_a_secret_that_is_not_required_is_not_used() -> None:
    client = new_client(secret="s")
    client.receive(HELLO, NOW_S)
    (connect,) = sent_messages(client)
    assert (connect.authChallengeResponse, connect.cnonce) == (None, None)


def test_without_a_secret_a_challenge_is_the_end() -> None:
    client = new_client()
    hello = message("DotsMsgHello", authChallenge=1, authenticationRequired=True)
    assert client.receive(hello + ACCEPTED, NOW_S) == [SecretMissing()]
    assert client.take_output() == b""
    assert client.receive(ACCEPTED, NOW_S) == []


def test_an_empty_secret_is_a_secret() -> None:
    client = new_client(secret="")
    hello = message("DotsMsgHello", authChallenge=1, authenticationRequired=True)
    assert client.receive(hello, NOW_S) == []
    assert sent_messages(client)[0].authChallengeResponse is not None


@pytest.mark.parametrize("fields", [{}, {"clientId": 5, "preload": True}])
def test_nothing_follows_a_rejection(fields: dict[str, Any]) -> None:
    client = new_client()
    rejected = message("DotsMsgConnectResponse", accepted=False, **fields)
    assert client.receive(HELLO + rejected + OBJECT, NOW_S) == [Rejected()]
    assert client.stage is ConnectionStage.CLOSED
    assert client.receive(OBJECT, NOW_S) == []
    assert client.receive(b"\xff", NOW_S) == []
    client.take_output()
    client.end(NOW_S, code=1, text="why")
    assert client.take_output() == b""


# -- the wrong thing at the wrong time


@pytest.mark.parametrize("stage", STAGES)
def test_a_node_greets_once(stage: ConnectionStage) -> None:
    client = client_in(stage)
    data = HELLO * 2 if stage is ConnectionStage.CONNECTING else HELLO
    broken = ConnectionBroken(message="DotsMsgHello", detail="it came twice")
    assert client.receive(data + OBJECT, NOW_S) == [broken]
    assert client.receive(OBJECT, NOW_S) == []


@pytest.mark.parametrize(
    ("stage", "name", "fields"),
    [
        (ConnectionStage.CONNECTING, "DotsMsgConnectResponse", {"clientId": 5, "accepted": True}),
        (ConnectionStage.CONNECTING, "DotsMsgConnectResponse", {"accepted": False}),
        (ConnectionStage.CONNECTING, "DotsMsgConnect", {"clientName": "x", "preloadCache": True}),
        (
            ConnectionStage.EARLY_SUBSCRIBE,
            "DotsMsgConnectResponse",
            {"clientId": 6, "accepted": True},
        ),
        (ConnectionStage.EARLY_SUBSCRIBE, "DotsMsgConnectResponse", {"preloadFinished": False}),
        (ConnectionStage.EARLY_SUBSCRIBE, "DotsMsgConnect", {"preloadClientFinished": True}),
        (ConnectionStage.CONNECTED, "DotsMsgConnectResponse", {"preloadFinished": True}),
        (ConnectionStage.CONNECTED, "DotsMsgConnectResponse", {"accepted": False}),
        (ConnectionStage.CONNECTED, "DotsMsgConnect", {}),
    ],
)
def test_a_message_at_the_wrong_time_breaks_the_connection(
    stage: ConnectionStage, name: str, fields: dict[str, Any]
) -> None:
    client = client_in(stage)
    inputs = client.receive(message(name, **fields) + OBJECT, NOW_S)
    assert inputs == [ConnectionBroken(message=name, detail="not expected now")]
    assert client.receive(HELLO + OBJECT, NOW_S) == []
    assert client.client_id == (0 if stage is ConnectionStage.CONNECTING else 5)


@pytest.mark.parametrize("fields", [{}, {"accepted": True}, {"preloadFinished": True}])
def test_a_response_without_an_id_does_not_accept_the_client(fields: dict[str, Any]) -> None:
    client = new_client()
    inputs = client.receive(HELLO + message("DotsMsgConnectResponse", **fields), NOW_S)
    assert inputs == [ConnectionBroken(message="DotsMsgConnectResponse", detail="not expected now")]


@pytest.mark.parametrize("greeting", [b"", HELLO])
def test_no_object_is_accepted_before_the_handshake(greeting: bytes) -> None:
    inputs = new_client().receive(greeting + OBJECT, NOW_S)
    assert inputs == [
        ConnectionBroken(message="DotsClient", detail="an object before the handshake")
    ]


@pytest.mark.parametrize("stage", STAGES)
def test_every_header_names_type_and_attributes(stage: ConnectionStage) -> None:
    for name, detail in (
        ("", "a header without typeName"),
        ("T", "a header without attributes"),
        ("DotsMsgHello", "a header without attributes"),
    ):
        header = Header(name)
        if not name:
            header.attributes = 2
        (broken,) = client_in(stage).receive(Wire().frame(header, b"\xa0"), NOW_S)
        assert broken == ConnectionBroken(message=name or "header", detail=detail)


@pytest.mark.parametrize("name", ["DotsMsgHello", "DotsMsgConnectResponse", "DotsMsgError"])
@pytest.mark.parametrize("stage", STAGES)
def test_a_malformed_message_breaks_the_connection(stage: ConnectionStage, name: str) -> None:
    header = Header(name)
    header.attributes = 2
    (broken,) = client_in(stage).receive(Wire().frame(header, b"\xa1\x01\xf6"), NOW_S)
    assert isinstance(broken, ConnectionBroken)
    assert broken.message.startswith(f"{name}.")
    assert name not in broken.detail


# -- objects and the end


@pytest.mark.parametrize("stage", [ConnectionStage.EARLY_SUBSCRIBE, ConnectionStage.CONNECTED])
def test_objects_are_handed_on_whether_or_not_their_type_is_known(stage: ConnectionStage) -> None:
    header = Header("NobodyKnows")
    header.attributes = 6
    (arrival,) = client_in(stage).receive(Wire().frame(header, b"not even CBOR"), NOW_S)
    assert isinstance(arrival, ReceivedFrame)
    assert (arrival.header.type_name, arrival.payload) == ("NobodyKnows", b"not even CBOR")


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    ("fields", "ended"),
    [
        ({"errorCode": 0}, ConnectionEnded(code=0, text="")),
        ({"errorCode": 1, "errorText": "why"}, ConnectionEnded(code=1, text="why")),
        ({}, ConnectionEnded(code=0, text="")),
    ],
)
def test_nothing_follows_the_end_a_node_announces(
    stage: ConnectionStage, fields: dict[str, Any], ended: ConnectionEnded
) -> None:
    client = client_in(stage)
    data = message("DotsMsgError", **fields) + OBJECT + b"\xff"
    assert client.receive(data, NOW_S) == [ended]
    assert client.receive(OBJECT, NOW_S) == []


# -- as recorded


class Replay:
    """Drives a client as the recorded one, with the same input."""

    def __init__(self, session: str, **arguments: Any) -> None:
        recorded = json.loads((FOLDER / f"{session}.json").read_text(encoding="utf-8"))
        self.framing = recorded["framing"]
        self.frames = [frame for frame in recorded["frames"] if "hex" in frame]
        self.client = ClientConnection(WIRES[self.framing](), **arguments)
        self.types: dict[str, NamedType] = dict(internal_types())
        self.inputs: list[Any] = []

    def run(self) -> None:
        for frame in self.frames:
            if frame["dir"] == "server->client":
                data = bytes.fromhex(frame["hex"])
                self.inputs += self.client.receive(data, NOW_S)
            else:
                self.act(frame)

    def act(self, frame: dict[str, Any]) -> None:
        name, plain = frame["type"], frame["payload"]
        payload = bytes.fromhex(frame["payload_hex"])
        if name in ("EnumDescriptorData", "StructDescriptorData"):
            obj = internal_class(name).decode(payload)
            self.types[obj.name] = from_description(obj, self.types)
            # What others are made of, and what an object follows, is described without a word.
            if obj.name in ("GoldenAll", "GoldenCleanup", "RawThing"):
                self.client.describe(self.types[obj.name], NOW_S)
        elif name == "DotsMsgConnect":
            if "preloadClientFinished" in plain:
                self.client.finish_joins(NOW_S)
        elif name == "DotsMember":
            self.client.join(plain["groupName"], NOW_S)
        elif name == "DotsMsgError":
            self.client.end(NOW_S)
        else:
            self.publish(frame, payload)

    def publish(self, frame: dict[str, Any], payload: bytes) -> None:
        type_ = self.types[frame["type"]]
        header = Header(type_.name)
        header.sent_time = NOW_S
        header.attributes = frame["header"]["attributes"]["mask"]
        header.remove_obj = int(frame["header"]["removeObj"])
        encoded = class_of(type_).decode(payload).encode()
        self.client.send(header, encoded, type_, NOW_S)

    def wanted(self) -> bytes:
        ours = [frame for frame in self.frames if frame["dir"] == "client->server"]
        return b"".join(bytes.fromhex(frame["hex"]) for frame in ours)


def without_times(framing: str, data: bytes) -> list[bytes]:
    wire = WIRES[framing]()
    arrived = wire.feed(data)
    for header, _ in arrived:
        if header.sent_time != NEVER:
            header.sent_time = 0.0
    return [wire.frame(header, payload) for header, payload in arrived]


@pytest.mark.parametrize(
    ("session", "arguments", "client_id"),
    [
        ("handshake-no-preload", {"name": "raw-nopreload", "wants_preload": False}, 2),
        ("publish-all-types", {"name": "golden-all"}, 3),
        ("v1-publish-all-types", {"name": "golden-all"}, None),
        ("auth-accepted", {"name": "golden-user", "secret": "sesame"}, 3),
    ],
)
def test_a_client_writes_what_the_recorded_one_wrote(
    session: str, arguments: dict[str, Any], client_id: int | None
) -> None:
    replay = Replay(session, cnonce="c100b40af11a76d7", **arguments)
    replay.run()
    ours = without_times(replay.framing, replay.client.take_output())
    assert ours == without_times(replay.framing, replay.wanted())
    assert not any(isinstance(item, ConnectionBroken) for item in replay.inputs)
    assert isinstance(replay.inputs[0], Accepted)
    if client_id is not None:
        assert replay.client.client_id == client_id
    ending = (
        ConnectionStage.CONNECTED if session == "handshake-no-preload" else ConnectionStage.CLOSED
    )
    assert replay.client.stage is ending


def test_the_recorded_rejection_is_one() -> None:
    replay = Replay("auth-rejected", name="raw-authbad", cnonce="0123456789abcdef", secret="x")
    replay.run()
    assert replay.inputs == [Rejected()]


def test_the_recorded_client_without_a_secret_could_not_answer() -> None:
    replay = Replay("auth-client-without-secret", name="golden-user", cnonce="")
    replay.run()
    assert replay.inputs == [SecretMissing()]
    assert replay.client.take_output() == replay.wanted() == b""


# -- what is beyond DOTS


def hello(**capabilities: Any) -> bytes:
    return message(
        "DotsMsgHello",
        serverName="node",
        authChallenge=0,
        capabilities=internal_class("DotsServerCapabilities")(**capabilities),
    )


@pytest.mark.parametrize("offered", [0, EXTENSION_SUBJECTS, EXTENSION_SUBJECTS | EXTENSION_ORIGIN])
def test_extensions_are_sent_to_nodes_that_support_them(offered: int) -> None:
    client = new_client(extensions=offered)
    client.receive(hello(filteredSubscriptions=True, skerry=1), NOW_S)
    (connect,) = sent_messages(client)
    assert connect.extensions == (offered or None)
    assert client.extensions == offered
    assert client.has_filters


def test_no_extensions_are_sent_to_a_foreign_host() -> None:
    client = new_client(extensions=EXTENSION_SUBJECTS)
    client.receive(HELLO, NOW_S)
    (connect,) = sent_messages(client)
    assert connect.extensions is None
    assert (client.extensions, client.has_filters) == (0, False)
    newer = new_client(extensions=EXTENSION_SUBJECTS)
    newer.receive(hello(filteredSubscriptions=True), NOW_S)
    assert sent_messages(newer)[0].extensions is None
    assert newer.has_filters


def test_condition_travels_with_its_number() -> None:
    client = client_in(ConnectionStage.CONNECTED)
    filter_ = internal_class("DotsFilter")(propertyMask=PropertySet(6))
    client.join("Vessel", NOW_S, subscription_id=7, filter_=filter_)
    client.leave("Vessel", NOW_S, subscription_id=7)
    join, leave = sent_messages(client)
    assert (join.groupName, join.subscriptionId, join.filter) == ("Vessel", 7, filter_)
    assert (leave.event.label, leave.subscriptionId, leave.filter) == ("leave", 7, None)


@pytest.mark.parametrize("offered", [0, EXTENSION_SUBJECTS])
def test_conflation_is_requested_from_nodes_that_support_it(offered: int) -> None:
    client = new_client(extensions=offered)
    client.receive(hello(skerry=1) + ACCEPTED, NOW_S)
    client.take_output()
    client.join("Vessel", NOW_S, is_conflated=True)
    (join,) = sent_messages(client)
    assert (join.slow is not None) == bool(offered)


def test_two_halves_of_receiving_are_the_whole() -> None:
    client = new_client()
    client.receive(HELLO + ACCEPTED, NOW_S)
    arrived, fault = client.feed(OBJECT + FINISHED + b"\x00")
    assert fault is not None
    items = [client.understand(header, payload, NOW_S) for header, payload in arrived]
    assert isinstance(items[0], ReceivedFrame)
    assert items[1] == Connected()
    ended = message("DotsMsgError", errorCode=1, errorText="x")
    other = client_in(ConnectionStage.CONNECTED)
    ((header, payload),), _ = other.feed(ended)
    assert other.understand(header, payload, NOW_S) == ConnectionEnded(code=1, text="x")
    assert other.feed(OBJECT) == ([], None), "nothing follows the end"


def test_json_is_read_by_the_definition_by_which_the_node_writes_it() -> None:
    text = "enum Rig {{ {} }} struct Boat {{ 1: [key] {} id; 2: Rig rig; 3: string {}; }}"
    own = skerry.define_types(text.format("1: sloop", "uint8", "name")).Boat
    theirs = skerry.define_types(text.format("1: sloop, 2: ketch", "uint32", "title"))
    served = theirs.Boat
    client = ClientConnection(JsonWire({"Boat": own.descriptor}), name="c", cnonce="n")
    client.renews = True
    header = '{ "typeName": "Boat", "attributes": 14, "removeObj": false }'
    client.note_received(served.descriptor)
    data = f'[ {header}, {{ "id": 300, "rig": 2, "title": "Mary" }} ]'.encode()
    ((_, payload),), fault = client.feed(data)
    assert fault is None
    assert payload == served(id=300, rig=theirs.Rig.ketch, title="Mary").encode()
    client.describe(own.descriptor, NOW_S)
    data = f'[ {header}, {{ "id": 3, "name": "Mary" }} ]'.encode()
    ((_, payload),), fault = client.feed(data)
    assert fault is None
    assert payload == own(id=3, name="Mary").encode()
