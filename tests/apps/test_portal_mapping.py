"""Portal and node as processes with a mapping: clients of Goby and clients of a space meet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

import skerry
from skerry import portal
from skerry.codec.bson import decode_bson, encode_bson
from skerry.codec.envelope import SNAPSHOT
from skerry.protocol.portal.identifiers import Scheme
from skerry.protocol.portal.mapping.portal_mapping import MAPPING_THREAD
from skerry.recording.updates import is_description
from skerry.runtime.recordings.reader import open_recordings
from skerry.runtime.recordings.updates import read_updates
from tests.unit.protocol.portal.mapping.descriptors import descriptor_set, message

pytestmark = pytest.mark.slow

PATIENCE_S = 60
TYPES = "struct Vessel { 1: [key] uint32 mmsi; 2: string name; 3: float64 speed; }"
Vessel = skerry.define_types(TYPES).Vessel
RULES = """
[portal.mapping]
descriptors = ["fleet.desc"]
types = ["fleet.dots"]

[[portal.mapping.rules]]
scheme = "PROTOBUF"
group = "nav"
type = "fleet.Report"
object = "Report"
key = ["name"]
direction = "both"

[[portal.mapping.rules]]
scheme = "JSON"
group = "ais"
type = "nlohmann::json"
object = "Vessel"
direction = "both"

[[portal.mapping.rules]]
scheme = "CSTR"
direction = "both"
subject = "/text/{group}"

[[portal.mapping.rules]]
scheme = "DCCL"
"""


class Harbour:
    """A folder in which nodes, portals and mappings run as processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        foreign = ("SKERRY_", "DOTS_", "XDG_", "GOBY_")
        self.environ = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
        self.environ |= {
            "HOME": str(folder),
            "PYTHONUNBUFFERED": "1",
            "SKERRY_RUNTIME_DIR": str(folder / "run"),
            "SKERRY_STATE_DIR": str(folder / "state"),
        }
        self.messages: list[str] = []
        (folder / "mapping.toml").write_text(RULES)
        (folder / "fleet.desc").write_bytes(descriptor_set())
        (folder / "fleet.dots").write_text(TYPES)

    @contextmanager
    def started(self, *arguments: str, until: str) -> Iterator[None]:
        """A process that has written `until` to stderr, and that a signal ends."""
        command = [sys.executable, "-m", "skerry", *arguments]
        with subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env=self.environ, cwd=self.folder
        ) as process:
            assert process.stderr is not None
            try:
                for line in process.stderr:
                    self.messages.append(line)
                    if until in line:
                        break
                else:
                    raise AssertionError("".join(self.messages))
                reader = threading.Thread(target=self.messages.extend, args=(process.stderr,))
                reader.start()
                yield
            finally:
                process.terminate()
                process.wait(PATIENCE_S)
        assert process.returncode == 0, "".join(self.messages)

    def place(self, name: str) -> str:
        return f"uds:{self.folder}/{name}.sock"

    def node(self, name: str = "node") -> Any:
        return self.started(
            *("node", "run", "--listen", self.place(name), "--metrics", "off"), until="listens at"
        )

    def mapped_portal(self, name: str = "portal", node: str = "node", *more: str) -> Any:
        return self.started(
            *(
                "--config",
                "mapping.toml",
                "portal",
                "run",
                "--socket-name",
                str(self.folder / name),
            ),
            *("--node", self.place(node), *more),
            until="mapping between portal and space",
        )

    def client(self, name: str = "goby", at: str = "portal") -> portal.Connection:
        return portal.open(name, socket_name=str(self.folder / at))

    def space(self, node: str = "node") -> skerry.Space:
        return skerry.connect(self.place(node), name="user", types=[Vessel], wait=True)


@pytest.fixture
def harbour(tmp_path: Path) -> Harbour:
    return Harbour(tmp_path)


@pytest.fixture
def both(harbour: Harbour) -> Iterator[tuple[portal.Connection, skerry.Space]]:
    """A client of a portal and one of a node, with a mapping between them."""
    with (
        harbour.node(),
        harbour.mapped_portal(),
        harbour.client() as client,
        harbour.space() as space,
    ):
        client.ready()
        client.wait_open(PATIENCE_S)
        client.settle(PATIENCE_S)
        yield client, space


class Heard:
    """Publications or events, in the order of their arrival."""

    def __init__(self) -> None:
        self._queue: Queue[Any] = Queue()
        self.put: Callable[[Any], None] = self._queue.put

    def next(self) -> Any:
        return self._queue.get(timeout=PATIENCE_S)

    def is_empty(self) -> bool:
        return self._queue.empty()


def test_publications_become_objects_and_objects_publications(
    both: tuple[portal.Connection, skerry.Space],
) -> None:
    client, space = both
    objects, texts, publications = Heard(), Heard(), Heard()
    client.publish("nav", message("Report", 'name: "a" late: 3 position { lat: 1 lon: 2 }'))
    space.subscribe("Report", objects.put)
    space.subscribe("/text/*", texts.put)
    client.subscribe(publications.put, "nav")
    client.subscribe(publications.put, "ais")
    client.subscribe(publications.put, "remarks")
    client.settle(PATIENCE_S)
    event = objects.next()
    assert (event.object.name, event.object.late) == ("a", 3)
    assert event.object.position.lon == 2
    assert event.subject == "/Report/a"

    # What a later publication lacks becomes unset.
    client.publish("nav", message("Report", 'name: "a" mode: SURVEY'))
    event = objects.next()
    assert (event.object.late, event.object.mode.label) == (None, "SURVEY")
    assert publications.next().identifier.thread != MAPPING_THREAD

    client.publish("remarks", "fog")
    event = texts.next()
    assert (event.subject, event.data) == ("/text/remarks", b"fog")
    assert publications.next().text() == "fog"

    report: Any = type(objects_of(space, "Report"))
    space.publish(report(name="b", late=9))
    found = publications.next()
    assert (found.group, found.type_name) == ("nav", "fleet.Report")
    assert found.identifier.thread == MAPPING_THREAD
    assert found.payload == message("Report", 'name: "b" late: 9').SerializeToString()

    space.publish(Vessel(mmsi=5, speed=2.5))
    found = publications.next()
    assert (found.scheme, decode_bson(found.payload)) == (Scheme.JSON, {"mmsi": 5, "speed": 2.5})
    vessels = Heard()
    space.subscribe(Vessel, vessels.put)
    assert vessels.next().object.mmsi == 5
    client.publish("ais", encode_bson({"mmsi": 6}), scheme=Scheme.JSON, type_name="nlohmann::json")
    assert vessels.next().object == Vessel(mmsi=6)

    space.publish("/text/remarks", b"clear")
    publications.next()  # of vessel 6, by this client
    assert publications.next().text() == "clear"


def objects_of(space: skerry.Space, name: str) -> Any:
    (found,) = space.container(name).values()
    return found


def test_what_cannot_be_mapped_harms_nothing_and_is_logged_once(
    harbour: Harbour, both: tuple[portal.Connection, skerry.Space]
) -> None:
    client, space = both
    texts = Heard()
    space.subscribe("/text/*", texts.put)
    space.flush()
    for _ in range(50):
        client.publish("nav", b"\xff", scheme=Scheme.PROTOBUF, type_name="fleet.Report")
        client.publish("ais", b"\xff", scheme=Scheme.JSON, type_name="nlohmann::json")
    client.publish("remarks", "still here")
    assert texts.next().data == b"still here"
    told = [line for line in harbour.messages if "not mapped" in line]
    assert len(told) == 2


def test_two_portals_of_one_space_exchange_publications_without_a_loop(harbour: Harbour) -> None:
    with ExitStack() as stack:
        stack.enter_context(harbour.node())
        heard: dict[str, Heard] = {}
        clients: dict[str, portal.Connection] = {}
        for name in ("port", "starboard"):
            stack.enter_context(harbour.mapped_portal(name))
            clients[name] = stack.enter_context(harbour.client(name, name))
            heard[name] = Heard()
            clients[name].subscribe(heard[name].put, "remarks")
            clients[name].subscribe(heard[name].put, "end")
            clients[name].ready()
            clients[name].wait_open(PATIENCE_S)
            clients[name].settle(PATIENCE_S)
        clients["port"].publish("remarks", "one")
        assert heard["starboard"].next().text() == "one"
        clients["starboard"].publish("remarks", "two")
        clients["starboard"].publish("end", "end")
        for name, publications in heard.items():
            texts: list[str] = []
            while not texts or texts[-1] != "end":
                texts.append(publications.next().text())
            assert texts[-2:] == ["two", "end"]
            assert texts.count("two") == 1
            assert texts.count("one") == (1 if name == "port" else 0)
        # A round trip later, nothing has come back.
        clients["port"].publish("end", "after")
        assert [each.next().text() for each in heard.values()] == ["after", "after"]


def test_two_mappings_of_one_portal_and_one_space_make_no_loop(harbour: Harbour) -> None:
    with (
        harbour.node(),
        harbour.mapped_portal(),
        harbour.started(
            *("--config", "mapping.toml", "portal", "map"),
            *("--socket-name", str(harbour.folder / "portal"), "--node", harbour.place("node")),
            until="mapping between portal and space",
        ),
        harbour.client() as client,
    ):
        heard = Heard()
        client.subscribe(heard.put, "remarks")
        client.subscribe(heard.put, "end")
        client.ready()
        client.wait_open(PATIENCE_S)
        client.settle(PATIENCE_S)
        client.publish("remarks", "one")
        # Each mapping takes it into the space, and the other one back: once.
        found = [heard.next() for _ in range(3)]
        assert [one.text() for one in found] == ["one"] * 3
        assert [one.identifier.thread == MAPPING_THREAD for one in found].count(True) == 2
        client.publish("end", "end")
        assert [heard.next().text() for _ in range(3)] == ["end"] * 3
        assert heard.is_empty()


def test_what_came_by_the_portal_is_recorded(harbour: Harbour) -> None:
    folder = harbour.folder / "rec"
    with harbour.node(), harbour.mapped_portal(), harbour.client() as client:
        client.ready()
        client.wait_open(PATIENCE_S)
        client.settle(PATIENCE_S)
        with harbour.started(
            *("record", "--to", str(folder), "--node", harbour.place("node")),
            until="recording to",
        ):
            seen = Heard()
            with harbour.space() as space:
                space.subscribe("Report", seen.put)
                for number in range(3):
                    client.publish("nav", message("Report", f'name: "a" late: {number}'))
                    seen.next()
                space.flush()
    updates = [
        update
        for update in read_updates(open_recordings(folder))
        if update.type_name == "Report" and not is_description(update)
    ]
    assert [update.subject for update in updates] == ["/Report/a"] * len(updates)
    assert len([u for u in updates if u.operation != SNAPSHOT]) >= 2


def test_a_node_maps_its_own_portal(harbour: Harbour) -> None:
    config = harbour.folder / "node.toml"
    config.write_text(
        f'[node.portal]\nenabled = true\nsocket_name = "{harbour.folder}/portal"\n'
        + RULES.replace("portal.mapping", "node.portal.mapping")
    )
    with (
        harbour.started(
            *("--config", "node.toml", "node", "run", "--listen", harbour.place("node")),
            *("--metrics", "off"),
            until="mapping between portal and space",
        ),
        harbour.client() as client,
        harbour.space() as space,
    ):
        texts, heard = Heard(), Heard()
        space.subscribe("/text/*", texts.put)
        client.subscribe(heard.put, "back")
        client.ready()
        client.wait_open(PATIENCE_S)
        client.settle(PATIENCE_S)
        client.publish("remarks", "fog")
        assert texts.next().data == b"fog"
        space.publish("/text/back", b"thanks")
        assert heard.next().text() == "thanks"


def test_the_mapping_waits_for_its_node(harbour: Harbour) -> None:
    with (
        harbour.started(
            *("--config", "mapping.toml", "portal", "run"),
            *("--socket-name", str(harbour.folder / "portal"), "--node", harbour.place("node")),
            until="listens at",
        ),
        harbour.node(),
        harbour.client() as client,
        harbour.space() as space,
    ):
        texts = Heard()
        space.subscribe("/text/*", texts.put)
        space.flush()
        client.ready()
        client.wait_open(PATIENCE_S)
        # Published again and again: the mapping begins at a moment that nobody else sees.
        stop = threading.Event()

        def publish() -> None:
            while not stop.wait(0.05):
                client.publish("remarks", "fog")

        thread = threading.Thread(target=publish)
        thread.start()
        try:
            assert texts.next().data == b"fog"
        finally:
            stop.set()
            thread.join()


def test_faulty_rules_are_reported(harbour: Harbour) -> None:
    (harbour.folder / "mapping.toml").write_text(
        '[[portal.mapping.rules]]\nscheme = "PROTOBUF"\ntype = "no.Such"\n'
    )
    done = subprocess.run(
        [sys.executable, "-m", "skerry", "--config", "mapping.toml", "portal", "run"],
        capture_output=True,
        text=True,
        env=harbour.environ,
        cwd=harbour.folder,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 1
    assert "portal.mapping" in done.stderr
    assert "no.Such" in done.stderr


def test_a_log_is_played_in_a_portal(harbour: Harbour) -> None:
    lines = [
        {
            "_scheme_": "CSTR",
            "_utime_": 1000 * n,
            "_group_": "g",
            "_type_": "CSTR",
            "_text_": f"{n}",
        }
        for n in range(5)
    ]
    (harbour.folder / "a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    harbour.environ["SKERRY_TEST"] = ""

    def skerry_command(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "skerry", *arguments],
            capture_output=True,
            text=True,
            env=harbour.environ,
            cwd=harbour.folder,
            timeout=PATIENCE_S,
            check=True,
        ).stdout

    skerry_command("portal", "log", "convert", "a.jsonl", "a.goby")
    with harbour.node(), harbour.mapped_portal(), harbour.client() as client:
        heard = Heard()
        client.subscribe(heard.put, "g")
        client.ready()
        client.wait_open(PATIENCE_S)
        client.settle(PATIENCE_S)
        at = ("--socket-name", str(harbour.folder / "portal"))
        out = skerry_command("portal", "log", "play", "a.goby", "--speed", "2", *at, "--json")
        assert json.loads(out) == {"played": 5, "rounds": 1, "left_out": {}}
        assert [heard.next().text() for _ in range(5)] == ["0", "1", "2", "3", "4"]
