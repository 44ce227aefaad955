"""The nodes of the tour's system; that they find each other is tested with the whole tour."""

from __future__ import annotations

import tomllib

import pytest

from skerry.apps.demo import system as module
from skerry.apps.demo.processes import DemoProcesses
from skerry.apps.demo.system import SYSTEM_NODES, DemoSystem
from skerry.client.api.picture import PictureNode
from skerry.errors import ConnectFailed


@pytest.mark.slow
def test_the_nodes_know_each_other_and_end_in_order() -> None:
    messages: list[str] = []
    with DemoProcesses() as processes:
        system = DemoSystem(processes, report=messages.append)
        system.start()
        files = [processes.path / f"{name}.toml" for name in SYSTEM_NODES]
        peers = [tomllib.loads(file.read_text())["node"]["peers"] for file in files]
        assert [one["control"] for one in peers] == peers[0]["seeds"]
        assert len({one[key] for one in peers for key in ("control", "data")}) == 6
        for name in SYSTEM_NODES:
            system._connect(name)
        assert system.end() == dict.fromkeys(SYSTEM_NODES, 0)
    assert [line.split(":")[0] for line in messages] == list(SYSTEM_NODES)


def test_a_node_that_does_not_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WAIT_S_MAX", 0.0)
    with DemoProcesses() as processes:
        system = DemoSystem(processes, report=print)
        with pytest.raises(ConnectFailed):
            system._connect(SYSTEM_NODES[0])
        assert system.end() == {}


def test_a_node_is_shown_with_its_state() -> None:
    node = PictureNode(
        id=-1,
        name="radar",
        kind="full",
        endpoints=(),
        is_dead=True,
        generation=0,
        started=0.0,
        reason="silent",
    )
    assert module._node_line(node, is_elected=False) == "radar: dead (silent), id ffffffffffffffff"
