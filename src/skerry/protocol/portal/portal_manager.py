"""The manager of a portal: tells clients the sockets of the router, and answers about the hold.

It answers every request, because the socket of requests is stuck at an unanswered one. Requests
about the hold are publications: a client that receives the answer knows that both of its data
sockets work.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from skerry.errors import DecodeError
from skerry.protocol.machine import MachineEvent
from skerry.protocol.portal.config import CLIENT_NAME_CHAR_COUNT_MAX
from skerry.protocol.portal.hold import Hold
from skerry.protocol.portal.identifiers import Identifier, Scheme, publication_head, split_frame
from skerry.protocol.portal.messages import (
    REQUEST_FILTER,
    RESPONSE_GROUP,
    RESPONSE_TYPE,
    DataSocket,
    ManagerQuestion,
    ManagerRequest,
    ManagerResponse,
    read_request,
    write_response,
)

PORTAL_CLIENT_COUNT_MAX: Final = 10_000
"""Clients that the manager remembers. Any program can invent names, so the oldest are forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalClientSeen(MachineEvent):
    """A client asked the manager for the first time."""

    client_name: str
    client_pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestMalformed(MachineEvent):
    """A request to the manager is malformed. It is answered nevertheless."""

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredClientReady(MachineEvent):
    """A client that the hold requires is ready."""

    client_name: str
    missing: tuple[str, ...]
    """The required clients that are still missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldReleased(MachineEvent):
    """All required clients were ready; clients publish from now on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerStatistics:
    """Counters of a manager."""

    requests_count: int
    """Requests for the sockets or the hold, by request and reply."""
    hold_requests_count: int
    """Published requests about the hold."""
    malformed_count: int
    """Messages to the manager that are malformed."""
    clients_count: int
    """Clients that are remembered."""
    is_held: bool
    missing: tuple[str, ...]
    """The required clients that were not ready yet."""


class PortalManager:
    """The manager of one portal."""

    def __init__(
        self,
        *,
        publish_socket: DataSocket,
        subscribe_socket: DataSocket,
        required: frozenset[str],
        process: int,
        thread: int,
    ) -> None:
        """`required` are the names of the clients that the hold waits for; `process` and `thread`
        identify the publications of the manager."""
        self._publish_socket = publish_socket
        self._subscribe_socket = subscribe_socket
        self.hold = Hold(required)
        self._head = publication_head(
            Identifier(
                group=RESPONSE_GROUP,
                scheme=Scheme.PROTOBUF,
                type_name=RESPONSE_TYPE,
                process=process,
                thread=thread,
            )
        )
        self._events: list[MachineEvent] = []
        self._clients: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._requests_count = 0
        self._hold_requests_count = 0
        self._malformed_count = 0

    def answer(self, data: bytes) -> bytes:
        """Return the answer to a request."""
        self._requests_count += 1
        try:
            request = read_request(data)
        except DecodeError as error:
            self._malformed_count += 1
            self._events.append(RequestMalformed(detail=str(error)))
            return write_response(ManagerResponse(question=ManagerQuestion.SOCKETS))
        self._note_client(request)
        if request.question is ManagerQuestion.HOLD:
            return self._hold_answer(request)
        return write_response(
            ManagerResponse(
                question=ManagerQuestion.SOCKETS,
                client_name=request.client_name,
                client_pid=request.client_pid,
                publish_socket=self._publish_socket,
                subscribe_socket=self._subscribe_socket,
            )
        )

    def receive(self, frame: bytes) -> bytes | None:
        """Return the publication that answers one of a client; None if there is no answer."""
        request = _published_request(frame)
        if request is None:
            self._malformed_count += 1
            return None
        self._hold_requests_count += 1
        self._note_client(request)
        return self._head + self._hold_answer(request)

    def take_events(self) -> list[MachineEvent]:
        """Return the events since the last call, oldest first."""
        events, self._events = self._events, []
        return events

    def clients(self) -> list[tuple[str, int]]:
        """Name and process id of the clients, those that asked last at the end."""
        return list(self._clients)

    def statistics(self) -> ManagerStatistics:
        """Return an immutable snapshot of the counters."""
        return ManagerStatistics(
            requests_count=self._requests_count,
            hold_requests_count=self._hold_requests_count,
            malformed_count=self._malformed_count,
            clients_count=len(self._clients),
            is_held=self.hold.is_held,
            missing=tuple(sorted(self.hold.missing)),
        )

    # -- inside

    def _hold_answer(self, request: ManagerRequest) -> bytes:
        if request.ready:
            self._note_ready(request.client_name)
        return write_response(
            ManagerResponse(
                question=ManagerQuestion.HOLD,
                client_name=request.client_name,
                client_pid=request.client_pid,
                hold=self.hold.is_held,
            )
        )

    def _note_ready(self, name: str) -> None:
        was_missing = name in self.hold.missing
        is_released = self.hold.client_ready(name)
        if was_missing:
            missing = tuple(sorted(self.hold.missing))
            self._events.append(RequiredClientReady(client_name=name, missing=missing))
        if is_released:
            self._events.append(HoldReleased())

    def _note_client(self, request: ManagerRequest) -> None:
        name = request.client_name
        if not name or len(name) > CLIENT_NAME_CHAR_COUNT_MAX:
            return
        client = (name, request.client_pid)
        if client in self._clients:
            self._clients.move_to_end(client)
            return
        self._clients[client] = None
        if len(self._clients) > PORTAL_CLIENT_COUNT_MAX:
            self._clients.popitem(last=False)
        self._events.append(PortalClientSeen(client_name=name, client_pid=request.client_pid))


def _published_request(frame: bytes) -> ManagerRequest | None:
    """The request about the hold of a publication; None if it is none."""
    try:
        head, start = split_frame(frame)
        request = read_request(frame[start:])
    except DecodeError:
        return None
    is_valid = head.startswith(REQUEST_FILTER) and request.question is ManagerQuestion.HOLD
    return request if is_valid else None
