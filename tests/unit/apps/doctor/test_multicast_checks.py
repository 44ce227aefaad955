"""The checks for multicast, on this computer and on made-up ones."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from skerry.apps.doctor import multicast_checks as doctor_multicast
from skerry.apps.doctor.multicast_checks import examine_multicast
from skerry.apps.doctor.results import CheckResult
from skerry.errors import ConnectFailed
from skerry.runtime.udp.datagrams import Buffer
from skerry.runtime.udp.interfaces import Interface
from skerry.runtime.udp.multicast import MulticastSocket


def findings(proc: Path = Path("/proc")) -> dict[str, CheckResult]:
    return {found.check: found for found in examine_multicast(rng=Random(1), proc=proc)}


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Kernel files that tests can change."""
    for name, text in {
        "net/snmp": "Udp: InDatagrams RcvbufErrors\nUdp: 100 0\nUdpLite: InDatagrams\n",
        "sys/net/ipv4/igmp_max_memberships": "20\n",
        "sys/net/ipv4/conf/all/force_igmp_version": "0\n",
        "sys/net/ipv4/conf/all/rp_filter": "0\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_this_computer_carries_multicast_on_loopback() -> None:
    found = findings()
    assert found["multicast on lo"].verdict == "ok"
    assert found["UDP segmentation"].verdict == "ok"
    assert {finding.verdict for finding in found.values()} <= {"ok", "warn"}
    assert "IGMP" in found
    assert "multicast route" in found


def test_drops_of_the_kernel_are_reported(proc: Path) -> None:
    assert findings(proc)["datagrams dropped"].verdict == "ok"
    (proc / "net/snmp").write_text("Udp: InDatagrams RcvbufErrors\nUdp: 100 7\n")
    found = findings(proc)["datagrams dropped"]
    assert found.verdict == "warn"
    assert found.facts.startswith("7 of 107")
    (proc / "net/snmp").write_text("Udp: only one line\n")
    assert "not reported" in findings(proc)["datagrams dropped"].facts


def test_low_membership_limit_is_reported(proc: Path) -> None:
    assert "20 groups" in findings(proc)["IGMP"].facts
    (proc / "sys/net/ipv4/igmp_max_memberships").write_text("19\n")
    (proc / "sys/net/ipv4/conf/all/force_igmp_version").write_text("2\n")
    found = findings(proc)["IGMP"]
    assert found.verdict == "warn"
    assert "version 2 is forced" in found.facts
    assert "igmp_max_memberships=20" in found.advice


def test_missing_kernel_files_are_ok(tmp_path: Path) -> None:
    found = findings(tmp_path / "nothing")
    assert found["datagrams dropped"].verdict == "ok"
    assert found["IGMP"].verdict == "ok"


def test_strict_filtering_is_reported(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cards = [Interface(name=name, index=1, address="127.0.0.1") for name in ("a", "b", "c")]
    monkeypatch.setattr(doctor_multicast, "list_interfaces", lambda: cards)
    (proc / "sys/net/ipv4/conf/b").mkdir()
    (proc / "sys/net/ipv4/conf/b/rp_filter").write_text("1\n")
    found = findings(proc)
    assert found["filter on b"].verdict == "warn"
    assert "filter on a" not in found


def test_small_buffers_are_reported_with_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Buffer(asked_bytes=9, bytes=5, sysctl="net.core.rmem_max")
    monkeypatch.setattr(doctor_multicast, "set_buffers", lambda *_: (small, small))
    found = findings()["receive buffer"]
    assert found.verdict == "warn"
    assert "net.core.rmem_max" in found.advice


def test_interface_that_cannot_be_joined_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:

    def refuse(group: object, *, interface: str = "", ttl: int = 0) -> object:
        if interface == "127.0.0.1" and not refusals:
            refusals.append(interface)
            raise ConnectFailed("cannot join")
        return MulticastSocket(group, interface=interface, ttl=ttl)  # type: ignore[arg-type]

    refusals: list[str] = []
    monkeypatch.setattr(doctor_multicast, "MulticastSocket", refuse)
    assert findings()["multicast on lo"].verdict == "warn"


def test_missing_route_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str, *, group: str, port: int) -> Interface:
        raise ConnectFailed("no way")

    monkeypatch.setattr(doctor_multicast, "find_interface", refuse)
    found = findings()["multicast route"]
    assert found.verdict == "warn"
    assert "224.0.0.0/4" in found.advice


def test_other_interfaces_are_not_tried_unless_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = [
        Interface(name="eth0", index=1, address="127.0.0.1"),
        Interface(name="eth1", index=1, address="127.0.0.1", has_multicast=False),
    ]
    monkeypatch.setattr(doctor_multicast, "list_interfaces", lambda: cards)
    found = findings()
    assert "not tested" in found["multicast on eth0"].facts
    assert found["multicast on eth1"].verdict == "warn"
    tried = {f.check: f for f in examine_multicast(interface="eth0", rng=Random(1))}
    assert "works on this computer" in tried["multicast on eth0"].facts


def test_datagram_that_is_not_received_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_multicast, "_ANSWER_S_MAX", 0.01)
    monkeypatch.setattr(MulticastSocket, "send_all", lambda *_: None)
    assert findings()["multicast on lo"].facts == "a datagram that was sent is not received"


def test_datagram_that_cannot_be_sent_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, datagrams: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(MulticastSocket, "send_all", refuse)
    assert "not permitted" in findings()["multicast on lo"].facts


def test_small_mtu_is_reported() -> None:
    card = Interface(name="eth0", index=2, address="127.0.0.1", mtu=1500)
    assert "limited to it" in doctor_multicast._mtu(card).facts
    jumbo = Interface(name="eth0", index=2, address="127.0.0.1", mtu=9000)
    assert doctor_multicast._mtu(jumbo).facts == "9000 bytes"


def test_kernel_without_trains_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old(MulticastSocket):
        def __init__(self, *given: object, **named: object) -> None:
            super().__init__(*given, **named, trains=False)  # type: ignore[arg-type]

    monkeypatch.setattr(doctor_multicast, "MulticastSocket", Old)
    assert "no UDP_SEGMENT" in findings()["UDP segmentation"].facts
