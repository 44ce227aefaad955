"""`skerry pub`, `sub` and `get`, on a real node in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

TYPES = "struct Vessel { 1: [key] uint32 mmsi; 2: string name; 3: float64 lat; }\n"


@pytest.fixture
def types(tmp_path: Path) -> str:
    path = tmp_path / "fleet.dots"
    path.write_text(TYPES)
    return str(path)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[str]:
    place = f"uds:{tmp_path}/node.sock"
    process = subprocess.Popen(
        [sys.executable, "-m", "skerry", "node", "run", "--listen", place],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if "listens at" in line:
                break
        yield place
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


@pytest.mark.slow
def test_what_is_published_can_be_got_and_followed_and_removed(
    run: Callable[..., Any], node: str, types: str
) -> None:
    common = ("--node", node, "--types", types)
    assert run("pub", "Vessel", "mmsi=1", "name=Maren", "lat=52.5", *common).code == 0
    assert run("pub", "Vessel", "mmsi=1", "lat=53", *common).code == 0
    got = run("get", "Vessel", *common)
    assert got.out == 'Vessel{ .mmsi = 1u, .name = "Maren", .lat = 53.0 }\n'
    followed = run("sub", "Vessel", "--count", "1", "--json", *common)
    assert json.loads(followed.out) == {
        "mmsi": 1,
        "name": "Maren",
        "lat": 53.0,
        "_operation": "create",
    }
    assert run("pub", "Vessel", "mmsi=1", "--remove", *common).code == 0
    assert run("get", "Vessel", "--json", *common).out == ""


@pytest.mark.slow
def test_lines_of_json_are_published(node: str, types: str) -> None:
    command = [sys.executable, "-m", "skerry"]
    lines = "".join(json.dumps({"mmsi": number}) + "\n" for number in range(3))
    done = subprocess.run(
        [*command, "pub", "Vessel", "--node", node, "--types", types],
        input=lines,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    shown = subprocess.run(
        [*command, "get", "Vessel", "--json", "--node", node, "--types", types],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert [json.loads(line)["mmsi"] for line in shown.splitlines()] == [0, 1, 2]


def test_no_node_is_exit_code_three_with_a_hint(
    run: Callable[..., Any], types: str, tmp_path: Path
) -> None:
    done = run("get", "Vessel", "--node", f"uds:{tmp_path}/none.sock", "--types", types)
    assert done.code == 3
    assert "no node answered" in done.err
    assert "skerry node run" in done.err


def test_unknown_type_and_odd_fields_are_usage_errors(run: Callable[..., Any], types: str) -> None:
    unknown = run("get", "Nothing", "--types", types)
    assert unknown.code == 2
    assert "there is no struct Nothing" in unknown.err
    assert run("get", "Vessel").code == 2


@pytest.mark.slow
def test_value_that_does_not_fit_is_told(run: Callable[..., Any], node: str, types: str) -> None:
    done = run("pub", "Vessel", "mmsi=-1", "--node", node, "--types", types)
    assert done.code == 1
    assert "Vessel.mmsi: -1 is out of the range of uint32" in done.err
    odd = run("pub", "Vessel", "mmsi", "--node", node, "--types", types)
    assert odd.code == 2
