"""An object store on loopback: a process of its own that speaks S3, as tests start and end it."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import IO
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

__all__ = ["ObjectStore", "refusing_port", "started"]

_RUNNING = re.compile(r"Running on http://127\.0\.0\.1:(\d+)")
_DOOR = "/moto-api/reset-auth"
"""How many requests more are let in without a look at their keys."""
_ALWAYS = 10**9
_KEEPER = (
    "AWS4-HMAC-SHA256 Credential=tests/20260101/us-east-1/s3/aws4_request,"
    " SignedHeaders=host, Signature=0"
)
"""Who asks without any may not see what others have put there."""


class ObjectStore:
    """A running server as its test sees it; its keys are not checked."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.environment = {
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "tests",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            # The network is not searched for credentials.
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        self._names = (f"bucket-{number}" for number in count(1))

    def new_bucket(self) -> str:
        """The name of a bucket with nothing in it."""
        name = next(self._names)
        self._ask("PUT", f"/{name}")
        return name

    def put(self, uri: str, data: bytes) -> None:
        self._ask("PUT", _path(uri), data)

    def get(self, uri: str) -> bytes:
        return self._ask("GET", _path(uri))

    def delete(self, uri: str) -> None:
        self._ask("DELETE", _path(uri))

    def names(self, uri: str) -> list[str]:
        """What is below a URI, relative to it; a thousand at the most."""
        bucket, _, key = uri.partition("://")[2].partition("/")
        query = urlencode({"list-type": "2", "prefix": f"{key}/"})
        found = ElementTree.fromstring(self._ask("GET", f"/{bucket}?{query}"))
        keys = [element.text or "" for element in found.iter() if element.tag.endswith("Key")]
        return sorted(name[len(key) + 1 :] for name in keys)

    def put_folder(self, folder: Path, uri: str) -> None:
        """Copy the files of a folder as a tool would that knows nothing of recordings."""
        for path in sorted(folder.iterdir()):
            if path.is_file():
                self.put(f"{uri}/{path.name}", path.read_bytes())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Within it, every request is refused: no user has valid keys."""
        self._ask("POST", _DOOR, b"0")
        try:
            yield
        finally:
            self._ask("POST", _DOOR, str(_ALWAYS).encode())

    def _ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        connection = HTTPConnection("127.0.0.1", self.port)
        try:
            connection.request(method, path, body, {"Authorization": _KEEPER})
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        assert answer.status < 300, f"{method} {path}: {answer.status} {content!r:.200}"
        return content


@contextmanager
def started() -> Iterator[ObjectStore]:
    """A server, on a port that it finds free; inside it runs."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            port = _port_of(process.stderr)
            # It logs each request, and would block if the pipe were not read.
            reader = threading.Thread(target=process.stderr.read, daemon=True)
            reader.start()
            yield ObjectStore(port)
        finally:
            process.kill()
        reader.join()


@contextmanager
def refusing_port() -> Iterator[int]:
    """A port without a listener, which no other program can take."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield int(taken.getsockname()[1])


def _port_of(words: IO[str]) -> int:
    said = []
    for line in words:
        said.append(line)
        if found := _RUNNING.search(line):
            return int(found[1])
    raise AssertionError(f"no object store was started: {''.join(said)}")


def _path(uri: str) -> str:
    return "/" + quote(uri.partition("://")[2])
