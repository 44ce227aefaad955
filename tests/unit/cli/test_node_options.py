"""Options of commands that connect to a node, and lost connections."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import skerry
from skerry.cli.node_options import (
    NodeChoice,
    check_filter,
    node_options,
    struct_class,
    types_option,
)
from skerry.cli.parameters import WrongValue
from skerry.errors import ConfigError, ConnectFailed

Run = Callable[..., Any]


@click.command()
@types_option
@node_options
@click.pass_context
def probe(context: click.Context, /, **given: Any) -> None:
    context.obj.update(given)


def given(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    probe.main(list(arguments), standalone_mode=False, obj=found)
    return found


def test_node_options_are_passed_as_one_value() -> None:
    found = given("--node", "tls://host", "--secret", "s", "--ca", "a", "--cert", "b", "--key", "c")
    expected = NodeChoice(endpoint="tls://host", secret="s", ca="a", cert="b", key="c")
    assert found == {"types": {}, "choice": expected}
    assert given() == {"types": {}, "choice": NodeChoice()}


def test_secret_can_be_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.touch(mode=0o600)
    file.write_text("sesame\n")
    choice = given("--secret-file", str(file))["choice"]
    assert choice.secret == "sesame"
    assert "sesame" not in repr(choice)
    with pytest.raises(click.UsageError, match="--secret and --secret-file exclude"):
        given("--secret-file", str(file), "--secret", "s")


def test_type_files_are_read_as_one(tmp_path: Path) -> None:
    (tmp_path / "a.dots").write_text("struct A { 1: [key] int32 id; }")
    (tmp_path / "b.dots").write_text("struct B { 1: A a; }")
    found = given("--types", str(tmp_path / "a.dots"), "--types", str(tmp_path / "b.dots"))
    assert sorted(found["types"]) == ["A", "B"]


def test_secret_and_files_are_used(live_node: Any, tmp_path: Path) -> None:
    with NodeChoice(endpoint=live_node.place, secret="s").connect("probe") as space:
        assert space.node_name == "harbour"
    with pytest.raises((ConfigError, ConnectFailed)):
        NodeChoice(endpoint="tls://127.0.0.1:1", ca=str(tmp_path / "none.pem")).connect("probe")


def test_class_is_taken_from_the_files_or_from_the_node(live_node: Any) -> None:
    types = skerry.define_types("struct Vessel { 1: [key] uint32 mmsi; } enum Kind { 1: a }")
    with skerry.connect(live_node.place) as space:
        assert struct_class(space, "Vessel", types) is types.Vessel
        with pytest.raises(click.UsageError, match="no struct Kind in the type files"):
            struct_class(space, "Kind", types)
        with pytest.raises(skerry.SkerryError, match="the node does not know a struct Vessel"):
            struct_class(space, "Vessel", {})
        space.publish(types.Vessel(mmsi=1))
    with skerry.connect(live_node.place) as space:
        assert struct_class(space, "Vessel", {}).descriptor == types.Vessel.descriptor
        assert struct_class(space, "DotsClient", {}).descriptor.flags.internal


@pytest.mark.parametrize(
    "arguments",
    [
        ("doctor",),
        ("get", "Vessel"),
        ("pub", "Vessel", "mmsi=1"),
        ("record", "--to", "recording"),
        ("replay", "recording"),
        ("sub", "Vessel"),
        ("top",),
        ("types", "list"),
    ],
)
def test_invalid_endpoint_is_a_usage_error(run: Run, arguments: tuple[str, ...]) -> None:
    done = run(*arguments, "--node", "nonsense://user:secret@x")
    assert (done.code, done.out) == (2, "")
    error, hint = done.err.splitlines()
    assert error.startswith(
        "error: Invalid value for '--node': there is no scheme 'nonsense'; there are tcp, "
    )
    assert hint.startswith("hint:  endpoints look like tcp://127.0.0.1:11235")
    assert "secret" not in done.err


def test_invalid_endpoint_in_the_environment_is_not_a_usage_error(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKERRY_ENDPOINT", "nonsense://x")
    assert run("top").code == 1


def test_pattern_without_a_listening_socket_is_not_a_usage_error(
    run: Run, clean_place: Path
) -> None:
    done = run("top", "--node", f"uds:{clean_place}/node-*.sock")
    assert done.code == 1
    assert "no process listens at a socket of such a name" in done.err


def test_condition_and_fields_have_to_fit_the_type() -> None:
    cls = skerry.define_types("struct Vessel { 1: [key] uint32 mmsi; 2: string name; }").Vessel
    check_filter(cls, "mmsi > 1", ["name"])
    check_filter(cls, None, None)
    with pytest.raises(WrongValue, match="Vessel has no field nam") as condition:
        check_filter(cls, "nam = 'x'", None)
    assert (condition.value.param_hint, condition.value.hint) == ("'--where'", "did you mean name?")
    with pytest.raises(WrongValue, match="Vessel has no field zzzzz") as fields:
        check_filter(cls, None, ["mmsi", "zzzzz"])
    assert (fields.value.param_hint, fields.value.hint) == (
        "'--fields'",
        "its fields are mmsi, name",
    )


class Proxy:
    """A proxy between a command and a node.

    It stops to forward after some bytes of the node, or at a word of the command.
    """

    def __init__(
        self,
        place: str,
        *,
        after: int = 1_000_000,
        word: bytes = b"no such word",
        dies: bool = False,
    ) -> None:
        self._word = word
        self._target = place.removeprefix("uds:")
        self._after = after
        self._dies = dies
        self._door = socket.create_server(("127.0.0.1", 0))
        self.place = f"tcp://127.0.0.1:{self._door.getsockname()[1]}"
        self._streams: list[socket.socket] = []
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._door.accept()
                node = socket.socket(socket.AF_UNIX)
                node.connect(self._target)
                self._streams += [client, node]
                threading.Thread(target=self._carry, args=(client, node), daemon=True).start()
                threading.Thread(target=self._limit, args=(node, client), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while (data := source.recv(4096)) and self._word not in data:
                sink.sendall(data)

    def _limit(self, node: socket.socket, client: socket.socket) -> None:
        left = self._after
        with contextlib.suppress(OSError):
            while left > 0:
                data = node.recv(min(left, 4096))
                left -= len(data)
                client.sendall(data)
            if self._dies:
                # It still accepts connections, and ends each at once.
                self._after = 0
                for one in self._streams:
                    one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for one in (self._door, *self._streams):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@pytest.fixture
def halting(node: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """A node with many objects behind a proxy that stops forwarding; returns its endpoint."""
    monkeypatch.setattr("skerry.cli.node_options._SILENCE_S_MAX", 0.4)
    log = "struct Log [cleanup=false] { 1: [key] uint32 id; 2: string text; }"
    cls = skerry.define_types(log).Log
    with skerry.connect(node.place) as space:
        for number in range(2000):
            space.publish(cls(id=number, text="x" * 100))
        space.flush()
    made: list[Proxy] = []

    def stop(**options: Any) -> str:
        made.append(Proxy(node.place, **options))
        return made[-1].place

    yield stop
    for proxy in made:
        proxy.close()


@pytest.mark.slow
@pytest.mark.parametrize("dies", [True, False])
def test_a_command_ends_when_its_node_is_lost_in_the_middle_of_a_replay(
    run: Callable[..., Any], halting: Callable[..., str], dies: bool
) -> None:
    place = halting(after=50_000, dies=dies)
    done = run("get", "Log", "--node", place)
    assert (done.code, done.out) == (3, "")
    assert f"error: the node at {place} did not answer: no answer for 0.4 s" in done.err
    assert "hint:  check with `skerry doctor --node " in done.err


@pytest.mark.slow
def test_a_publish_that_is_not_confirmed_ends_with_an_error(
    run: Callable[..., Any], halting: Callable[..., str], types: Path
) -> None:
    place = halting(word=b"Vessel")
    done = run("pub", "Vessel", "mmsi=1", "--types", types, "--node", place)
    assert done.code == 3
    assert f"error: the node at {place} did not answer: no answer" in done.err
