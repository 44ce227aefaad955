"""The checks of a system: what each of its states is called, and what is advised."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from skerry.apps.doctor import system_checks
from skerry.apps.doctor.results import CheckResult
from skerry.apps.doctor.system_checks import examine_system
from skerry.client.api.picture import PictureNode
from skerry.objects.internal import internal_class


def node(number: int, name: str, **facts: Any) -> PictureNode:
    usual: dict[str, Any] = {
        "kind": "full",
        "endpoints": (),
        "is_dead": False,
        "generation": 0,
        "started": 0.0,
        "node_type": "node",
        "control": f"10.0.0.{number}:26660",
        "data": f"10.0.0.{number}:26661",
        "reason": "",
        "clock_offset_s": 0.0,
        "unheard_by": (),
    }
    return PictureNode(id=number, name=name, **{**usual, **facts})


class Subscription:
    def close(self) -> None:
        pass


class Container(list[Any]):
    def close(self) -> None:
        pass


@dataclass
class FakeSpace:
    """A space that has published rows of the internal types before anyone subscribes."""

    nodes: tuple[PictureNode, ...]
    rows: dict[str, list[Any]] = field(default_factory=dict)
    is_detached: bool = False
    has_additions: bool = True

    @property
    def picture(self) -> Any:
        return SimpleNamespace(
            system="harbour",
            node=1,
            nodes=self.nodes,
            incarnation=5,
            elected=1,
            election=6,
            sequence=7,
            digest=8,
            is_detached=self.is_detached,
        )

    def subscribe(self, type_name: str, callback: Any) -> Subscription:
        for row in self.rows.get(type_name, ()):
            callback(SimpleNamespace(object=row, info=SimpleNamespace(received=4e9)))
        return Subscription()

    def container(self, type_name: str) -> Container:
        assert type_name == "SkerryPicture"
        return Container(self.nodes)

    def flush(self, timeout: float = 1.0) -> None:
        assert timeout > 0


def probe(number: int, **facts: Any) -> Any:
    usual = {"control": f"10.0.0.{number}:26660", "datagramBytes": 1450, "mtu": 1500}
    return internal_class("SkerryProbe")(node=number, **{**usual, **facts})


def link(number: int, **facts: Any) -> Any:
    return internal_class("SkerryRawStatistics")(observer=1, node=number, **facts)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system_checks, "_ROUND_S", 0.0)
    monkeypatch.setattr(system_checks, "_PROBES_S_MAX", 0.01)
    monkeypatch.setattr(system_checks, "_LINKS_S_MAX", 0.01)


def found(space: Any) -> list[CheckResult]:
    return list(examine_system(space))


CRANE = node(1, "crane")
QUAY = node(2, "quay")
ANSWERED = probe(2, roundTripTime=0.0005, wholeRoundTripTime=0.0006)


def test_a_node_that_is_well_is_one_line() -> None:
    rows = {"SkerryProbe": [ANSWERED], "SkerryRawStatistics": [link(2, clockOffset=-0.003)]}
    system, quay = found(FakeSpace((CRANE, QUAY), rows))
    assert (system.verdict, system.check) == ("ok", "system")
    assert system.facts == (
        "harbour: 2 nodes alive, elected crane, this node is crane at 10.0.0.1:26660"
    )
    assert (quay.verdict, quay.check) == ("ok", "node quay")
    assert quay.facts == (
        "10.0.0.2:26660 answers in 0.5 ms, datagrams of 1450 bytes pass in one piece,"
        " clock -0.003 s"
    )


@pytest.mark.parametrize(
    ("space", "verdict", "facts"),
    [
        (FakeSpace(()), "warn", "the node has not joined its system yet"),
        (FakeSpace((QUAY,)), "warn", "the node has not joined its system yet"),
        (FakeSpace((node(1, "a", control=""),)), "ok", "the node belongs to no system"),
        (
            FakeSpace((node(1, "a", is_dead=True, reason="slow"),)),
            "fail",
            "harbour has excluded this node: slow",
        ),
        (FakeSpace((CRANE,)), "warn", "harbour: no other node is alive"),
        (FakeSpace((CRANE,), is_detached=True), "warn", "harbour: the node is cut off from it"),
    ],
)
def test_the_state_of_the_node_is_the_first_check(space: Any, verdict: str, facts: str) -> None:
    (result,) = found(space)
    assert (result.check, result.verdict, result.facts) == ("system", verdict, facts)
    assert verdict == "ok" or result.advice


def test_a_host_that_is_not_skerry_has_no_system() -> None:
    assert found(FakeSpace((), has_additions=False)) == []


def test_a_node_that_does_not_answer_is_a_failure() -> None:
    silent = {"SkerryRawStatistics": [link(2, silence=4.0)], "SkerryProbe": [probe(2)]}
    for rows, facts in (
        ({}, "10.0.0.2:26660 does not answer"),
        (silent, "10.0.0.2:26660 does not answer; its last datagram arrived 4.0 s ago"),
    ):
        _, quay = found(FakeSpace((CRANE, QUAY), rows))
        assert (quay.verdict, quay.facts) == ("fail", facts)
        assert "firewalls" in quay.advice


@pytest.mark.parametrize(
    ("facts", "shown", "advice"),
    [
        ({"mtu": 1400}, "do not fit the interface of this node", "datagram_bytes to 1372 or less"),
        ({"mtu": 1500}, "although the interface of this node permits them", "minus 28 (48 with"),
        (
            {"mtu": 1490, "control": "[fd00::2]:26660"},
            "do not fit the interface of this node",
            "datagram_bytes to 1442 or less",
        ),
    ],
)
def test_datagrams_that_have_to_be_divided_are_a_warning(
    facts: dict[str, Any], shown: str, advice: str
) -> None:
    rows = {"SkerryProbe": [probe(2, roundTripTime=0.001, **facts)]}
    _, quay, mtu = found(FakeSpace((CRANE, QUAY), rows))
    assert (quay.verdict, mtu.check, mtu.verdict) == ("ok", "MTU to quay", "warn")
    assert shown in mtu.facts
    assert advice in mtu.advice


def test_the_best_of_several_rounds_counts() -> None:
    lost = probe(2, roundTripTime=0.001)
    _, quay = found(FakeSpace((CRANE, QUAY), {"SkerryProbe": [lost, ANSWERED, lost]}))
    assert "in one piece" in quay.facts


def test_clocks_and_lags_are_warnings_of_their_own() -> None:
    row = link(2, clockOffset=2.5, lag=3.0, backlogBytes=1000)
    rows = {"SkerryProbe": [ANSWERED], "SkerryRawStatistics": [row]}
    _, _, clock, lag = found(FakeSpace((CRANE, QUAY), rows))
    assert (clock.check, clock.verdict, clock.facts) == (
        *("clock of quay", "warn", "+2.500 s from this node"),
    )
    assert (lag.check, lag.verdict, lag.facts) == (
        *("lag of quay", "warn", "3.0 s behind, 1000 bytes wait for it"),
    )


def test_one_way_links_and_excluded_nodes_are_found() -> None:
    deaf = node(2, "quay", unheard_by=(1, 99))
    gone = node(3, "tug", is_dead=True, reason="unanswered")
    stopped = node(4, "dock", is_dead=True, reason="ordered")
    returned = node(5, "quay", control="10.0.0.2:26664", is_dead=True, reason="silent")
    rows = {"SkerryProbe": [ANSWERED]}
    _, _, tug, first, second = found(FakeSpace((CRANE, deaf, gone, stopped, returned), rows))
    assert (tug.check, tug.verdict, tug.facts) == ("node tug", "warn", "is excluded: unanswered")
    assert (first.check, first.verdict) == ("one-way link", "fail")
    assert first.facts == "crane receives nothing of quay, which receives crane"
    assert second.facts.startswith("0000000000000063 receives nothing of quay")
