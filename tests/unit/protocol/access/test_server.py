"""The node's end: the handshake, and messages that are refused in each stage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skerry.objects.internal import internal_class
from skerry.protocol.access.connection import (
    AccessConnection,
    ConnectionBroken,
    ConnectionEnded,
    ReceivedFrame,
)
from skerry.protocol.access.handshake import ConnectionStage
from skerry.protocol.access.header import NEVER, Header
from skerry.protocol.access.secrets import is_right_answer
from skerry.protocol.access.server import ConnectAsked, JoinsFinished, ServerConnection
from skerry.protocol.access.wire import OldWire, Wire

FOLDER = Path(__file__).resolve().parents[3] / "golden" / "dots"
WIRES: dict[str, type[Wire]] = {"v1": OldWire, "v2": Wire}
NOW_S = 1_800_000_000.5
STAGES = [ConnectionStage.CONNECTING, ConnectionStage.EARLY_SUBSCRIBE, ConnectionStage.CONNECTED]


def server_in(stage: ConnectionStage) -> ServerConnection:
    """A connection in this stage."""
    server = ServerConnection(Wire(), client_id=2)
    server.greet("node", NOW_S)
    if stage is not ConnectionStage.CONNECTING:
        preload = stage is ConnectionStage.EARLY_SUBSCRIBE
        (asked,) = send(server, "DotsMsgConnect", clientName="c", preloadCache=preload)
        server.accept(asked, NOW_S)
    assert server.stage is stage
    server.take_output()
    return server


def message(name: str, **fields: Any) -> bytes:
    peer = AccessConnection(Wire())
    peer.send_message(internal_class(name)(**fields), NOW_S)
    return peer.take_output()


def send(server: ServerConnection, name: str, **fields: Any) -> list[Any]:
    return inputs_of(server, message(name, **fields))


def inputs_of(server: ServerConnection, data: bytes) -> list[Any]:
    """Return the inputs of bytes in order, up to one that ends the connection."""
    if server.is_over:
        return []
    inputs: list[Any] = []
    arrived, fault = server.feed(data)
    for header, payload in arrived:
        inputs.append(server.understand(header, payload))
        if isinstance(inputs[-1], (ConnectionBroken, ConnectionEnded)):
            return inputs
    return inputs if fault is None else [*inputs, fault]


def sent_messages(server: ServerConnection) -> list[Any]:
    frames = Wire().feed(server.take_output())
    return [internal_class(header.type_name).decode(payload) for header, payload in frames]


# -- the handshake


def test_a_client_is_connected_at_once_without_preload() -> None:
    server = ServerConnection(Wire(), client_id=5)
    assert server.name == "<not_set>"
    server.greet("node", NOW_S)
    assert sent_messages(server) == [
        internal_class("DotsMsgHello")(serverName="node", authChallenge=0)
    ]
    (asked,) = send(server, "DotsMsgConnect", clientName="c", preloadCache=False)
    wanted = ConnectAsked(name="c", wants_preload=False, response="", cnonce="", extensions=0)
    assert asked == wanted
    assert server.stage is ConnectionStage.CONNECTING
    server.accept(asked, NOW_S)
    response = internal_class("DotsMsgConnectResponse")
    assert sent_messages(server) == [response(clientId=5, accepted=True, preload=False)]
    assert (server.stage, server.name) == (ConnectionStage.CONNECTED, "c")


def test_a_client_joins_before_it_is_connected_with_preload() -> None:
    server = ServerConnection(Wire(), client_id=5)
    (asked,) = send(server, "DotsMsgConnect", clientName="c", preloadCache=True, extensions=3)
    assert (asked.wants_preload, asked.extensions) == (True, 3)
    server.accept(asked, NOW_S)
    response = internal_class("DotsMsgConnectResponse")
    assert sent_messages(server) == [response(clientId=5, accepted=True, preload=True)]
    joining = message("DotsMember", groupName="T", event=internal_class("DotsMemberEvent")["join"])
    joined, finished = inputs_of(
        server, joining + message("DotsMsgConnect", preloadClientFinished=True)
    )
    assert isinstance(joined, ReceivedFrame)
    assert internal_class("DotsMember").decode(joined.payload).groupName == "T"
    assert finished == JoinsFinished()
    assert (server.stage, server.name) == (ConnectionStage.EARLY_SUBSCRIBE, "c")
    server.finish_preload(NOW_S)
    assert sent_messages(server) == [response(preloadFinished=True)]
    assert server.stage is ConnectionStage.CONNECTED


@pytest.mark.parametrize("challenge", [0, 1, 2**64 - 1])
def test_a_challenge_is_sent_and_its_response_returned(challenge: int) -> None:
    server = ServerConnection(Wire(), client_id=5)
    server.greet("node", NOW_S, challenge=challenge)
    (hello,) = sent_messages(server)
    assert (hello.authChallenge, hello.authenticationRequired) == (challenge, True)
    answer = {"authChallengeResponse": "ab" * 32, "cnonce": "n"}
    (asked,) = send(server, "DotsMsgConnect", clientName="c", preloadCache=True, **answer)
    assert (asked.response, asked.cnonce) == ("ab" * 32, "n")


def test_a_rejected_client_receives_a_response_and_its_input_is_discarded() -> None:
    server = ServerConnection(Wire(), client_id=5)
    (asked,) = send(server, "DotsMsgConnect", clientName="c", preloadCache=True)
    server.reject(asked, NOW_S)
    response = internal_class("DotsMsgConnectResponse")
    assert sent_messages(server) == [response(clientId=5, accepted=False, preload=True)]
    assert (server.stage, server.name) == (ConnectionStage.CLOSED, "c")
    assert send(server, "DotsMsgConnect", preloadClientFinished=True) == []
    assert inputs_of(server, b"\xff") == []
    server.end(NOW_S, code=1, text="why")
    assert server.take_output() == b""


# -- the wrong thing at the wrong time


WRONG: list[tuple[ConnectionStage, str, dict[str, Any], str]] = [
    (
        ConnectionStage.CONNECTING,
        "DotsMsgHello",
        {"serverName": "x"},
        "not expected while connecting",
    ),
    (ConnectionStage.CONNECTING, "DotsMsgConnectResponse", {}, "not expected while connecting"),
    (ConnectionStage.CONNECTING, "DotsMsgError", {"errorCode": 0}, "not expected while connecting"),
    (
        ConnectionStage.CONNECTING,
        "DotsMember",
        {"groupName": "T"},
        "an object before the handshake",
    ),
    (ConnectionStage.CONNECTING, "StructDescriptorData", {}, "an object before the handshake"),
    (ConnectionStage.CONNECTING, "DotsMsgConnect", {}, "without clientName or preloadCache"),
    (
        ConnectionStage.CONNECTING,
        "DotsMsgConnect",
        {"clientName": "c"},
        "without clientName or preloadCache",
    ),
    (
        ConnectionStage.CONNECTING,
        "DotsMsgConnect",
        {"preloadCache": True},
        "without clientName or preloadCache",
    ),
    (ConnectionStage.EARLY_SUBSCRIBE, "DotsMsgHello", {}, "not expected while early subscribe"),
    (
        ConnectionStage.EARLY_SUBSCRIBE,
        "DotsMsgConnectResponse",
        {},
        "not expected while early subscribe",
    ),
    (ConnectionStage.EARLY_SUBSCRIBE, "DotsMsgConnect", {}, "expected preloadClientFinished"),
    (
        ConnectionStage.EARLY_SUBSCRIBE,
        "DotsMsgConnect",
        {"preloadClientFinished": False},
        "expected preloadClientFinished",
    ),
    (
        ConnectionStage.EARLY_SUBSCRIBE,
        "DotsMsgConnect",
        {"clientName": "c", "preloadCache": True},
        "expected preloadClientFinished",
    ),
    (ConnectionStage.CONNECTED, "DotsMsgHello", {}, "not expected while connected"),
    (ConnectionStage.CONNECTED, "DotsMsgConnectResponse", {}, "not expected while connected"),
    (
        ConnectionStage.CONNECTED,
        "DotsMsgConnect",
        {"preloadClientFinished": True},
        "not expected while connected",
    ),
]


@pytest.mark.parametrize(("stage", "name", "fields", "detail"), WRONG)
def test_a_message_at_the_wrong_time_breaks_the_connection(
    stage: ConnectionStage, name: str, fields: dict[str, Any], detail: str
) -> None:
    server = server_in(stage)
    again = message("DotsMsgConnect", clientName="c", preloadCache=True)
    inputs = inputs_of(server, message(name, **fields) + again)
    assert inputs == [ConnectionBroken(message=name, detail=detail)]


@pytest.mark.parametrize("preload", [False, True])
def test_a_client_introduces_itself_once(preload: bool) -> None:
    server = server_in(ConnectionStage.CONNECTING)
    connect = message("DotsMsgConnect", clientName="c", preloadCache=preload)
    (asked,) = inputs_of(server, connect)
    server.accept(asked, NOW_S)
    detail = "expected preloadClientFinished" if preload else "not expected while connected"
    assert inputs_of(server, connect) == [ConnectionBroken(message="DotsMsgConnect", detail=detail)]


def test_a_node_announces_its_extensions_only_if_enabled() -> None:
    for extensions in (False, True):
        server = ServerConnection(Wire(), client_id=5)
        server.greet("node", NOW_S, extensions=extensions)
        (hello,) = sent_messages(server)
        assert hello.is_set("capabilities") is extensions
        if extensions:
            capabilities = internal_class("DotsServerCapabilities")
            assert hello.capabilities == capabilities(filteredSubscriptions=True, skerry=1)


def test_a_fault_of_the_framing_follows_complete_frames_and_ends_the_input() -> None:
    server = server_in(ConnectionStage.CONNECTED)
    arrival, fault = inputs_of(server, message("DotsClient", id=2) + b"\x00")
    assert isinstance(arrival, ReceivedFrame)
    assert isinstance(fault, ConnectionBroken)
    assert fault.detail.startswith("a frame begins with 0x1a, found 0x00")
    assert server.is_over
    assert server.stage is ConnectionStage.CONNECTED, "so that the end can be explained"


def test_a_client_finishes_its_joins_once() -> None:
    server = server_in(ConnectionStage.EARLY_SUBSCRIBE)
    finish = message("DotsMsgConnect", preloadClientFinished=True)
    broken = ConnectionBroken(message="DotsMsgConnect", detail="it came twice")
    assert inputs_of(server, finish * 2) == [JoinsFinished(), broken]


def test_the_recorded_wrong_message_breaks_the_handshake() -> None:
    server = server_in(ConnectionStage.CONNECTING)
    (data,) = [f["hex"] for f in frames("error-wrong-message-in-handshake")[1:]]
    (broken,) = inputs_of(server, bytes.fromhex(data))
    assert broken == ConnectionBroken(message="DotsMember", detail="an object before the handshake")


@pytest.mark.parametrize("stage", STAGES)
def test_every_header_names_type_and_attributes(stage: ConnectionStage) -> None:
    for name, detail in (
        ("", "a header without typeName"),
        ("T", "a header without attributes"),
        ("DotsMsgConnect", "a header without attributes"),
    ):
        header = Header(name)
        if not name:
            header.attributes = 2
        (broken,) = inputs_of(server_in(stage), Wire().frame(header, b"\xa0"))
        assert broken == ConnectionBroken(message=name or "header", detail=detail)


@pytest.mark.parametrize("name", ["DotsMsgConnect", "DotsMsgError", "DotsMsgHello"])
@pytest.mark.parametrize("stage", STAGES)
def test_a_malformed_message_breaks_the_connection(stage: ConnectionStage, name: str) -> None:
    header = Header(name)
    header.attributes = 2
    (broken,) = inputs_of(server_in(stage), Wire().frame(header, b"\xa1\x01\xf6"))
    assert isinstance(broken, ConnectionBroken)
    assert broken.message.startswith(f"{name}.")
    assert name not in broken.detail


# -- objects and the end


@pytest.mark.parametrize("stage", [ConnectionStage.EARLY_SUBSCRIBE, ConnectionStage.CONNECTED])
def test_objects_are_handed_on_as_they_are(stage: ConnectionStage) -> None:
    header = Header("NobodyKnows")
    header.attributes = 6
    (arrival,) = inputs_of(server_in(stage), Wire().frame(header, b"not even CBOR"))
    assert isinstance(arrival, ReceivedFrame)
    assert (arrival.header.type_name, arrival.header.attributes) == ("NobodyKnows", 6)
    assert arrival.payload == b"not even CBOR"


@pytest.mark.parametrize("stage", [ConnectionStage.EARLY_SUBSCRIBE, ConnectionStage.CONNECTED])
@pytest.mark.parametrize(
    ("fields", "ended"),
    [
        ({"errorCode": 0}, ConnectionEnded(code=0, text="")),
        ({"errorCode": 1, "errorText": "why"}, ConnectionEnded(code=1, text="why")),
        ({"errorCode": -5}, ConnectionEnded(code=-5, text="")),
        ({}, ConnectionEnded(code=0, text="")),
    ],
)
def test_nothing_follows_the_end_a_client_announces(
    stage: ConnectionStage, fields: dict[str, Any], ended: ConnectionEnded
) -> None:
    server = server_in(stage)
    more = message("DotsClient", id=2)
    inputs = inputs_of(server, more + message("DotsMsgError", **fields) + more + b"\xff")
    assert isinstance(inputs[0], ReceivedFrame)
    assert inputs[1:] == [ended]
    server.end(NOW_S)
    assert server.is_over
    assert inputs_of(server, more) == []


def test_the_end_is_explained_after_a_broken_protocol() -> None:
    server = server_in(ConnectionStage.CONNECTED)
    send(server, "DotsMsgHello")
    server.end(NOW_S, code=1, text="why")
    assert sent_messages(server) == [internal_class("DotsMsgError")(errorCode=1, errorText="why")]
    assert server.stage is ConnectionStage.CLOSED


# -- as recorded


def frames(session: str) -> list[dict[str, Any]]:
    recorded = json.loads((FOLDER / f"{session}.json").read_text(encoding="utf-8"))
    return [frame for frame in recorded["frames"] if "hex" in frame]


def without_times(framing: str, data: bytes) -> list[bytes]:
    wire = WIRES[framing]()
    arrived = wire.feed(data)
    for header, _ in arrived:
        assert header.sent_time != NEVER
        header.sent_time = 0.0
    return [wire.frame(header, payload) for header, payload in arrived]


@pytest.mark.parametrize(
    "session",
    [
        "handshake-no-preload",
        "publish-all-types",
        "v1-publish-all-types",
        "auth-accepted",
        "auth-rejected",
    ],
)
def test_the_handshake_is_written_as_it_was_recorded(session: str) -> None:
    framing = "v1" if session.startswith("v1") else "v2"
    recorded = frames(session)
    theirs = [f for f in recorded if f["dir"] == "server->client" and "DotsMsg" in f["type"]]
    hello, response = theirs[0]["payload"], theirs[1]["payload"]
    server = ServerConnection(WIRES[framing](), client_id=response["clientId"])
    challenge = hello["authChallenge"] if "authenticationRequired" in hello else None
    server.greet(hello["serverName"], NOW_S, challenge=challenge)
    inputs: list[Any] = []
    for frame in recorded:
        if frame["dir"] != "client->server":
            continue
        for item in inputs_of(server, bytes.fromhex(frame["hex"])):
            inputs.append(item)
            if isinstance(item, ConnectAsked):
                is_right = challenge is None or is_right_answer(
                    item.response,
                    name=item.name,
                    secret="sesame",
                    nonce=challenge,
                    cnonce=item.cnonce,
                )
                assert is_right is response["accepted"]
                answer = server.accept if is_right else server.reject
                answer(item, NOW_S)
            elif isinstance(item, JoinsFinished):
                server.finish_preload(NOW_S)
    wanted = b"".join(bytes.fromhex(f["hex"]) for f in theirs)
    assert without_times(framing, server.take_output()) == without_times(framing, wanted)
    assert not any(isinstance(item, ConnectionBroken) for item in inputs)
    if "publish" in session or session == "auth-accepted":
        assert inputs[-1] == ConnectionEnded(code=0, text="")
