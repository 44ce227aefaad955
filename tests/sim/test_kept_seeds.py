"""Every seed that ever failed, run again."""

from __future__ import annotations

from pathlib import Path

import pytest

from skerry.testing import run_scenario
from skerry.testing.seeds import KeptSeed, read_seeds

KEPT = read_seeds(Path(__file__).parent / "seeds.toml")


@pytest.mark.parametrize("kept", KEPT, ids=lambda kept: f"{kept.scenario}-{kept.seed}")
def test_a_seed_that_failed_once_does_not_fail_again(kept: KeptSeed) -> None:
    outcome = run_scenario(kept.scenario, kept.seed, node_count=kept.nodes)
    if outcome.error is not None:
        raise outcome.error


def test_every_kept_seed_has_a_sentence() -> None:
    assert KEPT
    assert all(kept.why.endswith(".") and " " in kept.why for kept in KEPT)
