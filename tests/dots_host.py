"""A DOTS host that says only what the captured C++ daemon said, for our client and commands.

Descriptions and cached objects are the captured bytes themselves. It knows the internal types of
C++ 1.2 and no others, and does not answer what that daemon does not answer: a join of a type that
it does not know or does not cache. Threads and blocking sockets, nothing of our own node.
"""

from __future__ import annotations

import io
import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import cbor2

__all__ = ["DotsHost", "dots_host"]

CAPTURED = Path(__file__).parent / "golden" / "dots" / "dynamic-trace-client.json"
INTERNAL_CACHED = {
    *("DotsClient", "DotsDaemonStatus", "DotsAuthentication", "DotsAuthenticationPolicy"),
    "DotsContinuousRecorderStatus",
}
INTERNAL_UNCACHED = {
    *("DotsMember", "DotsEcho", "DotsCacheInfo", "DotsClearCache", "DotsDescriptorRequest"),
    *("StructDescriptorData", "EnumDescriptorData"),
}


_EARLY_SUBSCRIBE, _CONNECTED = 2, 3


class DotsHost:
    """The host: types and objects as captured, and what guests described and published since."""

    def __init__(self) -> None:
        session = json.loads(CAPTURED.read_text(encoding="utf-8"))
        said = [f for f in session["frames"] if "hex" in f and f["dir"] == "server->client"]
        self.descriptions: dict[str, bytes] = {}
        """Frames, in the order in which the host sent them."""
        self.is_cached: dict[str, bool] = {}
        self.objects: dict[str, list[tuple[int, bytes]]] = {name: [] for name in INTERNAL_CACHED}
        """Attributes and payloads."""
        for frame in said:
            payload = bytes.fromhex(frame["payload_hex"])
            if frame["type"].endswith("DescriptorData") and "sentTime" not in frame["header"]:
                self.describe(frame["type"], payload)
            elif frame["type"] in self.objects:
                self.objects[frame["type"]].append((frame["header"]["attributes"]["mask"], payload))
        self.guests: list[_Guest] = []
        self.heard: list[str] = []
        """Types of all that guests sent."""
        self.is_mute = False
        """Whether it reads and never answers."""
        self.lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.place = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def describe(self, kind: str, payload: bytes) -> None:
        """Take a definition; the first of a name stays."""
        found = cbor2.loads(payload)
        name = found[1]
        if name in self.descriptions:
            return
        self.descriptions[name] = frame_of({1: kind, 3: mask_of(found)}, payload)
        if kind == "StructDescriptorData":
            self.is_cached[name] = bool(found.get(5, {}).get(1))
            if self.is_cached[name]:
                self.objects[name] = []

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join()
        for guest in self.guests:
            guest.end()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                found, _ = self._listener.accept()
                self.guests.append(_Guest(self, found, len(self.guests) + 2))


class _Guest:
    """One connection."""

    def __init__(self, host: DotsHost, found: socket.socket, number: int) -> None:
        self._host = host
        self._socket = found
        self._number = number
        self._name = "<not_set>"
        self._groups: set[str] = set()
        self._exchanged: set[str] = set()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def end(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def _serve(self) -> None:
        with self._socket, suppress(OSError, _Ended):
            self._say("DotsMsgHello", {1: "dotsd", 2: 0})
            while True:
                head = self._read(5)
                body = self._read(struct.unpack(">I", head[1:])[0])
                header, size = first_item(body)
                with self._host.lock:
                    self._host.heard.append(header[1])
                    if not self._host.is_mute:
                        self._take(header, body[size:])

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise _Ended
            data += more
        return data

    def _say(
        self, name: str, message: dict[int, Any], header: dict[int, Any] | None = None
    ) -> None:
        header = header or {1: name, 2: 1.0, 3: mask_of(message), 4: False}
        self._socket.sendall(frame_of(header, cbor2.dumps(message)))

    def _take(self, header: dict[int, Any], payload: bytes) -> None:
        name, message = header[1], cbor2.loads(payload)
        if name == "DotsMsgConnect" and 3 not in message:
            self._say("DotsMsgConnectResponse", {5: self._number, 2: True, 3: message[2]})
            self._name = message[1]
            self._tell_state(_EARLY_SUBSCRIBE)
        elif name == "DotsMsgConnect":
            self._say("DotsMsgConnectResponse", {4: True})
            self._tell_state(_CONNECTED)
        elif name == "DotsMsgError":
            raise _Ended
        elif name == "DotsEcho":
            if message.get(1):
                self._say("DotsEcho", {**message, 1: False})
        elif name == "DotsMember":
            self._join(message[1], message[2])
        elif name == "DotsDescriptorRequest":
            for known in self._host.descriptions:
                if not message.get(1) or known in message[1]:
                    self._describe(known)
            self._say("DotsCacheInfo", {4: True})
        elif name in ("StructDescriptorData", "EnumDescriptorData"):
            self._host.describe(name, payload)
            self._exchanged.add(message[1])
        elif name in self._host.is_cached or name in INTERNAL_CACHED:
            self._publish(header, payload)
        elif name not in INTERNAL_UNCACHED:
            self._say("DotsMsgError", {1: 1, 2: f"unknown type {name}"})
            raise _Ended

    def _join(self, group: str, event: int) -> None:
        if event != 1:
            self._groups.discard(group)
            return
        self._groups.add(group)
        objects = self._host.objects.get(group)
        if objects is None:
            return
        for left, (mask, payload) in enumerate(objects):
            self._describe(group)
            header = {1: group, 2: 1.0, 7: 2.0, 3: mask, 5: 2}
            header |= {8: len(objects) - 1 - left, 4: False}
            self._socket.sendall(frame_of(header, payload))
        self._say("DotsCacheInfo", {1: group, 3: True})

    def _publish(self, header: dict[int, Any], payload: bytes) -> None:
        name = header[1]
        if name in self._host.objects and not header.get(4):
            self._host.objects[name].append((header[3], payload))
        notified = {1: name, 2: 1.0, 7: 2.0, 3: header[3], 5: self._number}
        notified |= {4: header.get(4, False), 6: False}
        for guest in self._host.guests:
            if name in guest._groups:
                with suppress(OSError):
                    guest._describe(name)
                    guest._socket.sendall(frame_of(notified, payload))

    def _tell_state(self, state: int) -> None:
        message = {1: self._number, 2: self._name, 6: state}
        self._publish({1: "DotsClient", 3: mask_of(message)}, cbor2.dumps(message))

    def _describe(self, name: str) -> None:
        """Send the definitions that a type needs, those first that it uses."""
        if name not in self._host.descriptions or name in self._exchanged:
            return
        for needed in self._host.descriptions:
            # The captured ones stand in the right order, and each may use all before it.
            if needed not in self._exchanged:
                self._exchanged.add(needed)
                self._socket.sendall(self._host.descriptions[needed])
            if needed == name:
                return


class _Ended(Exception):
    """The guest is gone."""


def first_item(body: bytes) -> tuple[dict[int, Any], int]:
    stream = io.BytesIO(body)
    header = cbor2.load(stream)
    return header, stream.tell()


def mask_of(message: dict[int, Any]) -> int:
    return sum(1 << tag for tag in message)


def frame_of(header: dict[int, Any], payload: bytes) -> bytes:
    body = cbor2.dumps(header) + payload
    return b"\x1a" + struct.pack(">I", len(body)) + body


@contextmanager
def dots_host() -> Iterator[DotsHost]:
    host = DotsHost()
    try:
        yield host
    finally:
        host.close()
