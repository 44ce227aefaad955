"""The demo: its promises, and that breaking one shows."""

from __future__ import annotations

from itertools import count

from skerry.apps.demo import Demo
from skerry.apps.fleet import Vessel
from skerry.engine.local import LocalEvent


def sailed(*, steps: int) -> Demo:
    ticks = count(step_ns := 1_000_000_000, step_ns)
    demo = Demo(lambda: next(ticks), seed=1, vessel_count=20)
    for _ in range(steps):
        demo.step()
    return demo


def broken(demo: Demo) -> list[str]:
    return [check.promise for check in demo.checks() if not check.holds]


def test_promises_hold_after_a_while() -> None:
    demo = sailed(steps=40)
    assert broken(demo) == []
    assert demo.watcher.count(Vessel) == len(demo.fleet.vessels)


def test_demo_that_did_nothing_does_not_claim_success() -> None:
    assert broken(sailed(steps=0)) == ["every update was delivered once"]


def test_vessel_that_moved_unseen_breaks_the_first_promise() -> None:
    demo = sailed(steps=5)
    next(iter(demo.fleet.vessels.values())).lat = 0.0
    assert broken(demo) == ["the watcher's picture and the space's are the fleet as it is"]


def test_lost_update_breaks_the_second_promise() -> None:
    demo = sailed(steps=5)
    demo.fleet.published_count += 1
    assert broken(demo) == ["every update was delivered once"]


def test_watcher_notices_an_update_that_comes_twice() -> None:
    demo = sailed(steps=5)
    events: list[LocalEvent] = []
    demo.space.subscribe(Vessel, events.append)
    demo.watcher._note(events[-1])
    demo.watcher._note(events[-1])
    assert "in the order in which they were published" in broken(demo)
