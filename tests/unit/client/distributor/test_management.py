"""The statistics of a connection: overviews, a page, lines in a file."""

from __future__ import annotations

import json
import logging
import select
import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from skerry.client.distributor.sync import BlockingGroupConnection
from skerry.errors import ConfigError, ConnectFailed
from skerry.protocol.distributor.overview import Overview
from skerry.protocol.machine import Address
from skerry.runtime.udp.multicast import MulticastSocket
from tests.overviews import read_overview

Join = Callable[..., BlockingGroupConnection]


def test_overviews_are_those_of_the_java_program(join: Join) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    watching = MulticastSocket(Address("239.255.77.250", port), interface="127.0.0.1", ttl=0)
    try:
        connection = join(
            application="feed",
            management_group=f"239.255.77.250:{port}",
            management_interval_ms=20,
            management_listen="127.0.0.1:0",
        )
        connection.subscriber(lambda *_: None).add("/a")
        connection.publisher()
        overview = _next(watching)
        while (overview.publisher_count, overview.subscription_count) != (1, 1):
            overview = _next(watching)
    finally:
        watching.close()
    assert overview.application == "feed"
    assert overview.address == "127.0.0.1"
    assert overview.tcp_port == connection.management_port > 0
    assert overview.subscriber_count == 1
    assert overview.start_time is not None
    assert len(overview.start_time) == len("HH:mm:ss.SSS")


def _next(watching: MulticastSocket) -> Overview:
    assert select.select([watching], [], [], 10)[0]
    datagram, _, _ = watching.receive()
    return read_overview(datagram)


def test_the_page_is_the_statistics(join: Join) -> None:
    connection = join(management_listen="127.0.0.1:0", application="feed")
    url = f"http://127.0.0.1:{connection.management_port}"
    with urllib.request.urlopen(url + "/", timeout=10) as answer:
        row = json.load(answer)
    assert row["application"] == "feed"
    with pytest.raises(urllib.error.HTTPError, match="404") as caught:
        urllib.request.urlopen(url + "/else", timeout=10)
    caught.value.close()
    # A web page that has its own name point here for a moment must not read it.
    request = urllib.request.Request(url + "/", headers={"Host": "evil.example"})
    with pytest.raises(urllib.error.HTTPError, match="403") as caught:
        urllib.request.urlopen(request, timeout=10)
    caught.value.close()


def test_nothing_is_published_unless_configured(join: Join) -> None:
    assert join().management_port == 0


def test_statistics_go_to_a_file(join: Join, tmp_path: Path) -> None:
    path = tmp_path / "statistics.jsonl"
    connection = join(statistics_interval_ms=10, statistics_file=str(path), application="feed")
    while not (path.exists() and path.read_text().count("\n") > 1):
        assert connection.group
    connection.close(linger=False)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert {row["application"] for row in rows} == {"feed"}


def test_statistics_go_to_the_log(join: Join, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="skerry"):
        connection = join(statistics_interval_ms=10)
        while "distributor statistics" not in caplog.text:
            assert connection.group


def test_error_of_the_statistics_file_is_logged(
    join: Join, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    connection = join(statistics_interval_ms=10, statistics_file=str(tmp_path / "no" / "file"))
    while "statistics cannot be written" not in caplog.text:
        assert connection.group


@pytest.mark.parametrize("place", ["8888", "127.0.0.1:x", "127.0.0.1:70000", ":1"])
def test_invalid_address_is_rejected(join: Join, place: str) -> None:
    with pytest.raises(ConfigError):
        join(management_listen=place)


def test_occupied_port_raises_an_error(join: Join) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ConnectFailed):
        join(management_listen=f"127.0.0.1:{taken.getsockname()[1]}")


def test_invalid_group_is_rejected(join: Join) -> None:
    with pytest.raises(ConfigError):
        join(management_group="10.0.0.1:1", management_listen="127.0.0.1:0")
