"""Every parameter of a distributor's connection, with its default and what it means."""

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

__all__ = [
    "BANDWIDTH_MBIT_MIN",
    "SEGMENT_BYTES_JAVA",
    "SEGMENT_BYTES_USUAL",
    "Dialect",
    "DistributorConfig",
    "LossPolicy",
]

BANDWIDTH_MBIT_MIN: Final = 0.25
"""A limit below this is taken as this: less would not carry one full datagram an interval."""

SEGMENT_BYTES_USUAL: Final = 7800
"""The default size of data datagrams. A datagram of 8192 bytes takes twice the receive buffer."""
SEGMENT_BYTES_JAVA: Final = 8192
"""The default segment size of Java programs. They reassemble only updates of up to two pieces, so
pieces are as large as those programs can read."""
_SEGMENT_BYTES_MIN: Final = 128
_CONTROL_BYTES_MIN: Final = 256


class Dialect(enum.Enum):
    """Whose bytes are spoken in a group."""

    JAVA = "java"
    PYCAST = "pycast"


class LossPolicy(enum.Enum):
    """What becomes of a stream when a part of it cannot be had any more."""

    SKIP = "skip"
    """An event names the lost range, and delivery goes on after it."""
    STOP = "stop"
    """An event names the lost range, and nothing more is delivered of that sender unless the
    missing part comes after all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributorConfig:
    """How a connection behaves. Times in the unit their names end in."""

    # -- the socket
    interface: str = ""
    """Name or address of the network interface; empty for the one the system chooses."""
    ttl: int = 1
    """How many routers a datagram may pass, itself included: 1 stays on the local network."""
    loopback: bool = True
    """Whether programs on this computer, and this one itself, hear what is sent."""
    socket_buffer_bytes: int = 128_000
    """Size that is asked of the system for the receive and the send buffer."""
    read_thread_count: int = 1
    """Threads that read from the socket."""

    # -- who this is
    application: str = "skerry"
    """Name of the program, told to all others."""
    host: str = "localhost"
    """Name of this computer, told with requests."""
    sender_id: int = 0
    """Number that is unique on this computer; 0 to find one."""
    sender_id_first: int = 61_234
    """Where the search for a free number begins."""

    # -- who is heard
    key_file: str = ""
    """File with the keys of the group. With one, all that is sent is encrypted, and nothing is
    heard but what is sealed with a key of it; empty for a group anybody can read and write."""
    freshness_s: int = 300
    """How far from now the time of a sealed datagram may be; 0 for any, where clocks are apart."""

    # -- bytes
    dialect: Dialect = Dialect.JAVA
    """Whose bytes are spoken."""
    segment_bytes: int = 0
    """Size of the largest data datagram, at most the smallest segment size of any Java program in
    the group (theirs is 8192 by default). 0 chooses: 7800, or less where that fits the MTU, and
    8192 once a Java program was heard in the group."""
    control_bytes: int = 512
    """Size of the largest control message."""
    update_bytes_max: int = UPDATE_BYTES_DEFAULT
    """Size of the largest update, sent or received, in however many pieces."""
    unicode_subjects: bool = False
    """Publish subjects beyond ASCII too. A Java program would read others."""
    java_matching: bool = False
    """Let `/a/...` select `/a` as well, as the Java program does."""
    is_gateway: bool = False
    """Mark all that is sent as brought here by a gateway, which no gateway takes elsewhere."""

    # -- signs of life
    heartbeat_interval_ms: int = 3000
    heartbeat_lost_count_max: int = 10
    """A sender that was silent for one interval more than this is taken as gone."""
    tail_heartbeat_ms: int = 100
    """After data, a heartbeat goes out when no more came for so long, then after twice as long, and
    so on up to the interval: who lost the last datagram learns of it early. 0 for none, as in the
    Java program."""
    configuration_interval_ms: int = 3000
    configuration_lost_count_max: int = 3
    """The same for its announcements."""

    # -- flow
    holdback_delay_ms: int = 0
    """How long an update may wait for others to share its datagram; 0 sends each at once."""
    holdback_threshold_per_s: int = 200
    """Updates wait only while more than this many are published a second."""
    bandwidth_mbit_max: float = 0.0
    """Data sent a second, in Mbit; 0 for no limit, and no other value counts as less than 0.25."""
    bandwidth_kbit_max: int = 0
    """The same in Kbit, for those who count in it; only one of the two may be set."""
    flow_interval_ms: int = 250
    """The rate of updates and the bandwidth are counted over this time."""

    # -- repair
    request_delay_ms_max: int = 20
    """A lost datagram is asked for after a random time up to this, unless another receiver was
    quicker."""
    request_timeout_ms: int = 800
    """An answer that has not come by then is asked for again."""
    request_retry_count_max: int = 10
    """How often it is asked for again; then it is lost."""
    loss_policy: LossPolicy = LossPolicy.SKIP
    waiting_bytes_max: int = 64 * 1024 * 1024
    """Datagrams that wait for an earlier one of their sender. Past it the earlier one is lost."""
    server_holdback_ms: int = 20
    """Requests are collected for so long before they are answered."""
    cache_bytes_max: int = 10_000_000
    """Sent datagrams that are kept to be sent again."""
    cache_age_s: int = 60
    """How long they are kept; 0 for as long as there is room."""
    cache_clean_interval_ms: int = 2000
    """How often it is looked for those that are too old."""

    # -- those who ask too much
    nagging_window_ms: int = 4000
    """A window without a request ends a run of them; 0 switches the monitor off."""
    nagging_check_ms: int = 60_000
    """A run of this length is judged."""
    nagging_request_count_max: int = 200
    """A run with this many requests is too much. The connection then asks and delivers no more;
    0 makes every run too much."""

    # -- the application
    delivery_queue_count_max: int = 100_000
    """Updates that wait for the application to take them."""
    statistics_interval_ms: int = 0
    """How often counters are logged; 0 for never."""
    statistics_file: str = ""
    """Where to; empty for the log."""

    # -- tests of applications
    fake_send_loss_permille: int = 0
    """So many of a thousand updates' datagrams are not sent. They can be asked for."""
    fake_receive_loss_permille: int = 0
    """So many of a thousand datagrams with updates are taken as not received."""

    def __post_init__(self) -> None:
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if name == "segment_bytes" and not value:
                continue
            if not low <= value <= high:
                raise _refusal(name, f"{value} is not between {low} and {high}")
        if self.bandwidth_mbit_max and self.bandwidth_kbit_max:
            raise _refusal("bandwidth_kbit_max", "the bandwidth has a limit in Mbit already")
        # A name has to fit its control message together with the fields around it.
        for name in ("application", "host"):
            size = len(getattr(self, name).encode())
            if size > self.control_bytes // 4:
                raise _refusal(name, f"{size} bytes are more than {self.control_bytes // 4}")

    @property
    def bandwidth_bit_max(self) -> int:
        """Bits a second that may be sent; 0 for any number."""
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
