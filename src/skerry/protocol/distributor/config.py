"""The parameters of a connection to a group, with their defaults."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from skerry.errors import ConfigError
from skerry.limits import (
    DATAGRAM_BYTES_MAX,
    DISTRIBUTOR_INTERVAL_MS_MAX,
    UPDATE_BYTES_DEFAULT,
)

BANDWIDTH_MBIT_MIN: Final = 0.25
"""A lower limit is raised to this one: less would not carry one full datagram an interval."""

SEGMENT_BYTES_USUAL: Final = 7800
"""The default size of data datagrams. A datagram of 8192 bytes takes twice the receive buffer."""
SEGMENT_BYTES_JAVA: Final = 8192
"""The default segment size of Java programs. They reassemble only updates of up to two pieces, so
pieces are as large as those programs can read."""
_SEGMENT_BYTES_MIN: Final = 128
_CONTROL_BYTES_MIN: Final = 256


class Dialect(enum.Enum):
    """The wire format of a group."""

    JAVA = "java"
    PYCAST = "pycast"


class LossPolicy(enum.Enum):
    """What happens to a stream when a part of it is lost."""

    SKIP = "skip"
    """An event names the lost range, and delivery continues after it."""
    STOP = "stop"
    """An event names the lost range, and delivery from that sender stops until the missing part is
    received after all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributorConfig:
    """The configuration of a connection. The names of times end with their unit."""

    # -- the socket
    interface: str = ""
    """Name or address of the network interface; if empty, the system chooses one."""
    ttl: int = 1
    """Multicast TTL; 1 keeps datagrams on the local network."""
    loopback: bool = True
    """Whether programs on this computer, including this one, receive what is sent."""
    socket_buffer_bytes: int = 128_000
    """Size of the receive and of the send buffer that is requested from the system."""
    read_thread_count: int = 1
    """Threads that read from the socket."""

    # -- the identity
    application: str = "skerry"
    """Name of the program, sent with announcements and requests."""
    host: str = "localhost"
    """Name of this computer, sent with requests."""
    sender_id: int = 0
    """Number that is unique on this computer; 0 chooses a free one."""
    sender_id_first: int = 61_234
    """The first number that is tried in the search for a free one."""

    # -- the seal
    key_file: str = ""
    """File with the keys of the group. With it, all datagrams are encrypted, and datagrams that are
    not sealed with one of its keys are dropped. Empty for an open group."""
    freshness_s: int = 300
    """How far the time of a sealed datagram may be from now; 0 accepts any, for wrong clocks."""

    # -- bytes
    dialect: Dialect = Dialect.JAVA
    segment_bytes: int = 0
    """Size of the largest data datagram, at most the smallest segment size of any Java program in
    the group (theirs is 8192 by default). 0 chooses: 7800, or less where that fits the MTU, and
    8192 once a Java program is detected in the group."""
    control_bytes: int = 512
    """Size of the largest control message."""
    update_bytes_max: int = UPDATE_BYTES_DEFAULT
    """Size of the largest update that is sent or received, in any number of pieces."""
    unicode_subjects: bool = False
    """Allow subjects that are not ASCII, which a Java program would misread."""
    java_matching: bool = False
    """Let `/a/...` select `/a` as well, as the Java program does."""
    is_gateway: bool = False
    """Mark all data as relayed by a gateway, so that other gateways do not forward it."""

    # -- announcements
    heartbeat_interval_ms: int = 3000
    heartbeat_lost_count_max: int = 10
    """A sender is removed after this many intervals without data or heartbeat, and one more."""
    tail_heartbeat_ms: int = 100
    """The time after the last data until a heartbeat is sent. It doubles for each further one, up
    to the interval, so that receivers detect early that the last datagram was lost. 0 for none, as
    in the Java program."""
    configuration_interval_ms: int = 3000
    configuration_lost_count_max: int = 3
    """The same for the announcements of a sender."""

    # -- flow
    holdback_delay_ms: int = 0
    """How long an update may wait for others to share its datagram; 0 sends each at once."""
    holdback_threshold_per_s: int = 200
    """Updates wait only while more than this many are published a second."""
    bandwidth_mbit_max: float = 0.0
    """Limit of data sent a second, in Mbit; 0 for none. The lowest limit is 0.25."""
    bandwidth_kbit_max: int = 0
    """The same in Kbit; only one of the two may be set."""
    flow_interval_ms: int = 250
    """The rate of updates and the bandwidth are measured over this time."""

    # -- repair
    request_delay_ms_max: int = 20
    """A lost datagram is requested after a random time up to this, unless another receiver has
    requested it before."""
    request_timeout_ms: int = 800
    """A request that is not answered in this time is repeated."""
    request_retry_count_max: int = 10
    """How often a request is repeated before the datagram is given up."""
    loss_policy: LossPolicy = LossPolicy.SKIP
    waiting_bytes_max: int = 64 * 1024 * 1024
    """Bytes of datagrams that wait for a missing one. Beyond this the missing one is given up."""
    server_holdback_ms: int = 20
    """How long requests are collected before they are answered."""
    cache_bytes_max: int = 10_000_000
    """Bytes of sent datagrams that are kept for retransmission."""
    cache_age_s: int = 60
    """How long sent datagrams are kept; 0 for as long as there is room."""
    cache_clean_interval_ms: int = 2000
    """How often datagrams that are too old are removed."""

    # -- the monitor of requests
    nagging_window_ms: int = 4000
    """A window without a request ends a run of requests; 0 switches the monitor off."""
    nagging_check_ms: int = 60_000
    """The length after which a run of requests is judged."""
    nagging_request_count_max: int = 200
    """The number of requests in a run after which the connection stops requesting and delivering;
    0 stops it after any run."""

    # -- the application
    delivery_queue_count_max: int = 100_000
    """Updates that may wait for the application."""
    statistics_interval_ms: int = 0
    """How often counters are logged; 0 for never."""
    statistics_file: str = ""
    """The file that counters are written to; empty for the log."""

    # -- tests of applications
    fake_send_loss_permille: int = 0
    """How many of a thousand data datagrams are not sent. Receivers can request them."""
    fake_receive_loss_permille: int = 0
    """How many of a thousand received data datagrams are dropped."""

    def __post_init__(self) -> None:
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if name == "segment_bytes" and not value:
                continue
            if not low <= value <= high:
                raise _refusal(name, f"{value} is not between {low} and {high}")
        if self.bandwidth_mbit_max and self.bandwidth_kbit_max:
            raise _refusal("bandwidth_kbit_max", "bandwidth_mbit_max is set as well")
        # A name has to fit its control message together with the fields around it.
        for name in ("application", "host"):
            size = len(getattr(self, name).encode())
            limit = self.control_bytes // 4
            if size > limit:
                raise _refusal(name, f"{size} bytes; the limit is {limit} (control_bytes / 4)")

    @property
    def bandwidth_bit_max(self) -> int:
        """Bits a second that may be sent; 0 for no limit."""
        mbit = self.bandwidth_mbit_max or self.bandwidth_kbit_max / 1000
        return int(max(mbit, BANDWIDTH_MBIT_MIN) * 1_000_000) if mbit else 0


_RANGES: Final[tuple[tuple[str, float, float], ...]] = (
    ("ttl", 0, 255),
    ("socket_buffer_bytes", 0, 2**31 - 1),
    ("read_thread_count", 1, 64),
    ("sender_id", 0, 2**31 - 1),
    ("sender_id_first", 1, 65_535),
    ("freshness_s", 0, 86_400),
    ("segment_bytes", _SEGMENT_BYTES_MIN, DATAGRAM_BYTES_MAX),
    ("control_bytes", _CONTROL_BYTES_MIN, DATAGRAM_BYTES_MAX),
    ("update_bytes_max", DATAGRAM_BYTES_MAX, UPDATE_BYTES_DEFAULT),
    ("heartbeat_interval_ms", 1, DISTRIBUTOR_INTERVAL_MS_MAX),
    ("heartbeat_lost_count_max", 0, 1000),
    ("tail_heartbeat_ms", 0, DISTRIBUTOR_INTERVAL_MS_MAX),
    ("configuration_interval_ms", 1, DISTRIBUTOR_INTERVAL_MS_MAX),
    ("configuration_lost_count_max", 0, 1000),
    ("holdback_delay_ms", 0, DISTRIBUTOR_INTERVAL_MS_MAX),
    ("holdback_threshold_per_s", 0, 2**31 - 1),
    ("bandwidth_mbit_max", 0, 1_000_000),
    ("bandwidth_kbit_max", 0, 1_000_000_000),
    ("flow_interval_ms", 1, DISTRIBUTOR_INTERVAL_MS_MAX),
    ("request_delay_ms_max", 0, DISTRIBUTOR_INTERVAL_MS_MAX),
    ("request_timeout_ms", 1, DISTRIBUTOR_INTERVAL_MS_MAX),
    ("request_retry_count_max", 0, 1000),
    ("waiting_bytes_max", 1, 2**40),
    ("server_holdback_ms", 0, DISTRIBUTOR_INTERVAL_MS_MAX),
    ("cache_bytes_max", 0, 2**40),
    ("cache_age_s", 0, 86_400),
    ("cache_clean_interval_ms", 1, DISTRIBUTOR_INTERVAL_MS_MAX),
    ("nagging_window_ms", 0, DISTRIBUTOR_INTERVAL_MS_MAX),
    ("nagging_check_ms", 0, DISTRIBUTOR_INTERVAL_MS_MAX),
    ("nagging_request_count_max", 0, 2**31 - 1),
    ("delivery_queue_count_max", 1, 2**31 - 1),
    ("statistics_interval_ms", 0, DISTRIBUTOR_INTERVAL_MS_MAX),
    ("fake_send_loss_permille", 0, 1000),
    ("fake_receive_loss_permille", 0, 1000),
)


def _refusal(name: str, detail: str) -> ConfigError:
    return ConfigError(key=f"distributor.{name}", origin="given", detail=detail)
