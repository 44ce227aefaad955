"""`skerry context`, and which node a command connects to."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def test_contexts_are_saved_selected_shown_and_removed(run: Run, clean_place: Path) -> None:
    assert "no contexts are saved" in run("context", "list").err
    assert run("context", "add", "bridge", "tls://user:pw@bridge:1", "--ca", "ca.pem").code == 0
    done = run("context", "add", "local", "localhost:11235", "--use")
    assert "commands connect to localhost:11235 from now on" in done.err
    rows = [json.loads(line) for line in run("context", "list", "--json").out.splitlines()]
    assert [(row["name"], row["selected"]) for row in rows] == [("bridge", False), ("local", True)]
    assert rows[0]["node"] == "tls://user:********@bridge:1"
    assert rows[0]["ca"] == str(clean_place / "ca.pem")
    assert "*  local" in run("context", "list").out
    assert "localhost:11235" in run("context", "show").out
    assert json.loads(run("context", "show", "bridge", "-j").out)["name"] == "bridge"
    assert "no context is selected now" in run("context", "remove", "local").err
    assert run("context", "show").code == 1
    assert run("context", "use", "bridge").code == 0
    assert run("context", "use", "--none").code == 0
    assert run("context", "show").code == 1


def test_only_the_user_can_read_the_file(run: Run, clean_place: Path) -> None:
    run("context", "add", "x", "tcp://x")
    path = clean_place / "home" / ".config" / "skerry" / "contexts.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_selected_context_is_the_default_node(
    run: Run, live_node: Any, clean_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = f"uds:{clean_place}/none.sock"
    run("context", "add", "live", live_node.place)
    run("context", "add", "none", nowhere, "--use")
    assert run("get", "DotsClient").code == 3
    assert run("get", "DotsClient", "--context", "live").code == 0
    run("context", "use", "live")
    assert run("get", "DotsClient").code == 0
    assert run("get", "DotsClient", "--node", nowhere).code == 3
    monkeypatch.setenv("SKERRY_ENDPOINT", nowhere)
    assert run("get", "DotsClient").code == 3, "the environment takes precedence"
    assert "SKERRY_ENDPOINT is set and takes precedence" in run("context", "use", "live").err
    monkeypatch.setenv("SKERRY_CONTEXT", "live")
    assert run("get", "DotsClient").code == 0


def test_a_context_has_the_secret(run: Run, live_node: Any, clean_place: Path) -> None:
    (clean_place / "secret").write_text("")
    run("context", "add", "live", live_node.place, "--secret-file", "secret", "--use")
    done = run("get", "DotsClient")
    assert "secret is empty" in done.err
    assert run("get", "DotsClient", "--secret", "s").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("add", "a/b", "tcp://x"), 2, "'a/b' cannot be the name of a context"),
        (("add", "a", "nonsense"), 2, "there is no scheme 'nonsense'"),
        (("add", "local", "tcp://x"), 1, "there is a context local already"),
        (("use", "locla"), 1, "did you mean local?"),
        (("use", "zzz"), 1, "the contexts are local"),
        (("use",), 2, "give the NAME of a context, or --none"),
        (("remove", "zzz"), 1, "there is no context zzz"),
    ],
)
def test_mistakes_are_reported(
    run: Run, arguments: tuple[str, ...], code: int, complaint: str
) -> None:
    run("context", "add", "local", "localhost:1")
    done = run("context", *arguments)
    assert done.code == code
    assert complaint in done.err


def test_an_unreadable_file_is_reported(run: Run, clean_place: Path) -> None:
    path = clean_place / "home" / ".config" / "skerry" / "contexts.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    done = run("get", "Vessel")
    assert done.code == 1
    assert "it was not written by `skerry context`" in done.err
    assert "Traceback" not in done.err


def test_node_and_context_exclude_each_other(run: Run) -> None:
    done = run("get", "Vessel", "--node", "tcp://x", "--context", "y")
    assert done.code == 2
    assert "--node and --context exclude each other" in done.err
    assert "there is no context y" in run("get", "Vessel", "--context", "y").err
