"""Machines that are broken on purpose: every one of them must be caught within a few seeds.

A checker that never fails proves nothing. Each class here has one small fault of the kind that
people make, and the test names the checker that has to find it.
"""

from __future__ import annotations

import pytest

from skerry.errors import SimulationError
from skerry.protocol.machine import Address, CloseReason
from skerry.testing import MS, SECOND, Factory, Partition, Setting, World
from skerry.testing.machines.echo import (
    SERVER,
    Answered,
    EchoClient,
    EchoConfig,
    EchoMessage,
    EchoServer,
    play_echo,
)
from tests.sim.heartbeat import GROUP, Beat, HeartbeatConfig, HeartbeatDetector, play_heartbeat
from tests.sim.stream_echo import (
    STREAM_SERVER,
    StreamEchoClient,
    play_stream_echo,
    stream_echo_server,
)

SEED_COUNT = 12

pytestmark = pytest.mark.slow


class NeverRetries(EchoClient):
    """Asks once and trusts the network."""

    def deadline_ns(self) -> int | None:
        return None


class AnswersTwice(EchoClient):
    """Tells of an answer again when it is delivered again."""

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        message = EchoMessage.decode(data)
        super().receive(data, source, now_ns)
        if message is not None and message.life == self.life and not self._events:
            self._events.append(
                Answered(life=message.life, number=message.number, data=message.data)
            )


class Impatient(EchoClient):
    """Gives a question up after three attempts."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(
            server=SERVER,
            rng=setting.rng,
            now_ns=setting.now_ns,
            disk=setting.disk,
            config=EchoConfig(attempt_count_max=3),
        )


class ForgetsItsDisk(EchoClient):
    """Keeps its life over a restart and forgets what it had asked."""

    def durable(self) -> bytes:
        self._questions.clear()
        return super().durable()


class ServesTwice(EchoServer):
    """Takes every question for a new one."""

    def _is_new(self, message: EchoMessage) -> bool:
        return True


class Garbles(EchoServer):
    """Cuts long answers."""

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        super().receive(data[:50], source, now_ns)


class NeverComesBack(StreamEchoClient):
    """Has no idea what to do without a stream."""

    def stream_closed(self, _peer: Address, _reason: CloseReason, _now_ns: int) -> None:
        self._frames = None


class WaitsForEver(StreamEchoClient):
    """Takes a silent stream for one that is only slow."""

    def advance(self, now_ns: int) -> None:
        self._deadlines.cancel("answer")
        super().advance(now_ns)

    def deadline_ns(self) -> int | None:
        self._deadlines.cancel("answer")
        return super().deadline_ns()


class AsksOnlyOnce(StreamEchoClient):
    """Does not ask again on a new stream."""

    def stream_opened(self, peer: Address, now_ns: int) -> None:
        questions, self._questions = self._questions, {}
        super().stream_opened(peer, now_ns)
        self._questions = questions


def client(kind: type[EchoClient]) -> Factory[EchoClient]:
    return lambda setting: kind(
        server=SERVER, rng=setting.rng, now_ns=setting.now_ns, disk=setting.disk
    )


def stream_client(kind: type[StreamEchoClient]) -> Factory[StreamEchoClient]:
    return lambda setting: kind(server=STREAM_SERVER, rng=setting.rng, now_ns=setting.now_ns)


class Nervous(HeartbeatDetector):
    """Has a timeout of its own, far too short."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(
            address=setting.address,
            group=GROUP,
            rng=setting.rng,
            now_ns=setting.now_ns,
            config=HeartbeatConfig(timeout_ns=300_000_000),
        )


class Member(HeartbeatDetector):
    """A sound member, for the broken ones to differ from."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(
            address=setting.address, group=GROUP, rng=setting.rng, now_ns=setting.now_ns
        )


class BlamesOthers(Member):
    """Suspects at once when it wakes up, before it has read its mail."""

    def _may_suspect(self, peer: object, late_ns: int) -> bool:
        return True


class NeverSuspects(Member):
    """Suspects no member, ever."""

    def _may_suspect(self, peer: object, late_ns: int) -> bool:
        return False


class BearsGrudges(Member):
    """Never trusts again whom it suspected once."""

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        if source not in self._peers or not self._peers[source].is_suspected:
            super().receive(data, source, now_ns)


class ForgetsToSay(Member):
    """Trusts a member again without reporting it."""

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        if source in self._peers and Beat.decode(data) is not None:
            self._peers[source].is_suspected = False
        super().receive(data, source, now_ns)


@pytest.mark.parametrize(
    ("factory", "checkers"),
    [
        (client(NeverRetries), {"AllAnswered"}),
        (client(AnswersTwice), {"answered once"}),
        (Impatient, {"AllAnswered"}),
        (client(ForgetsItsDisk), {"AllAnswered"}),
    ],
    ids=["never retries", "answers twice", "impatient", "forgets its disk"],
)
def test_a_broken_echo_client_is_caught(factory: Factory[EchoClient], checkers: set[str]) -> None:
    caught: set[str] = set()
    for seed in range(SEED_COUNT):
        try:
            play_echo(World(seed), 4, client=factory)
        except SimulationError as error:
            caught.add(error.checker)
    assert caught == checkers


@pytest.mark.parametrize(("kind", "checker"), [(ServesTwice, "served once"), (Garbles, "genuine")])
def test_a_broken_echo_server_is_caught(kind: type[EchoServer], checker: str) -> None:
    with pytest.raises(SimulationError) as caught:
        play_echo(World(1), 4, server=lambda _: kind())
    assert caught.value.checker == checker


@pytest.mark.parametrize("kind", [NeverComesBack, AsksOnlyOnce])
def test_a_broken_client_on_streams_is_caught(kind: type[StreamEchoClient]) -> None:
    caught: set[str] = set()
    for seed in range(SEED_COUNT):
        try:
            play_stream_echo(World(seed), 4, client=stream_client(kind))
        except SimulationError as error:
            caught.add(error.checker)
    assert caught == {"AllAnswered"}


@pytest.mark.parametrize(("kind", "is_sound"), [(StreamEchoClient, True), (WaitsForEver, False)])
def test_a_client_that_trusts_a_silent_stream_is_caught(
    kind: type[StreamEchoClient], is_sound: bool
) -> None:
    world = World(1)
    server = world.add("server", stream_echo_server, listens=True)
    asking = world.add("client", stream_client(kind))
    world.run_until(lambda: any(end.is_established for end in asking.streams.values()))
    # The question gets through and nothing comes back: neither its answer, nor word that the
    # server is gone.
    world.inject(Partition(sources=["server"], destinations=["client"]))
    asking.do(lambda machine, now_ns: machine.ask(b"anybody?", now_ns))
    world.run_until(lambda: bool(server.events))
    world.restart(server, down_ns=MS)
    world.run_for(10 * MS)
    world.calm()
    world.run_for(60 * SECOND)
    assert [type(event) for event in asking.events] == ([Answered] if is_sound else [])


@pytest.mark.parametrize(
    ("factory", "checker"),
    [
        (Nervous, "NoHastySuspicion"),
        (BlamesOthers, "NoHastySuspicion"),
        (NeverSuspects, "run_until"),
        (BearsGrudges, "AllHeard"),
        (ForgetsToSay, "SuspicionsAlternate"),
    ],
)
def test_a_broken_detector_is_caught(factory: Factory[HeartbeatDetector], checker: str) -> None:
    caught: set[str] = set()
    for seed in range(SEED_COUNT):
        try:
            play_heartbeat(World(seed), 5, factory=factory)
        except SimulationError as error:
            caught.add(error.checker)
    assert checker in caught


def test_the_sound_machines_pass_the_same_seeds() -> None:
    for seed in range(SEED_COUNT):
        play_heartbeat(World(seed), 5, factory=Member)
        play_echo(World(seed), 4)
        play_stream_echo(World(seed), 4)
