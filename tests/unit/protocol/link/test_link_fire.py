"""Random, cut and changed datagrams (FS-54); `make soak ONLY=link_fuzz` sends a million of them."""

from __future__ import annotations

from random import Random

from tests.link_fire import LinkUnderFire


def test_fs_54_random_and_truncated_datagrams_do_no_harm() -> None:
    fire = LinkUnderFire(Random(7))
    for _ in range(3000):
        fire.shoot()
    assert {"checksum", "short", "kind", "destination", "body", "stranger"} <= set(fire.drop_counts)
    assert fire.delivered_count > 20, "what is intact is delivered, so the others were read as well"
    assert fire.stalled_count > 0
