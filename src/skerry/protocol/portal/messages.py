"""Messages between the manager and its clients, in the wire format of Protocol Buffers.

Text is written and read as bytes with surrogate escapes, as a peer may send what is not UTF-8.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import DecodeError as ProtobufError

from skerry.errors import DecodeError
from skerry.protocol.portal.identifiers import Scheme, prefix
from skerry.protocol.protobuf_tables import MessageTables, message_classes

REQUEST_GROUP: Final = "goby::zeromq::_internal_manager_request"
REQUEST_TYPE: Final = "goby.zeromq.protobuf.ManagerRequest"
REQUEST_FILTER: Final = prefix(REQUEST_GROUP, Scheme.PROTOBUF, REQUEST_TYPE)
RESPONSE_GROUP: Final = "goby::zeromq::_internal_manager_response"
RESPONSE_TYPE: Final = "goby.zeromq.protobuf.ManagerResponse"
RESPONSE_FILTER: Final = prefix(RESPONSE_GROUP, Scheme.PROTOBUF, RESPONSE_TYPE)
"""Under which requests about the hold and their answers are published."""

MANAGER_MESSAGE_BYTES_MAX: Final = 64 * 1024
"""One message to or from the manager. A name and two sockets take some hundred bytes."""

_MESSAGES: Final[MessageTables] = {
    "ManagerRequest": (
        *("1 int32 request", "2 bytes client_name", "3 int32 client_pid", "4 bool ready"),
    ),
    "Socket": (
        *("1 int32 socket_type", "2 uint32 socket_id", "3 int32 transport"),
        *("4 int32 connect_or_bind", "5 bytes ethernet_address", "6 bytes multicast_address"),
        *("7 uint32 ethernet_port", "8 bytes socket_name"),
        *("10 uint32 send_queue_size", "11 uint32 receive_queue_size"),
    ),
    "ManagerResponse": (
        *("1 int32 request", "2 bytes client_name", "3 int32 client_pid"),
        *("4 Socket publish_socket", "5 Socket subscribe_socket", "6 bool hold"),
    ),
}
_CLASSES: Final = message_classes("skerry.portal", _MESSAGES, syntax="proto2")
_CONNECT: Final = 1


class ManagerQuestion(enum.IntEnum):
    """What a client asks the manager for."""

    SOCKETS = 1
    HOLD = 2


class PortalTransport(enum.IntEnum):
    """How clients reach a portal."""

    IPC = 2
    TCP = 3


class SocketType(enum.IntEnum):
    """What the client does with a socket."""

    PUBLISH = 1
    SUBSCRIBE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerRequest:
    question: ManagerQuestion
    client_name: str = ""
    client_pid: int = 0
    ready: bool | None = None
    """Whether the client has made its subscriptions; None if it does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSocket:
    """A socket of the router, as told to clients."""

    transport: PortalTransport
    path: str = ""
    """Path of an IPC socket."""
    port: int = 0
    """Port of a TCP socket. Its host is that at which the client reached the manager."""
    send_queue_size: int = 1000
    receive_queue_size: int = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerResponse:
    question: ManagerQuestion
    client_name: str | None = None
    client_pid: int | None = None
    publish_socket: DataSocket | None = None
    subscribe_socket: DataSocket | None = None
    hold: bool | None = None
    """Whether the client may not publish yet; None if the answer does not say, which means yes."""


def write_request(request: ManagerRequest) -> bytes:
    """Return the bytes of a request."""
    made = _CLASSES["ManagerRequest"](
        request=request.question,
        client_name=_bytes(request.client_name),
        client_pid=request.client_pid,
    )
    if request.ready is not None:
        made.ready = request.ready
    return _serialized(made)


def read_request(data: bytes) -> ManagerRequest:
    """Return a request; missing fields have their defaults. Raises DecodeError."""
    found = _parsed("ManagerRequest", data)
    return ManagerRequest(
        question=_question("ManagerRequest", found.request),
        client_name=_text(found.client_name),
        client_pid=found.client_pid,
        ready=found.ready if found.HasField("ready") else None,
    )


def write_response(response: ManagerResponse) -> bytes:
    """Return the bytes of a response."""
    made = _CLASSES["ManagerResponse"](request=response.question)
    if response.client_name is not None:
        made.client_name = _bytes(response.client_name)
    if response.client_pid is not None:
        made.client_pid = response.client_pid
    if response.publish_socket is not None:
        _fill(made.publish_socket, SocketType.PUBLISH, response.publish_socket)
    if response.subscribe_socket is not None:
        _fill(made.subscribe_socket, SocketType.SUBSCRIBE, response.subscribe_socket)
    if response.hold is not None:
        made.hold = response.hold
    return _serialized(made)


def read_response(data: bytes) -> ManagerResponse:
    """Return a response. Raises DecodeError."""
    found = _parsed("ManagerResponse", data)
    has = found.HasField
    return ManagerResponse(
        question=_question("ManagerResponse", found.request),
        client_name=_text(found.client_name) if has("client_name") else None,
        client_pid=found.client_pid if has("client_pid") else None,
        publish_socket=_socket(found.publish_socket) if has("publish_socket") else None,
        subscribe_socket=_socket(found.subscribe_socket) if has("subscribe_socket") else None,
        hold=found.hold if has("hold") else None,
    )


def _fill(made: Any, socket_type: SocketType, socket: DataSocket) -> None:
    made.socket_type = socket_type
    made.transport = socket.transport
    made.connect_or_bind = _CONNECT
    if socket.transport == PortalTransport.IPC:
        made.socket_name = _bytes(socket.path)
    else:
        made.ethernet_port = socket.port
    made.send_queue_size = socket.send_queue_size
    made.receive_queue_size = socket.receive_queue_size


def _socket(found: Any) -> DataSocket:
    try:
        transport = PortalTransport(found.transport)
    except ValueError:
        raise DecodeError(
            type_name="ManagerResponse",
            detail=f"transport {found.transport} is neither IPC (2) nor TCP (3)",
        ) from None
    queues = {
        name: getattr(found, name) if found.HasField(name) else 1000
        for name in ("send_queue_size", "receive_queue_size")
    }
    path, port = _text(found.socket_name), found.ethernet_port
    if transport == PortalTransport.IPC and (not path or "\0" in path):
        raise DecodeError(type_name="ManagerResponse", detail="an IPC socket has no valid path")
    if transport == PortalTransport.TCP and not 0 < port < 65536:
        raise DecodeError(type_name="ManagerResponse", detail=f"port {port} is not 1 to 65535")
    return DataSocket(transport=transport, path=path, port=port, **queues)


def _question(name: str, number: int) -> ManagerQuestion:
    try:
        return ManagerQuestion(number)
    except ValueError:
        raise DecodeError(
            type_name=name, field="request", detail=f"{number} is neither sockets (1) nor hold (2)"
        ) from None


def _parsed(name: str, data: bytes) -> Any:
    if len(data) > MANAGER_MESSAGE_BYTES_MAX:
        detail = f"{len(data)} bytes, the limit is {MANAGER_MESSAGE_BYTES_MAX}"
        raise DecodeError(type_name=name, detail=detail)
    found = _CLASSES[name]()
    try:
        found.ParseFromString(data)
    except ProtobufError as error:
        raise DecodeError(type_name=name, detail=str(error)) from None
    return found


def _serialized(made: Any) -> bytes:
    data: bytes = made.SerializeToString(deterministic=True)
    return data


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
