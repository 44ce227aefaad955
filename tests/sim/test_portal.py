"""Portals in a simulated world: the hold, late and missing clients, and restarts of the broker."""

from __future__ import annotations

import pytest

from skerry.protocol.portal.session import FLUSH_COUNT_MAX
from skerry.protocol.portal.session_messages import PortalLost, PortalOpened, PublicationsDropped
from skerry.protocol.portal.session_states import SessionState
from tests.sim.portal_world import SECOND, Client, PortalWorld

SEEDS = range(20)


def texts(first: int, stop: int) -> list[bytes]:
    return [str(number).encode() for number in range(first, stop)]


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_that_was_published_before_the_release(seed: int) -> None:
    world = PortalWorld(seed, "pilot", "logger")
    # Slower than the requests about the hold, which go another way.
    world.filter_delay_ms_max = 150
    pilot, logger = world.add("pilot"), world.add("logger")
    for number in range(50):
        pilot.publish(str(number))
    pilot.session.set_ready()
    world.run(world.rng.random())
    assert pilot.session.state is SessionState.HELD
    assert not logger.received
    logger.subscribe()
    logger.session.set_ready()
    logger.turn()
    world.run_until(lambda: len(logger.received) == 50)
    assert logger.received == texts(0, 50)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_release_takes_no_second(seed: int) -> None:
    world = PortalWorld(seed, "pilot")
    pilot = world.add("pilot")
    pilot.session.set_ready()
    started_ns = world.now_ns
    world.run_until(lambda: pilot.session.is_open)
    # A dozen messages, each on its way for 10 ms at most, and one interval of requests.
    assert world.now_ns - started_ns < SECOND // 3


@pytest.mark.parametrize("seed", SEEDS)
def test_a_missing_client_holds_all_others(seed: int) -> None:
    world = PortalWorld(seed, "pilot", "absent")
    pilot = world.add("pilot")
    pilot.publish("1")
    pilot.session.set_ready()
    world.run(20)
    assert pilot.session.state is SessionState.HELD
    absent = world.add("absent")
    absent.subscribe()
    absent.session.set_ready()
    world.run_until(lambda: absent.received == [b"1"])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_client_that_is_not_ready_holds_all_others(seed: int) -> None:
    world = PortalWorld(seed, "pilot", "logger")
    pilot, logger = world.add("pilot"), world.add("logger")
    pilot.session.set_ready()
    world.run(5)
    assert pilot.session.state is logger.session.state is SessionState.HELD


@pytest.mark.parametrize("seed", SEEDS)
def test_a_late_client_is_not_held(seed: int) -> None:
    world = PortalWorld(seed, "pilot")
    pilot = world.add("pilot")
    pilot.session.set_ready()
    world.run_until(lambda: pilot.session.is_open)
    late = world.add("late")
    late.subscribe()
    world.run_until(lambda: late.session.is_open, 1)
    pilot.publish("1")
    pilot.turn()
    world.run_until(lambda: late.received == [b"1"], 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_clients_are_back_after_a_restart_with_their_subscriptions(seed: int) -> None:
    world = PortalWorld(seed, "pilot", "logger")
    clients = [world.add(name) for name in ("pilot", "logger", "third")]
    pilot = clients[0]
    for client in clients:
        client.subscribe()
        client.session.set_ready()
    world.run_until(lambda: all(client.session.is_open for client in clients))
    world.kill()
    world.run(world.rng.random() * 3)
    pilot.publish("while it was away")
    pilot.turn()
    assert not any(client.session.is_open for client in clients)
    world.start()
    world.run_until(lambda: all(client.session.is_open for client in clients), 3)
    world.run_until(lambda: all(one.received == [b"while it was away"] for one in clients), 1)
    assert [type(event) for event in pilot.events if isinstance(event, PortalLost)] == [PortalLost]
    assert not [e for e in pilot.events if isinstance(e, PortalOpened)][-1].is_first


@pytest.mark.parametrize("seed", SEEDS)
def test_a_restarted_portal_does_not_hold_running_clients(seed: int) -> None:
    world = PortalWorld(seed, "pilot", "short-lived")
    pilot, short = world.add("pilot"), world.add("short-lived")
    for client in (pilot, short):
        client.session.set_ready()
    world.run_until(lambda: pilot.session.is_open)
    short.session.close()
    short.turn()
    world.kill()
    world.run(1)
    world.start()
    world.run_until(lambda: pilot.session.is_open, 3)
    # The portal itself waits for the client that has ended, and holds new ones.
    late = world.add("late")
    world.run(2)
    assert late.session.state is SessionState.HELD


def test_a_backlog_is_sent_in_order_and_not_at_once() -> None:
    world = PortalWorld(1, "pilot", "logger")
    pilot, logger = world.add("pilot"), world.add("logger")
    logger.subscribe()
    count = 30 * FLUSH_COUNT_MAX
    for number in range(count):
        pilot.publish(str(number))
    for client in (pilot, logger):
        client.session.set_ready()
    world.run_until(lambda: pilot.session.is_open)
    opened_ns = world.now_ns
    world.run_until(lambda: len(logger.received) == count)
    assert logger.received == texts(0, count)
    assert world.now_ns - opened_ns >= 29 * 5_000_000


def test_the_buffer_drops_the_oldest_and_reports_it_once() -> None:
    world = PortalWorld(1, "pilot", "logger")
    pilot, logger = world.add("pilot", buffer_count_max=10), world.add("logger")
    logger.subscribe()
    for number in range(15):
        pilot.publish(str(number))
    for client in (pilot, logger):
        client.session.set_ready()
        client.turn()
    world.run_until(lambda: len(logger.received) == 10)
    assert logger.received == texts(5, 15)
    assert [e for e in pilot.events if isinstance(e, PublicationsDropped)] == [
        PublicationsDropped(waiting_count=10)
    ]
    assert pilot.session.statistics().dropped_count == 5


def test_a_portal_that_loses_markers_delays_by_the_settle_time_only() -> None:
    world = PortalWorld(1, "pilot")
    pilot = world.add("pilot", settle_s=0.2)
    passed = pilot.session.subscription_passed
    # As a router does that drops filters because a socket has too many of them.
    pilot.session.subscription_passed = lambda frame, now_ns: (  # type: ignore[method-assign]
        None if b"marker" in frame else passed(frame, now_ns)
    )
    pilot.session.set_ready()
    world.run_until(lambda: pilot.session.is_open, 1)


def test_a_portal_that_never_answers_is_asked_again_and_again() -> None:
    world = PortalWorld(1)
    world.kill()
    pilot = world.add("pilot", manager_timeout_s=1.0)
    world.run(10)
    silences = [event for event in pilot.events if type(event).__name__ == "ManagerSilent"]
    assert 4 <= len(silences) <= 10
    world.start()
    world.run_until(lambda: pilot.session.is_open, 3)


def closed(client: Client) -> bool:
    return client.session.state is SessionState.CLOSED


def test_a_closed_client_does_nothing_any_more() -> None:
    world = PortalWorld(1)
    pilot = world.add("pilot")
    world.run_until(lambda: pilot.session.is_open)
    pilot.session.close()
    pilot.turn()
    pilot.session.connection_lost("late news", world.now_ns)
    world.run(5)
    assert closed(pilot)
    assert pilot.session.deadline_ns() is None
