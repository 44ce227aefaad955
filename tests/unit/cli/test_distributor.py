"""`skerry distributor`, on the loopback interface. Other programs are real ones."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from skerry import distributor
from skerry.cli.distributor import _show_event
from skerry.cli.distributor import distributor as command
from skerry.cli.output import Output

Run = Callable[..., Any]
Fed = Callable[[bytes], None]
HERE = ("--interface", "127.0.0.1", "--ttl", "0")


@pytest.fixture
def group() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return f"239.255.77.8:{probe.getsockname()[1]}"


@pytest.fixture
def follow(group: str) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `skerry distributor sub`, and waits until it receives updates."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        line = [sys.executable, "-m", "skerry", "distributor", "sub", group, *HERE, *arguments]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(line, stdout=pipe, stderr=pipe, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def publish_until(group: str, process: subprocess.Popen[str], data: dict[str, bytes]) -> str:
    """Publish repeatedly until the process ends; returns its output."""
    with distributor.open(group, interface="127.0.0.1", ttl=0, request_timeout_ms=20) as connection:
        publisher = connection.publisher()
        while process.poll() is None:
            for subject, content in data.items():
                publisher.publish(subject, content)
            try:
                process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    return out


@pytest.mark.slow
def test_updates_are_shown(group: str, follow: Any) -> None:
    process = follow("/a/*", "/a/b", "--count", "2")
    out = publish_until(group, process, {"/a/b": b"text", "/c": b"no", "/a/x": b"\xff\0"})
    assert sorted(set(out.splitlines())) == ["/a/b text", "/a/x ff00"]


@pytest.mark.slow
def test_updates_are_json(group: str, follow: Any) -> None:
    process = follow("--json", "--count", "2", "--statistics")
    out = publish_until(group, process, {"/a": b"text", "/b": b"\xff"})
    rows = [json.loads(line) for line in out.splitlines()]
    shown = [row for row in rows if "subject" in row]
    assert {"subject": "/a", "data": "text"} in shown
    assert {"subject": "/b", "hex": "ff"} in shown
    assert len(shown) == 2
    assert rows[-1]["counters"]["delivered_update_count"] >= 2


@pytest.mark.slow
def test_following_ends_orderly(group: str, follow: Any) -> None:
    process = follow("--json")
    with distributor.open(
        group, interface="127.0.0.1", ttl=0, request_timeout_ms=20, configuration_interval_ms=20
    ) as connection:
        connection.publisher()
        assert json.loads(process.stdout.readline())["_event"] == "SenderFound"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 0


def published(group: str, run: Run, *arguments: str | Path) -> list[bytes]:
    """The updates that `skerry distributor pub` publishes."""
    got: list[bytes] = []
    with distributor.open(
        group, interface="127.0.0.1", ttl=0, delivery="inline", socket_buffer_bytes=2_000_000
    ) as connection:
        subscriber = connection.subscriber(lambda _s, data, _t, _n: got.append(data))
        subscriber.add("/a")
        done = run("distributor", "pub", group, *HERE, "--subject", "/a", *arguments)
        assert done.code == 0, done.err
    return got


@pytest.mark.slow
def test_one_update_is_published(group: str, run: Run) -> None:
    assert published(group, run, "--data", "hello") == [b"hello"]


@pytest.mark.slow
def test_bytes_files_and_lines_are_published(
    group: str, run: Run, fed: Fed, tmp_path: Path
) -> None:
    assert published(group, run, "--data", "hex:00ff") == [b"\0\xff"]
    path = tmp_path / "data"
    path.write_bytes(b"x" * 10_000)
    assert published(group, run, "--data", f"@{path}") == [b"x" * 10_000]
    fed(b"1\n2\n\n3")
    assert published(group, run, "--mbit", "100") == [b"1", b"2", b"3"]
    fed(b"1\n2\n")
    assert published(group, run, "--data", "-") == [b"1\n2\n"]


@pytest.mark.slow
def test_segment_bytes_sets_the_size_of_datagrams(group: str, run: Run) -> None:
    with distributor.open(group, interface="127.0.0.1", ttl=0) as connection:
        arrived = threading.Event()
        connection.subscriber(lambda *_: arrived.set()).add("/large")
        arguments = (*HERE, "--subject", "/large", "--data", "x" * 20_000)
        assert run("distributor", "pub", group, *arguments, "--segment-bytes", "8192").code == 0
        assert arrived.wait(10)
        assert connection.statistics().counters.received_datagram_count == 3
    assert run("distributor", "pub", group, *arguments, "--segment-bytes", "100").code == 2


def test_usage_errors_are_reported(group: str, run: Run) -> None:
    assert run("distributor", "pub", group).code == 2
    done = run("distributor", "pub", group, *HERE, "--subject", "/a", "--data", "hex:x")
    assert done.code == 2
    assert "hex" in done.err
    for arguments in (("sub",), ("pub", "--subject", "/a")):
        done = run("distributor", *arguments, "10.0.0.1:1")
        assert done.code == 2
        assert "'GROUP': 10.0.0.1 is not the address of a multicast group" in done.err
    done = run("distributor", "bench", "--group", "x")
    assert done.code == 2
    assert "'--group': 'x' is not of the form ADDRESS:PORT" in done.err
    done = run("distributor", "pub", group, "--subject", "a", "--data", "x")
    assert done.code == 2
    assert "'--subject': a cannot be used as a subject" in done.err
    done = run("distributor", "sub", group, "--interface", "127.0.0.1", "prices")
    assert done.code == 2
    assert "/prices" in done.err


@pytest.mark.slow
def test_the_benchmark_gives_figures(group: str, run: Run) -> None:
    arguments = ("distributor", "bench", "--group", group, "--seconds", "0.1")
    done = run(*arguments, "--json", "--loss", "20")
    assert done.code == 0, done.err
    row = json.loads(done.out)
    assert row["received_count"] == row["sent_count"] > 0
    done = run(*arguments, "--batches")
    assert "updates delivered per second" in done.out


def test_events_are_text_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    lost = distributor.UpdatesDropped(update_count=3)
    end = distributor.ConnectionClosed(group="239.1.1.1", port=1)
    for event in (lost, end):
        _show_event(event, Output(), as_json=False)
    _show_event(lost, Output(), as_json=True)
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {"_event": "UpdatesDropped", "update_count": 3}
    assert "warning: UpdatesDropped(update_count=3)" in shown.err
    assert "ConnectionClosed(group='239.1.1.1', port=1)" in shown.err


def test_help_teaches() -> None:
    for name in ("pub", "sub", "bench"):
        text = command.commands[name].help
        assert text is not None
        assert "Examples:" in text


@pytest.mark.slow
def test_a_group_with_keys_is_published_to_and_followed(
    run: Run, group: str, follow: Any, tmp_path: Path
) -> None:
    keys = tmp_path / "keys.toml"
    keys.write_text(f'[[key]]\nid = 1\nsecret = "{"5a" * 32}"\n', encoding="utf-8")
    keys.chmod(0o600)
    process = follow("--count", "1", "--key-file", str(keys))
    while process.poll() is None:
        plain = run("distributor", "pub", group, *HERE, "--subject", "/plain", "--data", "x")
        assert plain.code == 0
        line = ("--subject", "/sealed", "--data", "x", "--key-file", keys, "--json")
        sealed = run("distributor", "pub", group, *HERE, *line)
        assert json.loads(sealed.out) == {"subject": "/sealed", "published": 1}
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    assert out == "/sealed x\n"
