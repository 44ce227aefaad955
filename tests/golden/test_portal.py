"""The portal's wire as it was captured: read, understood, and written again as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from skerry.protocol.portal.identifiers import publication_head, read_frame
from skerry.protocol.portal.messages import (
    REQUEST_FILTER,
    RESPONSE_FILTER,
    DataSocket,
    ManagerQuestion,
    ManagerRequest,
    ManagerResponse,
    PortalTransport,
    read_request,
    read_response,
    write_request,
    write_response,
)

FOLDER = Path(__file__).resolve().parent / "goby"


def vectors(file: str) -> list[dict[str, Any]]:
    return list(json.loads((FOLDER / file).read_text())["vectors"])


def of_sockets(*sockets: str) -> list[Any]:
    return [
        pytest.param(bytes.fromhex(one["hex"]), id=f"{file}-{one['name']}-{number}")
        for file in ("manager-ipc.json", "manager-tcp.json", "manager-documented.json")
        for number, one in enumerate(vectors(file))
        if one["socket"] in sockets
    ]


def session(kind: str) -> list[bytes]:
    events = json.loads((FOLDER / "client-session-ipc.json").read_text())["events"]
    return [bytes.fromhex(one["hex"]) for one in events if one["kind"] == kind]


@pytest.mark.parametrize("data", of_sockets("PUB", "SUB"))
def test_each_captured_publication_is_read_and_written_again(data: bytes) -> None:
    found = read_frame(data)
    assert publication_head(found.identifier) + found.payload == data


@pytest.mark.parametrize("data", [one for one in of_sockets("REQ") if one.values[0] != b"\x08\x01"])
def test_each_captured_request_is_read_and_written_again(data: bytes) -> None:
    assert write_request(read_request(data)) == data


@pytest.mark.parametrize("data", of_sockets("REP"))
def test_each_captured_response_is_read_and_written_again(data: bytes) -> None:
    found = read_response(data)
    if found.publish_socket is not None and b"127.0.0.1" in data:
        # Older brokers name an address, which clients ignore.
        assert (found.publish_socket.port, found.client_name) == (36635, None)
        return
    assert write_response(found) == data


@pytest.mark.parametrize("data", session("PUB") + session("REQ") + session("REP"))
def test_each_message_of_the_captured_session_is_read_and_written_again(data: bytes) -> None:
    if data.startswith(b"/"):
        found = read_frame(data)
        assert publication_head(found.identifier) + found.payload == data
        if found.identifier.key == REQUEST_FILTER:
            assert write_request(read_request(found.payload)) == found.payload
    elif len(data) < 30:
        assert write_request(read_request(data)) == data
    else:
        assert write_response(read_response(data)) == data


def test_the_filters_are_those_of_the_captured_session() -> None:
    assert session("SUBSCRIPTION")[0] == b"\x01" + RESPONSE_FILTER
    assert session("SUBSCRIPTION")[-1] == b"\x00" + RESPONSE_FILTER


def test_a_minimal_request_has_defaults() -> None:
    assert read_request(bytes.fromhex("0801")) == ManagerRequest(question=ManagerQuestion.SOCKETS)


def test_the_response_over_tcp_is_as_documented() -> None:
    found = read_response(bytes.fromhex(vectors("manager-tcp.json")[1]["hex"]))
    assert found == ManagerResponse(
        question=ManagerQuestion.SOCKETS,
        client_name="vector_client",
        client_pid=4242,
        publish_socket=DataSocket(transport=PortalTransport.TCP, port=34901),
        subscribe_socket=DataSocket(transport=PortalTransport.TCP, port=35547),
    )
