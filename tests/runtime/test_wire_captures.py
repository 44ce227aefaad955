"""Captures of real exchanges between nodes, as Wireshark decodes them."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from skerry.protocol.rtps.entities import Channel, guid_prefix
from skerry.protocol.rtps.samples import RECORD_BYTES, SAMPLE_BYTES
from skerry.protocol.rtps.submessages import (
    ACKNACK,
    CHECK,
    DATA,
    DATA_FRAG,
    GAP,
    HEARTBEAT,
    INFO_DST,
    INFO_TS,
    NACK_FRAG,
    SEALED,
)
from tests.runtime.network import ROOT, Network, agree, together, until

VECTORS: Final = ROOT / "tests" / "golden" / "rtps"
FAULTS: Final = "_ws.malformed || _ws.expert.severity >= 0x600000"
"""What Wireshark cannot decode, and its warnings and errors."""
MESSAGE_BYTES: Final = 5000
_IPV4: Final = 228
"""The kind of a capture whose frames begin with the IP header."""


@pytest.fixture(scope="module")
def tshark() -> str:
    """The program that decodes captures."""
    found = shutil.which("tshark")
    if found is None:
        pytest.skip("tshark is not installed, which decodes captures (Debian: tshark)")
    return found


def decoded(tshark: str, capture: Path, *fields: str, where: str = "rtps") -> list[dict[str, Any]]:
    """The fields of each frame to which a filter applies, as lists of their values."""
    names = [word for field in fields for word in ("-e", field)]
    reassembly = ("-o", "rtps.enable_rtps_reassembly:TRUE")
    done = subprocess.run(
        [tshark, "-n", "-r", str(capture), *reassembly, "-Y", where, "-T", "json", *names],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [frame["_source"].get("layers", {}) for frame in json.loads(done.stdout)]


def capture_of(path: Path, names: list[str]) -> Path:
    """A capture of golden vectors."""
    with path.open("wb") as file:
        file.write(struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, _IPV4))
        for name in names:
            data = bytes.fromhex(json.loads((VECTORS / f"{name}.json").read_text())["hex"])
            port = 26660 + data[11]
            udp = struct.pack(">HHHH", port, port, 8 + len(data), 0) + data
            head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0)
            packet = head + bytes((10, 0, 0, 1, 10, 0, 0, 2)) + udp
            file.write(struct.pack("=IIII", 0, 0, len(packet), len(packet)) + packet)
    return path


def test_the_vectors_are_decoded_without_a_warning(tshark: str, tmp_path: Path) -> None:
    names = sorted(path.stem for path in VECTORS.glob("[01]*.json"))
    assert len(names) == 19
    capture = capture_of(tmp_path / "vectors.pcap", names)
    assert decoded(tshark, capture, "frame.number", where=FAULTS) == []
    fields = ("rtps.domain_id", "rtps.param.entityName", "rtps.reassembled.length")
    frames = decoded(tshark, capture, *fields)
    assert [frame["rtps.domain_id"] for frame in frames] == [["77"]] * 19
    found = dict(zip(names, frames, strict=True))
    assert found["01_discover"]["rtps.param.entityName"] == ["alpha"]
    assert found["02_node_info"]["rtps.param.entityName"] == ["beta", "gamma"]
    assert found["07_data_frag_3"]["rtps.reassembled.length"] == ["3021"]


def test_a_truncated_vector_is_shown_as_malformed(tshark: str, tmp_path: Path) -> None:
    capture = capture_of(tmp_path / "vectors.pcap", ["04_data_multi", "93_truncated"])
    (fault,) = decoded(tshark, capture, "frame.number", where=FAULTS)
    assert fault["frame.number"] == ["2"]


@pytest.mark.slow
@pytest.mark.parametrize("is_sealed", [False, True], ids=["clear", "sealed"])
def test_an_exchange_of_three_nodes_is_decoded(
    tshark: str, tmp_path: Path, is_sealed: bool
) -> None:
    capture = tmp_path / "exchange.pcap"
    ids: set[int] = set()
    with Network(tmp_path) as network:
        # One in 20 datagrams is lost, so that there are repairs as well.
        hosts, relay = network.relayed("abc", loss=0.05, capture=capture)
        nodes = together(hosts, **({"secret": "5a" * 32} if is_sealed else {}))
        ids = {node.node for node in nodes}
        for node in nodes:
            node.publish(20, MESSAGE_BYTES)
            node.publish(20)
        until(lambda: all(one.has_received(40, *set(nodes) - {one}) for one in nodes))
        nodes[2].ask("stop")
        until(lambda: agree(*nodes[:2]))
        relay.stop()
    assert decoded(tshark, capture, "frame.number", where=FAULTS) == []
    assert decoded(tshark, capture, "frame.number", where="udp && !rtps") == []
    fields = (
        "rtps.domain_id",
        "rtps.guidPrefix.src",
        "rtps.sm.id",
        "rtps.param.entityName",
        "rtps.locator.ipv4",
        "rtps.reassembled.length",
    )
    frames = decoded(tshark, capture, *fields)
    seen = {
        field: Counter(value for frame in frames for value in frame.get(field, ()))
        for field in fields
    }
    assert set(seen["rtps.domain_id"]) == {"77"}
    prefixes = {guid_prefix(node, channel).hex() for node in ids for channel in Channel}
    assert {prefix.replace(":", "") for prefix in seen["rtps.guidPrefix.src"]} == prefixes
    kinds = {int(kind, 16) for kind in seen["rtps.sm.id"]}
    if is_sealed:
        assert kinds == {SEALED}
        return
    usual = {INFO_DST, INFO_TS, DATA, DATA_FRAG, HEARTBEAT, ACKNACK, GAP, CHECK}
    assert usual <= kinds <= usual | {NACK_FRAG}
    assert set(seen["rtps.param.entityName"]) == {"a", "b", "c"}
    assert set(seen["rtps.locator.ipv4"]) == {f"10.77.0.{number}" for number in (1, 2, 3)}
    lengths = seen["rtps.reassembled.length"]
    assert lengths[str(MESSAGE_BYTES + SAMPLE_BYTES + RECORD_BYTES)] >= 60
