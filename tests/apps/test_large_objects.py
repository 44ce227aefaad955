"""Objects above 10 MiB, through every door of a real node, its storage and a recording."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.runtime.recordings.reader import open_recordings
from skerry.runtime.recordings.updates import read_updates

pytestmark = pytest.mark.slow

PATIENCE_S = 120
LIMIT = 104_900_000
BLOB = "struct Blob [persistent] { 1: [key] uint32 id; 2: bytes data; }"
Blob = skerry.define_types(BLOB).Blob
ABOVE = 11_000_000
HUGE = 104_800_000


@contextmanager
def node(folder: Path) -> Iterator[list[str]]:
    """A node that accepts large objects; returns its endpoints."""
    (folder / "skerry.toml").write_text(
        f"[node.admission.limits]\nupdate_bytes_max = {LIMIT}\n", encoding="utf-8"
    )
    foreign = ("SKERRY_", "DOTS_", "XDG_")
    environ = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
    environ |= {
        "HOME": str(folder),
        "SKERRY_RUNTIME_DIR": str(folder / "run"),
        "SKERRY_STATE_DIR": str(folder / "state"),
    }
    if "SKERRY_TEST_MODE" in os.environ:
        environ["SKERRY_TEST_MODE"] = os.environ["SKERRY_TEST_MODE"]
    arguments = ["--config", "skerry.toml", "--record", str(folder / "recording")]
    for door in (f"uds:{folder}/node.sock", *(f"{k}://127.0.0.1:0" for k in ("tcp", "ws"))):
        arguments += ["--listen", door]
    arguments += ["--listen", "tcp-v1://127.0.0.1:0", "--metrics", "off"]
    with subprocess.Popen(
        [sys.executable, "-m", "skerry", "node", "run", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
        cwd=folder,
    ) as process:
        assert process.stderr is not None
        try:
            line = next(line for line in process.stderr if "listens at" in line)
            reading = threading.Thread(target=process.stderr.read)
            reading.start()
            yield line.partition("listens at ")[2].strip().split(", ")
        finally:
            process.terminate()
            process.wait(PATIENCE_S)
            reading.join()


def next_of(subscription: Any) -> Any:
    event = subscription.get(timeout=PATIENCE_S)
    assert event is not None
    return event.object


def sizes(space: Any) -> dict[int, int]:
    return {obj.id: len(obj.data) for obj in space.container(Blob).values()}


def test_large_objects_pass_every_door_and_survive(tmp_path: Path) -> None:
    with node(tmp_path) as doors, ExitStack() as stack:
        spaces = [stack.enter_context(skerry.connect(door, timeout=PATIENCE_S)) for door in doors]
        subscriptions = [space.subscribe(Blob) for space in spaces]
        for number, space in enumerate(spaces):
            space.publish(Blob(id=number, data=bytes([number]) * ABOVE))
            space.flush(timeout=PATIENCE_S)
            for subscription in subscriptions:
                received = next_of(subscription)
                assert (received.id, len(received.data), received.data[-1]) == (
                    number,
                    ABOVE,
                    number,
                )
        for space in spaces[2:]:
            space.close()
        spaces[1].publish(Blob(id=9, data=b"x" * HUGE))
        spaces[1].flush(timeout=PATIENCE_S)
        assert len(next_of(subscriptions[0]).data) == HUGE
        spaces[1].publish(Blob(id=10, data=b"x" * LIMIT))
        with pytest.raises(skerry.Refused, match=r"limits\.update_bytes_max"):
            spaces[1].flush(timeout=PATIENCE_S)
        with skerry.connect(doors[0], receive_bytes_max=ABOVE + 100) as small:
            assert sizes(small) == dict.fromkeys(range(4), ABOVE)
    with node(tmp_path) as doors, skerry.connect(doors[0]) as space:
        assert sizes(space) == {**dict.fromkeys(range(4), ABOVE), 9: HUGE}
    rows = read_updates(open_recordings(tmp_path / "recording"))
    recorded = {len(row.payload) for row in rows if row.type_name == "Blob"}
    assert {size // 1_000_000 for size in recorded} == {11, 104}
