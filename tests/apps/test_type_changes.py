"""Programs with an older and a newer definition of a type, all of them processes, in any order.

Each case is a type of its own, so all cases share two nodes, one of which is restarted in between.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import skerry

pytestmark = pytest.mark.slow

PATIENCE_S = 60.0
FIELDS = {
    "old": "2: string name; 4: Rig rig; 5: uint8 crew;",
    "new": "2: string title; 3: float64 length; 4: Rig rig; 5: uint32 crew;",
}
RIGS = {"old": "1: sloop", "new": "1: sloop, 2: ketch"}

PROGRAM = """
import json, sys
import skerry

types = skerry.define_types(sys.argv[1])
spaces, seen = {}, {}

def plain(obj):
    return json.loads(obj.to_json())

def connect(name, endpoint):
    spaces[name] = skerry.connect(endpoint, name=name, types=types)

def publish(name, objects):
    for type_name, fields in objects:
        spaces[name].publish(types[type_name].from_json(json.dumps(fields)))
    spaces[name].flush(timeout=50)

def remove(name, objects):
    for type_name, key in objects:
        spaces[name].remove(types[type_name](id=key))
    spaces[name].flush(timeout=50)

def follow(name, type_names, where):
    for type_name in type_names:
        container = spaces[name].container(types[type_name], where=where)
        seen.setdefault((name, where), {})[type_name] = container

def state(name, where):
    spaces[name].flush(timeout=50)
    found = seen[name, where].items()
    return {t: [plain(obj) for obj in container.values()] for t, container in found}

def close(name):
    spaces.pop(name).close()

for line in sys.stdin:
    what, *arguments = json.loads(line)
    try:
        answer = [globals()[what](*arguments), None]
    except skerry.SkerryError as error:
        answer = [None, f"{type(error).__name__}: {error}"]
    print(json.dumps(answer), flush=True)
for space in spaces.values():
    space.close()
"""
"""A program of one version, which reads orders as lines."""


class Case(NamedTuple):
    """One order of events."""

    first: str
    second: str
    """Versions of the two publishers."""
    joins: str
    """Whether subscribers start before the first publisher, between the two, or after both."""
    is_restarted: bool

    @property
    def type_name(self) -> str:
        return f"Boat{CASES.index(self)}"


CASES = list(
    itertools.starmap(
        Case,
        itertools.product(
            ("old", "new"), ("old", "new"), ("before", "between", "after"), (False, True)
        ),
    )
)


def types_text(version: str) -> str:
    """All types of the cases, as a program of a version defines them."""
    boats = [
        f"struct {case.type_name} [persistent] {{ 1: [key] uint32 id; {FIELDS[version]} }}"
        for case in CASES
    ]
    return "\n".join([f"enum Rig {{ {RIGS[version]} }}", *boats])


class Program:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def do(self, *arguments: Any) -> Any:
        """Returns the result; RuntimeError with the error of the program."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        found, error = json.loads(self._process.stdout.readline())
        if error is not None:
            raise RuntimeError(error)
        return found


class Site:
    """A folder with nodes and programs."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        foreign = ("SKERRY_", "DOTS_", "XDG_")
        self._environ = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
        self._environ["HOME"] = str(folder)
        self._ports: dict[str, int] = {}

    def port(self, name: str) -> int:
        if name not in self._ports:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self._ports[name] = probe.getsockname()[1]
        return self._ports[name]

    def places(self, name: str) -> dict[str, str]:
        """Endpoints of a node by the way in which programs speak."""
        unix = f"uds:{self.folder}/{name}.sock"
        return {
            "ours": unix,
            "plain": f"{unix}?extensions=off",
            "json": f"ws://127.0.0.1:{self.port(name)}",
        }

    @contextmanager
    def node(self, name: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        run = ("-m", "skerry", "node", "run", "--metrics", "off", "--name", name)
        places = self.places(name)
        listen = ("--listen", places["ours"], "--listen", places["json"])
        storage = ("--storage", f"sqlite:{self.folder}/{name}.db")
        with self._process(*run, *listen, *storage, *arguments, stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            for line in process.stderr:
                if "listens at" in line and "ws://" in line:
                    break
            else:
                pytest.fail("the node ended")
            yield process

    def program(self, text: str) -> Program:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        return Program(self._stack.enter_context(self._process("-c", PROGRAM, text, **pipes)))

    @contextmanager
    def _process(self, *arguments: str, **pipes: Any) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            [sys.executable, *arguments], text=True, env=self._environ, cwd=self.folder, **pipes
        )
        with process:
            try:
                yield process
            finally:
                process.kill()


def ended(process: subprocess.Popen[str]) -> str:
    """End a node; returns its log."""
    process.send_signal(signal.SIGTERM)
    return process.communicate(timeout=PATIENCE_S)[1]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(tmp_path, stack)


# -- published objects, and what programs read of them

Objects = dict[str, list[dict[str, Any]]]

FIRST: Objects = {
    "old": [{"id": 1, "name": "Mary", "rig": "sloop", "crew": 3}, {"id": 2, "name": "Anne"}],
    "new": [
        {"id": 1, "title": "Mary", "length": 9.5, "rig": "ketch", "crew": 300},
        {"id": 2, "title": "Anne", "length": 4.0},
    ],
}
SECOND: Objects = {
    "old": [{"id": 1, "name": "Jane"}, {"id": 3, "name": "Ruth", "crew": 7}],
    "new": [{"id": 1, "length": 8.5}, {"id": 3, "title": "Ruth", "length": 7.0, "crew": 70_000}],
}


def merged(case: Case) -> list[dict[str, Any]]:
    """The objects as a program reads them that knows everything."""
    objects: dict[int, dict[str, Any]] = {}
    for update in (*FIRST[case.first], *SECOND[case.second]):
        named = {"title" if name == "name" else name: value for name, value in update.items()}
        objects.setdefault(update["id"], {}).update(named)
    return list(objects.values())


def read(version: str, obj: dict[str, Any]) -> dict[str, Any]:
    """An object as a program of a version reads it."""
    if version == "new":
        return obj
    # The field has another name, and the same tag.
    obj = {"name" if name == "title" else name: value for name, value in obj.items()}
    is_read = {
        "length": False,
        "rig": obj.get("rig") != "ketch",
        "crew": obj.get("crew", 0) < 256,
    }
    return {name: value for name, value in obj.items() if is_read.get(name, True)}


def test_every_order_of_old_and_new_publishers_and_subscribers(site: Site) -> None:
    programs = {version: site.program(types_text(version)) for version in FIELDS}
    wheres = {"old": "crew >= 7", "new": "length > 7.5 or crew >= 300"}

    def cases(is_restarted: bool) -> list[Case]:
        return [case for case in CASES if case.is_restarted == is_restarted]

    def join(node: str, when: str) -> None:
        names = [c.type_name for c in cases(node == "restarted") if c.joins == when]
        for version, program in programs.items():
            for way, endpoint in site.places(node).items():
                subscriber = f"{node} {when} {way}"
                program.do("connect", subscriber, endpoint)
                program.do("follow", subscriber, names, None)
                program.do("follow", subscriber, names, wheres[version])

    def publish(node: str, which: str) -> None:
        for version, program in programs.items():
            program.do("connect", f"{node} {which}", site.places(node)["ours"])
            objects = [
                (case.type_name, obj)
                for case in cases(node == "restarted")
                for obj in (FIRST if which == "first" else SECOND)[version]
                if getattr(case, which) == version
            ]
            program.do("publish", f"{node} {which}", objects)
            program.do("close", f"{node} {which}")

    with site.node("steady"), ExitStack() as later:
        with site.node("restarted") as process:
            for node in ("steady", "restarted"):
                join(node, "before")
                publish(node, "first")
                join(node, "between")
            ended(process)
        later.enter_context(site.node("restarted"))
        for node in ("steady", "restarted"):
            publish(node, "second")
            join(node, "after")
        wrong = []
        for node, when, way, version in itertools.product(
            ("steady", "restarted"),
            ("before", "between", "after"),
            ("ours", "plain", "json"),
            FIELDS,
        ):
            subscriber = f"{node} {when} {way}"
            where = wheres[version]
            seen = programs[version].do("state", subscriber, None)
            selected = programs[version].do("state", subscriber, where)
            for case in cases(node == "restarted"):
                if case.joins != when:
                    continue
                known = merged(case)
                chosen = [obj for obj in known if is_chosen(version, obj)]
                for got, expected in ((seen, known), (selected, chosen)):
                    mine = sorted(got[case.type_name], key=lambda obj: obj["id"])
                    if mine != [read(version, obj) for obj in expected]:
                        wrong.append((case, way, version, got is selected, mine))
    assert not wrong, "\n".join(map(str, wrong))
    storage = sqlite3.connect(site.folder / "restarted.db")
    try:
        ((count,),) = storage.execute("SELECT count(*) FROM objects").fetchall()
    finally:
        storage.close()
    assert count == sum(len(merged(case)) for case in cases(is_restarted=True))


def is_chosen(version: str, obj: dict[str, Any]) -> bool:
    """Whether an object meets the condition of the subscribers of a version."""
    if version == "old":
        return bool(obj.get("crew", 0) >= 7)
    return bool(obj.get("length", 0.0) > 7.5 or obj.get("crew", 0) >= 300)


def dump(path: Path) -> list[tuple[Any, ...]]:
    storage = sqlite3.connect(path)
    try:
        return sorted(storage.execute("SELECT * FROM objects").fetchall(), key=repr)
    finally:
        storage.close()


def test_a_reader_with_a_narrower_definition_changes_nothing_on_the_disk(site: Site) -> None:
    wide = skerry.define_types(
        "struct Boat [persistent] { 1: [key] uint32 id; 2: string a; 3: string b; 4: string c; }"
    ).Boat
    narrow = "struct Boat [persistent] { 1: [key] uint32 id; 2: string a; }"
    rules = site.folder / "skerry.toml"
    rules.write_text(
        """
        [[node.admission.permission]]
        verbs = ["all"]
        client = "maker"
        [[node.admission.permission]]
        verbs = ["subscribe"]
        """
    )
    rules.chmod(0o600)
    place = site.places("node")["ours"]
    with site.node("node") as process:
        with skerry.connect(place, name="maker") as space:
            for number in range(1000):
                space.publish(wide(id=number, a="a", b="b", c="c"))
            space.flush(timeout=PATIENCE_S)
        ended(process)
    before = dump(site.folder / "node.db")
    assert len(before) == 1000
    with site.node("node") as process:
        program = site.program(narrow)
        program.do("connect", "reader", place)
        program.do("follow", "reader", ["Boat"], None)
        assert len(program.do("state", "reader", None)["Boat"]) == 1000
        with pytest.raises(RuntimeError, match="Refused"):
            program.do("publish", "reader", [("Boat", {"id": 1, "a": "x"})])
        with skerry.connect(place, name="maker") as space:
            assert set(space.container(wide).values()) >= {wide(id=7, a="a", b="b", c="c")}
        ended(process)
    assert dump(site.folder / "node.db") == before


def test_an_incompatible_definition_is_refused_whole(site: Site) -> None:
    text = "struct Boat [persistent] {{ 1: [key] uint32 id; 2: {} name; }}"
    with site.node("node") as process:
        place = site.places("node")["ours"]
        one, other = site.program(text.format("string")), site.program(text.format("int32"))
        one.do("connect", "one", place)
        one.do("publish", "one", [("Boat", {"id": 1, "name": "Mary"})])
        one.do("follow", "one", ["Boat"], None)
        other.do("connect", "other", place)
        with pytest.raises(RuntimeError, match="Refused") as caught:
            other.do("publish", "other", [("Boat", {"id": 1, "name": 7}), ("Boat", {"id": 2})])
        for part in ("Boat.name", "string to int32", "(one)", "(other)"):
            assert part in str(caught.value)
        assert one.do("state", "one", None) == {"Boat": [{"id": 1, "name": "Mary"}]}
        one.do("remove", "one", [("Boat", 1)])
        one.do("close", "one")
        other.do("publish", "other", [("Boat", {"id": 1, "name": 7})])
        other.do("follow", "other", ["Boat"], None)
        assert other.do("state", "other", None) == {"Boat": [{"id": 1, "name": 7}]}
        messages = ended(process)
    assert "incompatible definition of a type refused" in messages
    assert len(dump(site.folder / "node.db")) == 1
