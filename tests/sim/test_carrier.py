"""Carriers under all faults: messages reach all nodes, and broken carriers are caught."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.engine.carriage.distributor.incoming import GroupIncoming
from skerry.engine.carriage.distributor.node_client import NodeClient
from skerry.engine.carriage.distributor.outgoing import GroupOutgoing
from skerry.errors import SimulationError
from skerry.testing import World, run_scenario
from skerry.testing.machines import carrier
from skerry.testing.machines.carrier import MakeHost, make_host, play_carrier
from skerry.testing.machines.carrier_host import CarrierHost
from skerry.testing.node import Setting

SCENARIO = f"{carrier.__name__}:carrier"
SEED_COUNT = 15
BROKEN_SEED_COUNT = 5


@pytest.mark.slow
def test_the_first_seeds_hold() -> None:
    for seed in range(SEED_COUNT):
        outcome = run_scenario(SCENARIO, seed)
        if outcome.error is not None:
            raise outcome.error
        assert outcome.fault_count > 0


@pytest.mark.slow
def test_a_seed_gives_the_same_run_again() -> None:
    first = run_scenario(SCENARIO, 3)
    assert first.error is None
    assert run_scenario(SCENARIO, 3) == first


# -- broken ones


class TakesTwice(GroupIncoming):
    """Brings each object again."""

    def take(self, *update: Any) -> None:
        super().take(*update)
        super().take(*update)


class ForgetsSome(GroupIncoming):
    """Does not bring all."""

    def take(self, sender: Any, subject: str, data: bytes, now_ns: int) -> None:
        if self.brought_count % 10 != 5 or "Descriptor" in subject:
            super().take(sender, subject, data, now_ns)
        else:
            self.brought_count += 1


class NeverDescribes(GroupOutgoing):
    """Lets others guess what types are."""

    def _describe(self, *_arguments: Any) -> None:
        return


def with_part(**parts: Any) -> MakeHost:
    def make(setting: Setting) -> CarrierHost:
        host = make_host(setting)
        for name, kind in parts.items():
            getattr(host.carrier, f"_{name}").__class__ = kind
        return host

    return make


def caught(make: MakeHost, seed: int) -> str | None:
    try:
        play_carrier(World(seed), 3, make=make)
    except SimulationError as error:
        return error.checker
    return None


@pytest.mark.slow
@pytest.mark.parametrize(
    "parts", [{"incoming": TakesTwice}, {"incoming": ForgetsSome}, {"outgoing": NeverDescribes}]
)
def test_a_broken_carrier_is_caught(parts: Any) -> None:
    assert any(caught(with_part(**parts), seed) for seed in range(BROKEN_SEED_COUNT))


class HasNoName(NodeClient):
    """Does not know what the carrier itself brought in."""

    @property
    def client_id(self) -> int:
        return -2


@pytest.mark.slow
def test_an_echo_is_caught() -> None:
    assert caught(with_part(node_client=HasNoName), 1) is not None
