"""A few seeds of the fuzzing that `make soak` does for minutes, and whether it finds anything."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from skerry.engine.node import NodeCore
from skerry.protocol.machine import Address, Transmit

PATH = Path(__file__).parent.parent / "soak" / "core_fuzz.py"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def fuzz() -> Any:
    spec = importlib.util.spec_from_file_location("soak_core_fuzz", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", range(6))
def test_malicious_clients_do_not_affect_others(fuzz: Any, seed: int) -> None:
    assert fuzz.run_seed(seed, fuzz.all_sessions()) is None


class Stumbles(NodeCore):
    """Raises on bytes that it does not like."""

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        super().receive(data, source, now_ns)
        if source.host == "stranger" and b"\xff\xff" in data:
            raise ValueError("two of them")


class Drops(NodeCore):
    """Loses the queued output of all clients when it disconnects one."""

    def take_transmits(self) -> list[Transmit]:
        transmits = super().take_transmits()
        hosts = {item.destination.host for item in transmits}
        return [item for item in transmits if len(hosts) == 1 or item.destination.port != 2]


class Garbles(NodeCore):
    """Sends bytes that are not a frame on new connections."""

    def take_transmits(self) -> list[Transmit]:
        return [
            Transmit(destination=item.destination, data=b"\x00" * 9)
            if item.destination.host == "stranger" and len(item.data) > 500
            else item
            for item in super().take_transmits()
        ]


@pytest.mark.parametrize(
    ("kind", "words"),
    [(Stumbles, "ValueError came out"), (Drops, "reports"), (Garbles, "Error came out")],
)
def test_a_node_that_is_harmed_is_found(fuzz: Any, kind: type[NodeCore], words: str) -> None:
    sessions = fuzz.all_sessions()
    faults = [fuzz.run_seed(seed, sessions, core_class=kind) for seed in range(5)]
    assert any(fault is not None and words in fault for fault in faults), faults
