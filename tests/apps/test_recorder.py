"""Recorder and replay as processes: kill -9, signals, multicast, two recorders, a second node."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import skerry
from skerry import distributor
from skerry.codec.envelope import CREATE, GAP, REMOVE, SNAPSHOT, UPDATE, Update
from skerry.recording.gaps import gap_of
from skerry.recording.selection import selection_of
from skerry.recording.updates import is_description
from skerry.runtime.recordings.reader import open_recordings
from skerry.runtime.recordings.updates import read_updates

pytestmark = pytest.mark.slow

PATIENCE_S = 60
TYPES = """
enum Kind { 1: ferry, 2: tug }
struct Vessel { 1: [key] uint32 mmsi; 2: string name; 3: float64 lat; 4: Kind kind; }
struct Hail [cached=false] { 1: [key] uint32 to; 2: string text; }
"""
KNOWN = skerry.define_types(TYPES)
Vessel, Hail = KNOWN.Vessel, KNOWN.Hail
BYTES = skerry.define_types("struct Data { 1: bytes data; }").Data


class Site:
    """A folder with nodes, recorders and whatever else is started in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        foreign = ("SKERRY_", "DOTS_", "XDG_")
        self.environ = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
        self.environ |= {
            "HOME": str(folder),
            "PYTHONUNBUFFERED": "1",
            "SKERRY_RUNTIME_DIR": str(folder / "run"),
            "SKERRY_STATE_DIR": str(folder / "state"),
        }
        if "SKERRY_TEST_MODE" in os.environ:
            self.environ["SKERRY_TEST_MODE"] = os.environ["SKERRY_TEST_MODE"]
        self.prefix: tuple[str, ...] = ()
        """Words before each command."""
        self.messages: list[str] = []
        """Lines of all processes on stderr."""

    def place(self, name: str = "node") -> str:
        return f"uds:{self.folder}/{name}.sock"

    @contextmanager
    def started(self, *arguments: str, until: str) -> Iterator[subprocess.Popen[str]]:
        """A process that has written `until` to stderr; a thread reads its stderr to the end."""
        with subprocess.Popen(
            [*self.prefix, sys.executable, "-m", "skerry", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environ,
            cwd=self.folder,
        ) as process:
            try:
                assert process.stderr is not None
                for line in process.stderr:
                    self.messages.append(line)
                    if until in line:
                        break
                else:
                    raise AssertionError("".join(self.messages))
                reader = threading.Thread(
                    target=self.messages.extend, args=[process.stderr], daemon=True
                )
                reader.start()
                yield process
            finally:
                process.kill()
                process.wait()
                reader.join()

    def node(self, name: str = "node") -> Any:
        arguments = ("--listen", self.place(name), "--metrics", "off", "--storage", "none")
        return self.started("node", "run", *arguments, until="listens at")

    def recorder(self, to: str = "recording", *arguments: str, node: str = "node") -> Any:
        where = () if "--multicast" in arguments else ("--node", self.place(node))
        return self.started(
            "record", "--to", to, *where, *arguments, "--json", until="recording to"
        )

    def run(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [*self.prefix, sys.executable, "-m", "skerry", *arguments],
            capture_output=True,
            text=True,
            env=self.environ,
            cwd=self.folder,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def updates(self, name: str = "recording", **wishes: Any) -> list[Update]:
        found = read_updates(open_recordings(self.folder / name), selection_of(**wishes))
        return [update for update in found if not is_description(update)]

    def written(self, name: str = "recording", type_name: str = "Vessel") -> int:
        """Rows of a type that can be read now, be they sealed or not."""
        (recording,) = open_recordings(self.folder / name)
        return sum(
            segment.types.get(type_name, 0) for segment in recording.segments(include_open=True)
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@contextmanager
def space_at(place: str) -> Iterator[Any]:
    with skerry.connect(place, name="publisher", types=KNOWN) as space:
        yield space


def wait_for(condition: Callable[[], bool]) -> None:
    end = monotonic() + PATIENCE_S
    while not condition():
        assert monotonic() < end, "timed out waiting for a condition"
        threading.Event().wait(0.02)


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Stop a recorder; returns its summary."""
    process.send_signal(signal.SIGTERM)
    assert process.stdout is not None
    out = process.stdout.read()
    assert process.wait(PATIENCE_S) == 0, out
    summary: dict[str, Any] = json.loads(out)
    return summary


def test_every_update_is_recorded_until_a_signal(site: Site) -> None:
    with site.node(), space_at(site.place()) as space:
        for mmsi in range(5):
            space.publish(Vessel(mmsi=mmsi, name="old", kind=KNOWN.Kind.tug))
        space.publish(Vessel(mmsi=90), subject="/odd/90")
        space.flush()
        with site.recorder() as process:
            for mmsi in range(3, 8):
                space.publish(Vessel(mmsi=mmsi, lat=float(mmsi)))
            space.publish(Hail(to=1, text="ahoy"))
            space.publish("/prices/A", b"\x00\xff")
            space.remove(Vessel(mmsi=0))
            space.flush()
            summary = ended(process)
    found = site.updates(types=["Vessel", "Hail", "SkerryBytes"])
    rows = [(u.operation, u.subject) for u in found]
    assert rows[:6] == [*((SNAPSHOT, f"/Vessel/{n}") for n in range(5)), (SNAPSHOT, "/odd/90")]
    assert rows[6:] == [
        (UPDATE, "/Vessel/3"),
        (UPDATE, "/Vessel/4"),
        (CREATE, "/Vessel/5"),
        (CREATE, "/Vessel/6"),
        (CREATE, "/Vessel/7"),
        (CREATE, "/Hail/1"),
        (CREATE, "/prices/A"),
        (REMOVE, "/Vessel/0"),
    ]
    assert summary["gaps"] == summary["lost_rows"] == 0
    everything = site.updates()
    live = [u for u in everything if u.operation in (CREATE, UPDATE, REMOVE)]
    # All updates of one client in order, including its type descriptions.
    ours = [u for u in live if u.sender == found[-1].sender]
    assert {(u.node, u.space) for u in ours} == {(ours[0].node, "local")}
    assert [u.sequence for u in ours] == list(range(ours[0].sequence, ours[0].sequence + 9))
    # All updates of the node without a missing position; the recorder's own rows have none.
    positions = [u.position for u in live if u.type_name != "SkerryLink"]
    assert positions == list(range(positions[0], positions[0] + len(positions)))
    assert "DotsClient" in {u.type_name for u in everything}
    assert "sound" in site.run("record", "verify", "recording", "--strict")


def test_after_kill_9_all_but_the_last_batch_is_recorded_and_verified(site: Site) -> None:
    with site.node(), space_at(site.place()) as space:
        with site.recorder() as process:
            for number in range(2000):
                space.publish(Vessel(mmsi=number % 50, lat=float(number)))
            space.flush()
            wait_for(lambda: site.written() == 2000)
            for number in range(2000, 2100):
                space.publish(Vessel(mmsi=1, lat=float(number)))
            space.flush()
            process.kill()
            process.wait()
        notified = json.loads(site.run("record", "verify", "recording", "--json"))
        assert not notified["is_sound"]
        assert "its recorder crashed" in notified["findings"][-1]["detail"]
        site.run("record", "verify", "recording", "--strict", code=1)
        # The next recorder repairs the recording and continues it.
        with site.recorder() as process:
            space.publish(Vessel(mmsi=7, name="new"))
            space.flush()
            ended(process)
    live = [u for u in site.updates(types=["Vessel"]) if u.operation in (CREATE, UPDATE)]
    sequences = [u.sequence for u in live[:-1]]
    assert len(sequences) >= 2000
    assert sequences == list(range(sequences[0], sequences[0] + len(sequences)))
    assert live[-1].payload == Vessel(mmsi=7, name="new").encode()
    notified = json.loads(site.run("record", "verify", "recording", "--strict", "--json"))
    assert notified["is_sound"]


def test_a_lost_node_leaves_a_gap_and_missing_objects_are_removed(site: Site) -> None:
    with site.node() as node:
        with space_at(site.place()) as space:
            space.publish(Vessel(mmsi=1))
            space.publish(Vessel(mmsi=2))
            space.flush()
            recording = site.recorder()
            process = recording.__enter__()
        try:
            wait_for(lambda: site.written() == 2)
            node.kill()
            node.wait()
            with site.node(), space_at(site.place()) as space:
                space.publish(Vessel(mmsi=2, name="again"))
                space.flush()
                # Whether it is a snapshot row or a create depends on which client connected first.
                wait_for(lambda: site.written() >= 4)
                summary = ended(process)
        finally:
            recording.__exit__(None, None, None)
    found = [u for u in site.updates(types=["Vessel"]) if u.operation != GAP]
    assert [u.key for u in found[:2]] == [b"\x81\x01", b"\x81\x02"]
    assert len(found) >= 4
    removed = [u for u in found if u.operation == REMOVE]
    assert [u.key for u in removed][:1] == [b"\x81\x01"]
    gaps = [u for u in site.updates() if u.operation == GAP]
    assert [gap_of(u.payload).reason for u in gaps] == [
        "the connection to the node was lost: the node was restarted"
    ]
    assert summary["gaps"] == 1
    assert summary["disconnects"] == 1


def test_replay_gives_a_second_node_an_equal_cache(site: Site) -> None:
    with site.node(), site.node("other"), space_at(site.place()) as space:
        for mmsi in range(20):
            space.publish(Vessel(mmsi=mmsi, name="a", kind=KNOWN.Kind.ferry))
        space.flush()
        with site.recorder() as process:
            for mmsi in range(10, 30):
                space.publish(Vessel(mmsi=mmsi, lat=float(mmsi)))
            space.publish(Vessel(mmsi=10), only={"name"})
            space.publish(Vessel(mmsi=99, lat=1.0), subject="/odd/99")
            space.remove(Vessel(mmsi=3))
            space.publish("/prices/A", b"12")
            space.flush()
            ended(process)
        arguments = ("replay", "recording", "--node", site.place("other"), "--fast", "--json")
        done = json.loads(site.run(*arguments))
        assert done["played"] == 20 + 20 + 4
        ours = site.run("get", "Vessel", "--json", "--node", site.place())
        theirs = site.run("get", "Vessel", "--json", "--node", site.place("other"))
        assert plain(ours) == plain(theirs)
        assert len(plain(theirs)) == 30
        with skerry.connect(site.place("other"), types=KNOWN) as other:
            sent = {mmsi: info_of(other, mmsi) for mmsi in (10, 25)}
        with skerry.connect(site.place(), types=KNOWN) as origin:
            assert sent == {mmsi: info_of(origin, mmsi) for mmsi in (10, 25)}


def plain(lines: str) -> list[dict[str, Any]]:
    """Rows of `get`, without values that depend on the time of the call."""
    rows = [json.loads(line) for line in lines.splitlines()]
    return [{k: v for k, v in row.items() if k not in ("_age_s", "_sender")} for row in rows]


def info_of(space: Any, mmsi: int) -> float:
    return float(space.container(Vessel).info(mmsi).modified)


def test_a_group_is_recorded_and_played_to_another(site: Site) -> None:
    group, other = free_group("239.255.77.31"), free_group("239.255.77.32")
    interface = ("--interface", "127.0.0.1")
    arguments = ("--multicast", group, *interface)
    with site.recorder("prices", *arguments, "--subjects", "/prices/*") as process:
        with distributor.open(group, interface="127.0.0.1", application="feed") as connection:
            publisher = connection.publisher()
            for number in range(500):
                publisher.publish(f"/prices/{number % 3}", b"%d" % number)
                publisher.publish("/noise", b"x")
            publisher.flush()
            wait_for(lambda: site.written("prices", "SkerryBytes") == 500)
        ended(process)
    found = site.updates("prices")
    assert [skerry_bytes(u) for u in found] == [b"%d" % number for number in range(500)]
    assert len({(u.sender, u.node, u.source) for u in found}) == 1
    assert found[0].source == "distributor"
    sequences = [u.sequence for u in found]
    assert sequences == sorted(set(sequences)) == [u.position for u in found]
    received: list[tuple[str, bytes]] = []
    with distributor.open(other, interface="127.0.0.1") as connection:
        connection.subscriber(on_batch=received.extend).add("/...")
        site.run("replay", "prices", "--multicast", other, *interface, "--fast")
        wait_for(lambda: len(received) == 500)
    assert received == [(u.subject, skerry_bytes(u)) for u in found]


def free_group(address: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        return f"{address}:{probe.getsockname()[1]}"


def skerry_bytes(update: Update) -> bytes:
    return bytes(BYTES.decode(update.payload).data)


def test_two_recorders_of_one_space_make_one_recording(site: Site) -> None:
    with site.node(), space_at(site.place()) as space, site.recorder("a") as first:
        for number in range(10):
            space.publish(Vessel(mmsi=number))
        space.flush()
        with site.recorder("b") as second:
            for number in range(5, 15):
                space.publish(Vessel(mmsi=number, lat=1.0))
            space.flush()
            ended(second)
        for number in range(3):
            space.publish(Hail(to=number))
        space.flush()
        ended(first)
    site.run("record", "merge", "a", "b", "both")
    both = live_of(site.updates("both"))
    assert both == live_of(site.updates("a"))
    assert len(live_of(site.updates("b"))) == 10


def live_of(updates: list[Update]) -> list[tuple[int, int, int, bytes]]:
    return [
        (u.node, u.sender, u.sequence, u.payload)
        for u in updates
        if u.type_name in ("Vessel", "Hail") and u.operation not in (SNAPSHOT, GAP)
    ]


def test_a_second_recorder_of_the_same_folder_is_refused(site: Site) -> None:
    with site.node(), site.recorder() as process:
        site.run("record", "--to", "recording", "--node", site.place(), code=1)
        ended(process)


def test_without_a_node_it_is_unreachable(site: Site) -> None:
    site.run("record", "--to", "recording", "--node", site.place("nobody"), code=3)
    site.run("replay", "recording", "--node", site.place("nobody"), "--fast", code=3)


def test_metrics_are_served_while_it_records(site: Site) -> None:
    from urllib.request import urlopen

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with site.node(), site.recorder("recording", "--metrics", f"127.0.0.1:{port}") as process:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            assert b"skerry_recorder_rows_total" in answer.read()
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=30) as answer:
            assert answer.read() == b"ready\n"
        ended(process)


def test_a_node_records_itself_until_its_end(site: Site) -> None:
    arguments = ("--listen", site.place(), "--metrics", "off", "--storage", "none")
    node = site.started("node", "run", *arguments, "--record", "own", until="listens at")
    with node as process:
        with space_at(site.place()) as space:
            for number in range(300):
                space.publish(Vessel(mmsi=number % 7, lat=float(number)))
            space.flush()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    found = site.updates("own", types=["Vessel"])
    assert [update.payload for update in found] == [
        Vessel(mmsi=number % 7, lat=float(number)).encode() for number in range(300)
    ]
    assert "sound" in site.run("record", "verify", "own", "--strict")


@contextmanager
def small_disk(site: Site) -> Iterator[Path]:
    """A folder on a disk of 3 MB. Processes of the site see the disk at `folder/disk`."""
    folder = site.folder / "disk"
    folder.mkdir()
    mount = f"mount -t tmpfs -o size=3m tmpfs {folder} && echo ready && exec cat"
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        pytest.skip("unshare and nsenter are needed to make a small disk")
    with subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", mount],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        if holder.stdout.readline() != "ready\n":
            pytest.skip("mounting a file system is not allowed here")
        site.prefix = ("nsenter", "--mount", "--target", str(holder.pid), "--")
        try:
            yield Path(f"/proc/{holder.pid}/root{folder}")
        finally:
            site.prefix = ()
            holder.kill()


def fill(disk: Path) -> Path:
    """Fill a disk; returns the file that fills it."""
    ballast = disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(bytes(1024)):
            pass
    return ballast


def test_a_recorder_that_is_stopped_on_a_full_disk_records_what_is_missing(site: Site) -> None:
    to = str(site.folder / "disk" / "rec")
    with small_disk(site) as disk:
        with site.node(), site.recorder(to) as process, space_at(site.place()) as space:
            fill(disk)
            for number in range(100):
                space.publish(Vessel(mmsi=number, name="x" * 500))
            space.flush()
            wait_for(lambda: any("No space left on device" in line for line in site.messages))
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 1
        report = json.loads(site.run("record", "verify", to, "--json"))
    assert report["lost_row_count"] >= 100
    reason = "the recorder could not write: No space left on device"
    found = [(item["is_fault"], item["detail"]) for item in report["findings"]]
    # There may be several: a gap row fits where no batch does, and more is dropped after it.
    assert all(is_fault and reason in detail for is_fault, detail in found), found


@pytest.mark.parametrize("where", ["recorder", "node"])
def test_a_full_disk_delays_rows_and_past_the_bound_verify_names_the_gap(
    site: Site, where: str
) -> None:
    group = free_group("239.255.77.33")
    bound = "400000"
    site.environ |= {
        "SKERRY_RECORDER__QUEUE_BYTES_MAX": bound,
        "SKERRY_NODE__RECORDING__QUEUE_BYTES_MAX": bound,
    }
    with small_disk(site) as disk:
        to = str(site.folder / "disk" / "rec")
        arguments = ("--listen", site.place(), "--metrics", "off", "--storage", "none")
        itself = ("--record", to) if where == "node" else ()
        with ExitStack() as stack:
            node = stack.enter_context(
                site.started("node", "run", *arguments, *itself, until="listens at")
            )
            space = stack.enter_context(space_at(site.place()))
            process = node
            if where == "recorder":
                options = ("--multicast", group, "--interface", "127.0.0.1")
                process = stack.enter_context(site.recorder(to, *options, "--node", site.place()))
                feed = stack.enter_context(distributor.open(group, interface="127.0.0.1"))

            def written(type_name: str = "Vessel") -> int:
                (recording,) = open_recordings(disk / "rec")
                segments = recording.segments(include_open=True)
                return sum(segment.types.get(type_name, 0) for segment in segments)

            def publish(first: int, stop: int) -> None:
                for number in range(first, stop):
                    space.publish(Vessel(mmsi=number % 50, name="x" * 500, lat=float(number)))
                space.flush()

            def message_count(text: str, known: Sequence[str] = ()) -> int:
                return sum(text in line for line in site.messages[len(known) :])

            publish(0, 10)
            wait_for(lambda: written() == 10)
            if where == "recorder":
                ballast = fill(disk)
                publish(10, 200)
                publisher = feed.publisher()
                for number in range(20):
                    publisher.publish("/prices/A", b"%d" % number)
                publisher.flush()
                wait_for(lambda: message_count("No space left on device") == 1)
                ballast.unlink()
                wait_for(lambda: written() == 200 and written("SkerryBytes") == 20)
                wait_for(lambda: message_count("the recording continues") == 1)
            known = site.messages[:]
            ballast = fill(disk)
            publish(200, 210)
            wait_for(lambda: message_count("No space left on device", known) == 1)
            publish(210, 1500)
            wait_for(lambda: message_count("new updates are dropped", known) == 1)
            ballast.unlink()
            wait_for(lambda: message_count("the recording continues", known) == 1)
            publish(1500, 1510)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
        found = [u for u in read_updates(open_recordings(disk / "rec")) if not is_description(u)]
        report = json.loads(site.run("record", "verify", to, "--json"))
        site.run("record", "verify", to, "--strict", code=1)
        info = json.loads(site.run("record", "info", to, "--json"))
    vessels = [Vessel.decode(u.payload).lat for u in found if u.type_name == "Vessel"]
    waited = range(200 if where == "recorder" else 10)
    published = len(waited) + 1310
    assert vessels[: len(waited)] == [float(number) for number in waited]
    assert vessels[-10:] == [float(number) for number in range(1500, 1510)]
    assert vessels == sorted(set(vessels))
    gaps = [gap_of(u.payload) for u in found if u.operation == GAP]
    assert {gap.reason for gap in gaps} == {"the recorder could not write: No space left on device"}
    live = {
        u.position
        for u in found
        if u.operation in (CREATE, UPDATE, REMOVE) and u.source != "distributor"
    }
    missing = {number for gap in gaps for number in range(gap.first, gap.stop)}
    live.discard(0)
    assert not live & missing
    assert live | missing == set(range(min(live), max(live) + 1))
    assert report["lost_row_count"] == sum(gap.count for gap in gaps)
    assert sum(gap.count for gap in gaps) >= published - len(vessels) > 0
    assert {"No space left on device" in item["detail"] for item in report["findings"]} == {True}
    assert [item["count"] for item in info["gaps"]] == [gap.count for gap in gaps]
