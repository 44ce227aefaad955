"""The node as a program: where it listens, what it tells, and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest

from skerry.apps import node
from skerry.apps.node import DEFAULT_ENDPOINTS, run_node
from skerry.errors import ConnectFailed
from skerry.runtime.endpoints import parse_endpoint


def told_by_node(*texts: str) -> list[str]:
    """What a node tells that is asked to end as soon as it listens."""
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        if "listens at" in text:
            os.kill(os.getpid(), signal.SIGTERM)

    endpoints = [parse_endpoint(text) for text in texts]
    asyncio.run(run_node(name="harbour", endpoints=endpoints, tell=tell))
    return told


def port_of(taken: socket.socket) -> int:
    port = taken.getsockname()[1]
    assert isinstance(port, int)
    return port


def test_node_tells_where_it_listens_and_that_it_ends(tmp_path: Path) -> None:
    place = f"uds:{tmp_path}/node.sock"
    assert told_by_node(place) == [f"node harbour listens at {place}", "node harbour ends"]
    assert list(tmp_path.iterdir()) == []


def test_signals_mean_what_they_meant_when_the_node_is_over(tmp_path: Path) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    told_by_node(f"uds:{tmp_path}/node.sock")
    assert [signal.getsignal(number) for number in numbers] == before


def test_usual_places_are_of_this_computer_and_for_both_framings() -> None:
    places = [parse_endpoint(text) for text in DEFAULT_ENDPOINTS]
    assert [(place.host, place.port, place.version) for place in places] == [
        ("127.0.0.1", 11235, 2),
        ("127.0.0.1", 11234, 1),
    ]


def test_usual_place_that_is_taken_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        usual = (f"tcp://127.0.0.1:{port_of(taken)}", "tcp-v1://127.0.0.1:0")
        monkeypatch.setattr(node, "DEFAULT_ENDPOINTS", usual)
        passed, listens, ends = told_by_node()
    assert passed.startswith(f"cannot listen at {usual[0]}: ")
    assert passed.endswith("; passed over")
    assert listens.startswith("node harbour listens at tcp-v1://127.0.0.1:")
    assert ", " not in listens
    assert ends == "node harbour ends"


def test_node_without_any_place_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        usual = (f"tcp://127.0.0.1:{port_of(taken)}",)
        monkeypatch.setattr(node, "DEFAULT_ENDPOINTS", usual)
        with pytest.raises(ConnectFailed, match="every usual place to listen at is taken"):
            told_by_node()


def test_named_place_that_is_taken_is_not_passed_over(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"tcp://127.0.0.1:{port_of(taken)}"
        with pytest.raises(ConnectFailed, match=f"cannot listen at {place}"):
            told_by_node(f"uds:{tmp_path}/node.sock", place)
    assert list(tmp_path.iterdir()) == []
