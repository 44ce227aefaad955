"""Backpressure: which publishers wait, for whom, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.origins import Origin
from skerry.engine.admission.quotas import ClientLimits
from skerry.engine.delivery.backpressure import (
    BACKPRESSURE_BYTES,
    BACKPRESSURE_PENALTY,
    BACKPRESSURE_SHARE_BYTES,
)

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour

TYPES = skerry.define_types(
    """
    struct Load [cached=false] { 1: string text; }
    struct Other [cached=false] { 1: string text; }
    struct Boat { 1: [key] uint32 id; 2: string text; }
    """
)
Load, Other, Boat = TYPES.Load, TYPES.Other, TYPES.Boat
HERE = Origin(kind="tcp", host="127.0.0.1")
QUEUE_BYTES = 40_000
MARK_BYTES = QUEUE_BYTES // 4
MUCH = "x" * MARK_BYTES
MORE = "y" * (MARK_BYTES // 4)


class Scene:
    """A node, and what it said about whom to read from."""

    def __init__(self, harbour: Harbour) -> None:
        self.harbour = harbour
        self.held: set[str] = set()

    def guest(self, name: str, *groups: str, origin: Origin = HERE) -> Guest:
        guest = self.harbour.guest(name, origin=origin, extensions=0)
        for group in groups:
            guest.join(group)
        return guest

    def holds(self) -> set[str]:
        """The clients that the node does not read from now."""
        node = self.harbour.node
        held = {address.host for address in self.harbour.guests if node.is_held(address)}
        released = {address.host for address in node.take_released()}
        assert self.held - held <= released
        assert not released & held
        self.held = held
        return held

    def wait(self, seconds: float) -> None:
        self.harbour.wait(seconds)


@pytest.fixture
def scene(make_harbour: Callable[..., Harbour]) -> Scene:
    return made(make_harbour, waiting_bytes_max=QUEUE_BYTES)


def made(make_harbour: Callable[..., Harbour], **limits: Any) -> Scene:
    config = AdmissionConfig(limits=ClientLimits(**{"backpressure_s_max": 1.0, **limits}))
    return Scene(make_harbour(admission=Admission(config)))


def fall_behind(scene: Scene, slow: Guest, publisher: Guest) -> None:
    slow.pause()
    publisher.publish(Load(text=MUCH))
    publisher.publish(Load(text=MORE))


def test_a_publisher_waits_until_its_subscriber_has_read(scene: Scene) -> None:
    slow = scene.guest("slow", "Load")
    publisher = scene.guest("publisher")
    slow.pause()
    publisher.publish(Load(text=MUCH))
    assert scene.holds() == set()
    publisher.publish(Load(text=MORE))
    assert scene.holds() == {"publisher"}
    slow.resume()
    assert scene.holds() == set()
    assert [obj.text for obj in slow.objects(Load)] == [MUCH, MORE]
    assert scene.harbour.node.statistics().backpressure_count == 1


def test_a_short_pause_delays_no_publisher(scene: Scene) -> None:
    slow = scene.guest("slow", "Load")
    publisher = scene.guest("publisher")
    slow.pause()
    for _ in range(10):
        publisher.publish(Load(text="x" * (MARK_BYTES // 20)))
    assert scene.holds() == set()


def test_only_publishers_that_add_to_the_queue_wait(scene: Scene) -> None:
    slow = scene.guest("slow", "Load")
    publisher, other = scene.guest("publisher"), scene.guest("other")
    fall_behind(scene, slow, publisher)
    other.publish(Other(text=MUCH))
    other.echo(1)
    assert scene.holds() == {"publisher"}
    other.publish(Load(text="little"))
    assert scene.holds() == {"publisher"}
    other.publish(Load(text=MORE))
    assert scene.holds() == {"publisher", "other"}
    slow.resume()
    assert scene.holds() == set()


def test_a_publisher_waits_for_all_its_subscribers(scene: Scene) -> None:
    first, second = scene.guest("first", "Load"), scene.guest("second", "Load")
    publisher = scene.guest("publisher")
    second.pause()
    fall_behind(scene, first, publisher)
    assert scene.holds() == {"publisher"}
    first.resume()
    assert scene.holds() == {"publisher"}
    second.resume()
    assert scene.holds() == set()


def test_a_subscriber_that_makes_progress_is_waited_for_again_and_again(scene: Scene) -> None:
    slow = scene.guest("slow", "Load")
    publisher = scene.guest("publisher")
    for _ in range(50):
        fall_behind(scene, slow, publisher)
        assert scene.holds() == {"publisher"}
        scene.wait(0.9)
        assert scene.holds() == {"publisher"}
        slow.resume()
        assert scene.holds() == set()
    assert not slow.is_cut
    assert len(slow.objects(Load)) == 100


def test_a_subscriber_that_does_not_read_is_given_up_and_cut(scene: Scene) -> None:
    slow = scene.guest("slow", "Load")
    publisher = scene.guest("publisher")
    fall_behind(scene, slow, publisher)
    assert scene.holds() == {"publisher"}
    scene.wait(1.0)
    assert scene.holds() == set()
    count = 0
    while not slow.is_cut:
        publisher.publish(Load(text=MUCH))
        assert scene.holds() == set()
        count += 1
        assert count < 20
    assert slow.is_cut_abruptly


def test_a_subscriber_that_reads_again_is_waited_for_again_later(scene: Scene) -> None:
    slow = scene.guest("slow", "Load")
    publisher = scene.guest("publisher")
    fall_behind(scene, slow, publisher)
    scene.wait(1.0)
    assert scene.holds() == set()
    slow.resume()
    fall_behind(scene, slow, publisher)
    assert scene.holds() == set()
    scene.wait(BACKPRESSURE_PENALTY - 0.1)
    slow.resume()
    fall_behind(scene, slow, publisher)
    assert scene.holds() == set()
    slow.resume()
    scene.wait(0.1)
    fall_behind(scene, slow, publisher)
    assert scene.holds() == {"publisher"}


def test_a_subscriber_that_stopped_and_did_not_read_since_is_not_waited_for(scene: Scene) -> None:
    slow = scene.guest("slow", "Load")
    publisher = scene.guest("publisher")
    fall_behind(scene, slow, publisher)
    scene.wait(20.0)
    publisher.publish(Load(text=MORE))
    publisher.publish(Load(text=MORE))
    assert scene.holds() == set()


def test_a_publisher_that_adds_little_never_waits(scene: Scene) -> None:
    slow = scene.guest("slow", "Load")
    publisher, little = scene.guest("publisher"), scene.guest("little")
    fall_behind(scene, slow, publisher)
    for _ in range(20):
        little.publish(Load(text="here I am"))
    assert scene.holds() == {"publisher"}


def test_a_publisher_does_not_wait_for_itself(scene: Scene) -> None:
    both = scene.guest("both", "Load")
    fall_behind(scene, both, both)
    assert scene.holds() == set()


def test_publishers_do_not_wait_for_a_disconnected_subscriber(scene: Scene) -> None:
    slow = scene.guest("slow", "Load")
    publisher = scene.guest("publisher")
    fall_behind(scene, slow, publisher)
    assert scene.holds() == {"publisher"}
    slow.vanish()
    assert scene.holds() == set()


def test_a_publisher_that_disconnects_leaves_no_state(scene: Scene) -> None:
    slow = scene.guest("slow", "Load")
    publisher, other = scene.guest("publisher"), scene.guest("other")
    fall_behind(scene, slow, publisher)
    assert scene.holds() == {"publisher"}
    publisher.vanish()
    other.publish(Load(text="x"))
    slow.resume()
    assert not scene.harbour.node.is_held(publisher.address)


def test_a_subscriber_that_conflates_delays_no_publisher(scene: Scene) -> None:
    slow = scene.harbour.guest("slow", origin=HERE)
    slow.join("Boat", is_conflated=True)
    publisher = scene.guest("publisher")
    slow.pause()
    for number in range(40):
        publisher.publish(Boat(id=number % 3, text="x" * (MARK_BYTES // 10)))
    assert scene.holds() == set()


def test_parts_of_the_program_neither_wait_nor_are_waited_for(scene: Scene) -> None:
    inside = scene.harbour.guest("inside")
    inside.join("Load")
    publisher = scene.guest("publisher")
    fall_behind(scene, inside, publisher)
    assert scene.holds() == set()
    slow = scene.guest("slow", "Load")
    fall_behind(scene, slow, inside)
    inside.publish(Load(text="more"))
    assert scene.holds() == set()


def test_it_can_be_switched_off_and_on(make_harbour: Callable[..., Harbour]) -> None:
    scene = made(make_harbour, backpressure_s_max=0, waiting_bytes_max=QUEUE_BYTES)
    slow = scene.guest("slow", "Load")
    publisher = scene.guest("publisher")
    fall_behind(scene, slow, publisher)
    assert scene.holds() == set()
    scene.harbour.node.renew_admission(
        AdmissionConfig(limits=ClientLimits(backpressure_s_max=5.0)), scene.harbour.now_ns
    )
    publisher.publish(Load(text="x"))
    publisher.publish(Load(text=MORE))
    assert scene.holds() == {"publisher"}
    scene.wait(4.9)
    assert scene.holds() == {"publisher"}
    scene.wait(0.1)
    assert scene.holds() == set()


def test_with_the_usual_queue_it_begins_at_its_mark(make_harbour: Callable[..., Harbour]) -> None:
    scene = made(make_harbour)
    slow = scene.guest("slow", "Load")
    publisher = scene.guest("publisher")
    slow.pause()
    publisher.publish(Load(text="x" * (BACKPRESSURE_BYTES - 1000)))
    publisher.publish(Load(text="x"))
    assert scene.holds() == set()
    publisher.publish(Load(text="x" * 1000))
    publisher.publish(Load(text="x" * (BACKPRESSURE_SHARE_BYTES - 1000)))
    assert scene.holds() == set()
    publisher.publish(Load(text="x" * 1000))
    assert scene.holds() == {"publisher"}
    assert not slow.is_cut
