"""Checks of multicast on this computer, for the distributor.

Only the loopback interface and a named one are tested: joining a group is visible on the network.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Final

from skerry.apps.doctor.results import CheckResult, judged, passed, warning
from skerry.errors import SkerryError
from skerry.formatting import bytes_text, count
from skerry.protocol.distributor.config import SEGMENT_BYTES_USUAL
from skerry.protocol.machine import Address
from skerry.runtime.udp.datagrams import set_buffers
from skerry.runtime.udp.interfaces import Interface, find_interface, list_interfaces
from skerry.runtime.udp.multicast import MulticastSocket

RECEIVE_BYTES_GOOD: Final = 8 * 1024 * 1024
"""Receive buffer for 0.1 seconds of a million small updates per second."""

_ANSWER_S_MAX: Final = 1.0
_GROUP: Final = "239.255.77.77"
_MEMBERSHIPS_FEW: Final = 20
_PROC: Final = Path("/proc")


def examine_multicast(
    *, interface: str = "", rng: Random | None = None, proc: Path = _PROC
) -> Iterable[CheckResult]:
    """Run all checks, and yield each result; `interface` is the name or address of one to test."""
    # A random port, which probably no other program uses for multicast.
    port = (rng or Random()).randrange(20_000, 32_000)
    interfaces = [i for i in list_interfaces() if i.is_up and i.address]
    for one in interfaces:
        is_tested = one.is_loopback or interface in (one.name, one.address)
        yield _test(one, port) if is_tested else _inspect(one)
    yield _route(port)
    yield from map(_mtu, [i for i in interfaces if not i.is_loopback])
    yield _buffers()
    yield _segmentation(port)
    yield _drops(proc)
    yield _memberships(proc)
    yield from _reverse_path(proc, interfaces)


def _test(interface: Interface, port: int) -> CheckResult:
    """Whether a group can be joined, and a datagram to it is received."""
    check = f"multicast on {interface.name}"
    advice = f"ip link set {interface.name} multicast on; and check that no firewall drops it"
    try:
        made = MulticastSocket(Address(_GROUP, port), interface=interface.address, ttl=0)
    except SkerryError as error:
        return warning(check, str(error), error.hint or advice)
    try:
        made.send_all([b"skerry doctor"])
        readable, _, _ = select.select([made], [], [], _ANSWER_S_MAX)
    except OSError as error:
        return warning(check, f"cannot send: {error.strerror}", advice)
    finally:
        made.close()
    if not readable:
        return warning(check, "a datagram that was sent is not received", advice)
    return passed(check, f"{interface.address}, works on this computer")


def _inspect(interface: Interface) -> CheckResult:
    check = f"multicast on {interface.name}"
    if interface.has_multicast:
        return passed(check, f"{interface.address}, switched on; not tested")
    return warning(check, "switched off", f"ip link set {interface.name} multicast on")


def _route(port: int) -> CheckResult:
    """The interface that the system chooses by default."""
    check = "multicast route"
    try:
        found = find_interface("", group=_GROUP, port=port)
    except SkerryError as error:
        return warning(check, str(error), "use --interface, or: ip route add 224.0.0.0/4 dev NAME")
    return passed(check, f"{found.name or found.address} is the default interface")


def _mtu(interface: Interface) -> CheckResult:
    check = f"MTU of {interface.name}"
    facts = f"{interface.mtu} bytes"
    if interface.mtu - 28 < SEGMENT_BYTES_USUAL:
        return passed(
            check,
            f"{facts}; datagrams are limited to it",
            "if the whole network supports them, jumbo frames of 9000 bytes save CPU time",
        )
    return passed(check, facts)


def _buffers() -> CheckResult:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        receive, _ = set_buffers(probe, RECEIVE_BYTES_GOOD)
    facts = bytes_text(receive.bytes)
    if receive.is_clipped:
        facts += f" of {bytes_text(RECEIVE_BYTES_GOOD)} that high rates need"
    advice = f"bursts are lost and repaired; sysctl -w {receive.sysctl}={RECEIVE_BYTES_GOOD}"
    return judged("receive buffer", facts, advice, is_well=not receive.is_clipped)


def _segmentation(port: int) -> CheckResult:
    made = MulticastSocket(Address(_GROUP, port), interface="127.0.0.1", ttl=0)
    made.close()
    check = "UDP segmentation"
    if made.sends_trains and made.receives_trains:
        return passed(check, "many datagrams are sent and received in one call")
    advice = "multicast works; Linux 5.0 or newer needs less CPU time"
    return passed(check, "this kernel has no UDP_SEGMENT or UDP_GRO", advice)


def _drops(proc: Path) -> CheckResult:
    check = "datagrams dropped"
    counts = _udp_counts(proc)
    if "RcvbufErrors" not in counts:
        return passed(check, "not reported by the kernel")
    dropped = counts["RcvbufErrors"]
    # The kernel counts a datagram either as received or as dropped.
    total = counts.get("InDatagrams", 0) + dropped
    facts = f"{count(dropped)} of {count(total)} since boot, because buffers were full"
    remedies = "faster callbacks, or a bandwidth limit for publishers"
    advice = f"if it grows: larger buffers (socket_buffer_bytes), {remedies}"
    return judged(check, facts, advice, is_well=not dropped)


def _udp_counts(proc: Path) -> dict[str, int]:
    try:
        lines = (proc / "net/snmp").read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    rows = [line.split()[1:] for line in lines if line.startswith("Udp:")]
    if len(rows) != 2:
        return {}
    return {name: int(value) for name, value in zip(*rows, strict=True)}


def _memberships(proc: Path) -> CheckResult:
    check = "IGMP"
    most = _number(proc / "sys/net/ipv4/igmp_max_memberships")
    if most is None:
        return passed(check, "not reported by the kernel")
    forced = _number(proc / "sys/net/ipv4/conf/all/force_igmp_version") or 0
    version = f"version {forced} is forced" if forced else "the version of the network"
    facts = f"{version}; a socket may join at most {most} groups"
    advice = f"sysctl -w net.ipv4.igmp_max_memberships={_MEMBERSHIPS_FEW}"
    return judged(check, facts, advice, is_well=most >= _MEMBERSHIPS_FEW)


def _reverse_path(proc: Path, interfaces: list[Interface]) -> Iterable[CheckResult]:
    """Strict reverse-path filtering drops multicast if the route to its sender differs."""
    everywhere = _number(proc / "sys/net/ipv4/conf/all/rp_filter") or 0
    for interface in interfaces:
        own = _number(proc / f"sys/net/ipv4/conf/{interface.name}/rp_filter") or 0
        if max(everywhere, own) == 1 and not interface.is_loopback:
            yield CheckResult(
                check=f"filter on {interface.name}",
                verdict="warn" if len(interfaces) > 2 else "ok",
                facts="datagrams from networks with a route by another interface are dropped",
                advice="if updates of a group are not received there: sysctl -w"
                f" net.ipv4.conf.{interface.name}.rp_filter=2, and the same for `all`",
            )


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
