"""Streams: order, odd pieces, opening, ending, breaking, and ends that hear of nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.errors import SimulationError
from skerry.limits import SIM_INBOX_COUNT_MAX
from skerry.protocol.machine import Address, CloseReason
from skerry.testing import (
    MS,
    SECOND,
    STREAM,
    Clog,
    Duplication,
    Jitter,
    LoseIf,
    Loss,
    Node,
    Partition,
    Reordering,
    World,
)
from skerry.testing.machines.echo import EchoServer
from skerry.testing.stream_end import StreamEnd
from skerry.testing.streams import (
    PIECE_BYTES_MAX,
    SIM_STREAM_BYTES_MAX,
    SIM_STREAM_COUNT_MAX,
    WINDOW_BYTES,
    Streams,
)
from tests.sim.probe import Probe

SERVER = Address("second", 7, is_stream=True)
Pair = tuple[Node[Probe], Node[Probe]]


def connected(world: World) -> Pair:
    client, server = world.pair(Probe, Probe)
    client.do(lambda machine, _: machine.connect(SERVER))
    world.run_until(lambda: bool(client.machine.opened))
    return client, server


def write(node: Node[Probe], peer: Address, *data: bytes) -> None:
    node.do(lambda machine, _: machine.send(peer, *data))


def test_a_stream_opens_on_both_sides_and_each_has_a_name_for_it(world: World) -> None:
    client, server = connected(world)
    assert client.machine.opened == [SERVER]
    (peer,) = server.machine.opened
    assert peer.host == "first"
    assert peer.is_stream
    write(server, peer, b"welcome")
    world.run_for(MS)
    assert b"".join(client.machine.heard) == b"welcome"
    assert set(client.machine.sources) == {SERVER}


def test_bytes_arrive_in_order_and_are_cut_anywhere() -> None:
    pieces: set[int] = set()
    for seed in range(30):
        world = World(seed)
        client, server = connected(world)
        written = [bytes([n]) * 10 for n in range(20)]
        write(client, SERVER, *written)
        world.run_for(SECOND)
        assert b"".join(server.machine.heard) == b"".join(written)
        pieces.update(len(piece) for piece in server.machine.heard)
    assert 200 in pieces, "all writes in one piece"
    assert len(pieces & set(range(1, 10))) > 4, "a few bytes at a time"
    assert any(50 < size < 200 and size % 10 for size in pieces), "cut in the middle"


def test_a_long_write_arrives_in_pieces_of_bounded_length(world: World) -> None:
    client, server = connected(world)
    data = world.random("data").randbytes(1_000_000)
    write(client, SERVER, data)
    world.run_for(SECOND)
    assert b"".join(server.machine.heard) == data
    assert max(len(piece) for piece in server.machine.heard) <= PIECE_BYTES_MAX


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), writes=st.lists(st.binary(min_size=1, max_size=300)))
def test_faults_on_the_way_delay_a_stream_and_change_nothing(
    seed: int, writes: list[bytes]
) -> None:
    world = World(seed)
    client, server = connected(world)
    for fault in (Loss(0.2), Duplication(0.5), Reordering(0.5), Jitter(delay_ns_max=3 * MS)):
        world.inject(fault)
    for data in writes:
        write(client, SERVER, data)
        world.run_for(MS)
    world.run_for(60 * SECOND)
    assert b"".join(server.machine.heard) == b"".join(writes)
    assert server.machine.closed == []


def test_a_stream_to_a_node_that_does_not_listen_is_refused(world: World) -> None:
    client = world.add("client", Probe)
    deaf = world.add("deaf", Probe)
    world.add("datagrams-only", lambda _: EchoServer(), listens=True)
    asked = [
        Address("deaf", 7, is_stream=True),
        Address("datagrams-only", 7, is_stream=True),
        Address("nowhere", 7, is_stream=True),
    ]
    for address in asked:
        client.machine.connect(address)
    client.do(lambda _machine, _now_ns: None)
    world.run_for(SECOND)
    assert sorted(client.machine.closed) == sorted((a, CloseReason.REFUSED) for a in asked)
    assert deaf.machine.opened == []


def test_another_port_or_a_node_that_is_down_is_a_refusal(world: World) -> None:
    client, server = world.pair(Probe, Probe)
    world.crash(server)
    other_port = Address("second", 8, is_stream=True)
    client.do(lambda machine, _: machine.connect(SERVER))
    client.do(lambda machine, _: machine.connect(other_port))
    world.run_for(SECOND)
    assert dict(client.machine.closed) == {
        SERVER: CloseReason.REFUSED,
        other_port: CloseReason.REFUSED,
    }


def test_a_peer_that_cannot_be_reached_is_a_time_out(world: World) -> None:
    client, _ = world.pair(Probe, Probe)
    world.inject(Partition(sources=["first"], destinations=["second"]))
    client.do(lambda machine, _: machine.connect(SERVER))
    world.run_until(lambda: bool(client.machine.closed))
    assert client.machine.closed == [(SERVER, CloseReason.TIMED_OUT)]
    assert 10 * SECOND < world.now_ns < 20 * SECOND


def test_a_lost_answer_is_a_time_out(world: World) -> None:
    client, server = world.pair(Probe, Probe)
    world.inject(Partition(sources=["second"], destinations=["first"]))
    client.do(lambda machine, _: machine.connect(SERVER))
    world.run_until(lambda: bool(client.machine.closed))
    assert client.machine.closed == [(SERVER, CloseReason.TIMED_OUT)]
    assert len(server.machine.opened) == 1


def test_a_server_that_dies_before_its_answer_is_out_is_a_time_out(world: World) -> None:
    client, server = world.pair(Probe, Probe)
    cut = Partition(sources=["second"], destinations=["first"])
    world.inject(cut)
    client.do(lambda machine, _: machine.connect(SERVER))
    world.run_until(lambda: bool(server.machine.opened))
    world.restart(server, down_ns=MS)
    world.run_for(SECOND)
    cut.stop(world)
    world.run_until(lambda: bool(client.machine.closed))
    assert client.machine.closed == [(SERVER, CloseReason.TIMED_OUT)]


def test_a_farewell_arrives_before_the_end(world: World) -> None:
    client, server = connected(world)
    client.machine.send(SERVER, b"good", b"bye")
    client.do(lambda machine, _: machine.disconnect(SERVER))
    world.run_for(SECOND)
    assert b"".join(server.machine.heard) == b"goodbye"
    assert [reason for _, reason in server.machine.closed] == [CloseReason.ENDED]
    assert client.machine.closed == [], "the side that closes a stream is not notified"


def test_a_closed_end_receives_nothing_and_the_peer_is_reset_when_it_writes(
    world: World,
) -> None:
    client, server = connected(world)
    (peer,) = server.machine.opened
    write(server, peer, b"crossing")
    client.do(lambda machine, _: machine.disconnect(SERVER))
    world.run_for(SECOND)
    assert client.machine.heard == []
    assert server.machine.closed[0][0] == peer
    write(server, peer, b"too late")
    world.run_for(SECOND)
    assert len(server.machine.closed) == 1


def test_after_an_end_the_same_peer_can_be_connected_again(world: World) -> None:
    client, server = connected(world)
    client.machine.disconnect(SERVER)
    client.do(lambda machine, _: machine.connect(SERVER))
    world.run_for(SECOND)
    assert client.machine.opened == [SERVER, SERVER]
    first, second = server.machine.opened
    assert first != second
    assert server.machine.closed == [(first, CloseReason.ENDED)]


def test_a_stream_given_up_before_it_was_open_stays_closed(world: World) -> None:
    client, server = world.pair(Probe, Probe)
    client.machine.connect(SERVER)
    client.machine.send(SERVER, b"early")
    client.do(lambda machine, _: machine.disconnect(SERVER))
    world.run_for(60 * SECOND)
    assert client.machine.opened == []
    assert server.machine.opened == []
    assert client.machine.closed == []


def test_a_second_stream_to_the_same_peer_is_a_bug_of_the_machine(world: World) -> None:
    client, _ = connected(world)
    with pytest.raises(SimulationError, match="but has a stream to it"):
        client.do(lambda machine, _: machine.connect(SERVER))


def test_a_lost_stream_drops_bytes_in_flight_and_notifies_each_side(
    world: World,
) -> None:
    client, server = connected(world)
    (end,) = world.network.streams.open_ends()
    assert end.node is server
    write(client, SERVER, b"in flight")
    world.network.streams.lose(end, told_ns=10 * MS, far_told_ns=50 * MS)
    world.run_for(20 * MS)
    assert [reason for _, reason in server.machine.closed] == [CloseReason.LOST]
    assert client.machine.closed == []
    write(client, SERVER, b"into the void")
    world.run_for(SECOND)
    assert client.machine.closed == [(SERVER, CloseReason.LOST)]
    assert server.machine.heard == []


def test_a_stream_lost_without_notification_can_be_closed_and_opened_again(world: World) -> None:
    client, server = connected(world)
    (end,) = world.network.streams.open_ends()
    world.network.streams.lose(end, told_ns=SECOND, far_told_ns=SECOND)
    client.machine.disconnect(SERVER)
    client.do(lambda machine, _: machine.connect(SERVER))
    world.run_for(5 * SECOND)
    assert client.machine.opened == [SERVER, SERVER]
    assert client.machine.closed == []
    assert len(server.machine.closed) == 1


def test_a_restart_breaks_streams_and_the_peer_is_notified(world: World) -> None:
    client, server = connected(world)
    world.restart(server, down_ns=MS)
    world.run_for(SECOND)
    assert client.machine.closed == [(SERVER, CloseReason.LOST)]
    assert server.machine.closed == [], "the new life never had that stream"


def test_a_peer_that_died_behind_a_cut_is_noticed_when_something_is_written(
    world: World,
) -> None:
    client, server = connected(world)
    cut = Partition(sources=["second"], destinations=["first"])
    world.inject(cut)
    world.restart(server, down_ns=MS)
    world.run_for(60 * SECOND)
    assert client.machine.closed == [], "half open: nothing was written, nothing was noticed"
    cut.stop(world)
    write(client, SERVER, b"anybody?")
    world.run_for(SECOND)
    assert client.machine.closed == [(SERVER, CloseReason.LOST)]
    assert server.machine.heard == []


def test_writing_into_a_cut_network_ends_in_a_lost_stream(world: World) -> None:
    client, server = connected(world)
    world.inject(Partition(sources=["first"], destinations=["second"]))
    write(client, SERVER, b"hello?")
    world.run_until(lambda: bool(client.machine.closed))
    assert client.machine.closed == [(SERVER, CloseReason.LOST)]
    assert server.machine.closed == []


def test_a_clogged_link_holds_a_stream_up(world: World) -> None:
    client, server = connected(world)
    clog = Clog().between(kinds=[STREAM])
    world.inject(clog)
    write(client, SERVER, b"patience")
    world.run_for(SECOND)
    assert server.machine.heard == []
    clog.stop(world)
    world.run_for(5 * SECOND)
    assert b"".join(server.machine.heard) == b"patience"


def test_a_paused_node_gets_bytes_and_end_in_order_afterwards(world: World) -> None:
    client, server = connected(world)
    world.pause(server, SECOND)
    client.machine.send(SERVER, b"last words")
    client.do(lambda machine, _: machine.disconnect(SERVER))
    world.run_for(SECOND - MS)
    assert server.machine.heard == []
    world.run_for(2 * MS)
    assert b"".join(server.machine.heard) == b"last words"
    assert [reason for _, reason in server.machine.closed] == [CloseReason.ENDED]


def test_a_node_that_ends_a_stream_does_not_get_the_mail_that_was_waiting(world: World) -> None:
    class Curt(Probe):
        def receive(self, data: bytes, source: Address, now_ns: int) -> None:
            super().receive(data, source, now_ns)
            self.disconnect(source)

    client, server = world.pair(Probe, Curt)
    client.do(lambda machine, _: machine.connect(SERVER))
    world.run_until(lambda: bool(client.machine.opened))
    world.pause(server, SECOND)
    for data in (b"one", b"two"):
        client.machine.send(SERVER, data)
        client.do(lambda _machine, _now_ns: None)
        world.run_for(10 * MS)
    world.run_for(2 * SECOND)
    assert len(server.machine.heard) == 1


def test_a_paused_node_with_a_full_window_lets_the_bytes_wait_at_the_sender(
    world: World,
) -> None:
    client, server = connected(world)
    world.pause(server, 5 * SECOND)
    filler = ((lambda _: None), None)
    server.inbox.extend([filler] * SIM_INBOX_COUNT_MAX)
    write(client, SERVER, b"waits")
    world.run_for(4 * SECOND)
    assert len(server.inbox) == SIM_INBOX_COUNT_MAX
    world.run_for(2 * SECOND)
    assert b"".join(server.machine.heard) == b"waits"


def test_bytes_waiting_for_a_stream_are_bounded(world: World) -> None:
    client, _ = connected(world)
    write(client, SERVER, bytes(SIM_STREAM_BYTES_MAX))
    with pytest.raises(SimulationError, match=f"the limit is {SIM_STREAM_BYTES_MAX}"):
        write(client, SERVER, b"x")


def test_a_node_with_too_many_streams_refuses_the_next(world: World) -> None:
    server = world.add("second", Probe, listens=True)
    clients = [world.add(str(n), Probe) for n in range(SIM_STREAM_COUNT_MAX + 1)]
    for client in clients:
        client.do(lambda machine, _: machine.connect(SERVER))
    world.run_for(SECOND)
    assert len(server.machine.opened) == SIM_STREAM_COUNT_MAX
    refused = [client for client in clients if client.machine.closed]
    assert [client.machine.closed for client in refused] == [[(SERVER, CloseReason.REFUSED)]]


def test_a_node_with_too_many_streams_is_refused_the_next_it_asks_for(world: World) -> None:
    servers = [
        world.add(str(n), Probe, listens=True).address for n in range(SIM_STREAM_COUNT_MAX + 1)
    ]
    *fitting, last = [Address(server.host, server.port, is_stream=True) for server in servers]
    client = world.add("client", Probe)
    for server in fitting:
        client.do(lambda machine, _, server=server: machine.connect(server))  # type: ignore[misc]
    client.do(lambda machine, _: machine.connect(last))
    world.run_for(SECOND)
    assert sorted(client.machine.opened) == sorted(fitting)
    assert client.machine.closed == [(last, CloseReason.REFUSED)]
    # With one stream less there is room again.
    client.do(lambda machine, _: machine.disconnect(fitting[0]))
    client.do(lambda machine, _: machine.connect(last))
    world.run_for(SECOND)
    assert client.machine.opened[-1] == last
    assert len(client.streams) == SIM_STREAM_COUNT_MAX


def test_a_refused_stream_can_be_closed_before_the_notification(world: World) -> None:
    servers = [Address("second", n, is_stream=True) for n in range(SIM_STREAM_COUNT_MAX + 1)]
    client = world.add("client", Probe)
    for server in servers:
        client.do(lambda machine, _, server=server: machine.connect(server))  # type: ignore[misc]
    client.do(lambda machine, _: machine.disconnect(servers[-1]))
    world.run_for(SECOND)
    assert servers[-1] not in [peer for peer, _ in client.machine.closed]


def test_a_machine_without_streams_cannot_connect(world: World) -> None:
    class Blunt(EchoServer):
        def take_transmits(self) -> list:  # type: ignore[type-arg]
            from skerry.protocol.machine import Connect

            return [Connect(destination=SERVER)]

    with pytest.raises(SimulationError, match="not a StreamMachine"):
        world.add("blunt", lambda _: Blunt())


def test_a_lost_piece_is_sent_again_and_nothing_overtakes_it(world: World) -> None:
    client, server = connected(world)
    lost: list[int] = []

    def first_only(_: object) -> bool:
        lost.append(1)
        return len(lost) == 1

    world.inject(LoseIf(first_only).between(sources=["first"]))
    write(client, SERVER, b"abc")
    world.run_for(MS)
    write(client, SERVER, b"def")
    world.run_for(100 * MS)
    assert server.machine.heard == []
    world.run_for(SECOND)
    assert b"".join(server.machine.heard) == b"abcdef"


def test_streams_have_chance_of_their_own() -> None:
    world = World(3)
    assert isinstance(world.network.streams, Streams)
    assert world.random("streams").random() == World(3).random("streams").random()


def far_end(world: World, node: Node[Probe]) -> StreamEnd:
    """The only stream of a node, at its side."""
    (end,) = node.streams.values()
    return end


def test_a_machine_may_speak_first_on_a_stream_that_was_opened_to_it(world: World) -> None:
    class Host(Probe):
        def stream_opened(self, peer: Address, now_ns: int) -> None:
            super().stream_opened(peer, now_ns)
            self.send(peer, b"welcome")

    class Guest(Probe):
        def receive(self, data: bytes, source: Address, now_ns: int) -> None:
            assert self.opened, "bytes of a stream that is not open yet"
            super().receive(data, source, now_ns)

    client, _ = world.pair(Guest, Host)
    client.do(lambda machine, _: machine.connect(SERVER))
    world.run_for(SECOND)
    assert b"".join(client.machine.heard) == b"welcome"


def test_only_a_window_of_bytes_is_under_way_to_a_machine_that_does_not_read(
    world: World,
) -> None:
    client, server = connected(world)
    end = far_end(world, server)
    world.network.streams.read_slowly(end, pause_ns=5 * SECOND)
    write(client, SERVER, bytes(3 * WINDOW_BYTES))
    world.run_for(4 * SECOND)
    assert server.machine.heard == []
    near = client.streams[SERVER]
    assert near.in_flight_bytes == WINDOW_BYTES
    assert near.outgoing_bytes == 2 * WINDOW_BYTES
    world.run_for(2 * SECOND)
    assert len(b"".join(server.machine.heard)) == 3 * WINDOW_BYTES
    assert near.in_flight_bytes == 0


def test_a_machine_is_paused_and_resumed_once_each(world: World) -> None:
    client, server = connected(world)
    world.network.streams.read_slowly(far_end(world, server), pause_ns=SECOND)
    write(client, SERVER, bytes(WINDOW_BYTES))
    world.run_for(10 * MS)
    assert client.machine.paces == [], "a window waits nowhere: it is under way"
    write(client, SERVER, bytes(WINDOW_BYTES))
    assert client.machine.paces == [], "as much as may wait"
    write(client, SERVER, b"x", b"y")
    assert client.machine.paces == [("pause", SERVER)]
    world.run_for(2 * SECOND)
    assert client.machine.paces == [("pause", SERVER), ("resume", SERVER)]
    assert server.machine.paces == []


def test_a_paused_node_is_notified_of_free_space_when_it_resumes(world: World) -> None:
    client, server = connected(world)
    world.network.streams.read_slowly(far_end(world, server), pause_ns=SECOND)
    write(client, SERVER, bytes(2 * WINDOW_BYTES), b"x")
    world.run_for(10 * MS)
    write(client, SERVER, bytes(2 * WINDOW_BYTES))
    world.pause(client, 3 * SECOND)
    world.run_for(2 * SECOND)
    assert [what for what, _ in client.machine.paces] == ["pause"]
    world.run_for(2 * SECOND)
    assert [what for what, _ in client.machine.paces] == ["pause", "resume"]


def test_a_slow_reader_gets_so_many_bytes_a_second(world: World) -> None:
    client, server = connected(world)
    world.network.streams.read_slowly(far_end(world, server), pause_ns=0, bytes_per_s=1000)
    for _ in range(100):
        write(client, SERVER, bytes(100))
        world.run_for(MS)
    world.run_for(5 * SECOND)
    heard = len(b"".join(server.machine.heard))
    assert 4000 < heard < 8000
    world.network.streams.read_on(far_end(world, server))
    world.run_for(MS)
    assert len(b"".join(server.machine.heard)) == 10_000


def test_the_end_of_a_stream_waits_until_all_is_read(world: World) -> None:
    client, server = connected(world)
    world.network.streams.read_slowly(far_end(world, server), pause_ns=SECOND)
    client.machine.send(SERVER, b"last words")
    client.do(lambda machine, _: machine.disconnect(SERVER))
    world.run_for(SECOND // 2)
    assert server.machine.closed == []
    world.run_for(SECOND)
    assert b"".join(server.machine.heard) == b"last words"
    assert [reason for _, reason in server.machine.closed] == [CloseReason.ENDED]


def test_unread_bytes_are_lost_when_a_stream_breaks(world: World) -> None:
    client, server = connected(world)
    world.network.streams.read_slowly(far_end(world, server), pause_ns=SECOND)
    write(client, SERVER, b"unread")
    world.run_for(10 * MS)
    world.crash(client)
    world.run_for(2 * SECOND)
    assert server.machine.heard == []
    assert [reason for _, reason in server.machine.closed] == [CloseReason.LOST]


def test_an_abrupt_close_drops_unsent_bytes(world: World) -> None:
    client, server = connected(world)
    world.network.streams.read_slowly(far_end(world, server), pause_ns=SECOND)
    write(client, SERVER, bytes(2 * WINDOW_BYTES))
    world.run_for(10 * MS)
    client.machine.send(SERVER, b"farewell")
    client.do(lambda machine, _: machine.disconnect(SERVER, is_abrupt=True))
    world.run_for(2 * SECOND)
    assert b"farewell" not in b"".join(server.machine.heard)
    assert [reason for _, reason in server.machine.closed] == [CloseReason.LOST]
    assert client.machine.closed == [], "the side that closes a stream is not notified"


def test_an_abrupt_end_of_a_stream_that_is_not_open_yet_is_the_end_of_it(world: World) -> None:
    client, server = world.pair(Probe, Probe)
    client.machine.connect(SERVER)
    client.do(lambda machine, _: machine.disconnect(SERVER, is_abrupt=True))
    world.run_for(60 * SECOND)
    assert client.machine.opened == server.machine.opened == []
    assert client.machine.closed == []


def test_a_peer_that_died_with_a_full_window_is_noticed(world: World) -> None:
    client, server = connected(world)
    world.network.streams.read_slowly(far_end(world, server), pause_ns=60 * SECOND)
    write(client, SERVER, bytes(2 * WINDOW_BYTES))
    world.run_for(SECOND)
    cut = Partition(sources=["second"], destinations=["first"])
    world.inject(cut)
    world.crash(server)
    world.run_for(SECOND)
    assert client.machine.closed == [], "its last word was lost"
    cut.stop(world)
    world.run_for(10 * SECOND)
    assert client.machine.closed == [(SERVER, CloseReason.LOST)]


def test_a_peer_that_cannot_be_asked_whether_it_reads_is_given_up(world: World) -> None:
    client, server = connected(world)
    world.network.streams.read_slowly(far_end(world, server), pause_ns=120 * SECOND)
    write(client, SERVER, bytes(2 * WINDOW_BYTES))
    world.run_for(SECOND)
    world.inject(Partition(sources=["first"], destinations=["second"]))
    world.run_for(60 * SECOND)
    assert client.machine.closed == [(SERVER, CloseReason.LOST)]


def test_a_closed_end_frees_the_window_of_later_bytes(world: World) -> None:
    client, server = connected(world)
    (peer,) = server.machine.opened
    end = far_end(world, server)
    world.inject(Partition(sources=["first"], destinations=["second"]))
    client.do(lambda machine, _: machine.disconnect(SERVER))
    write(server, peer, bytes(2 * WINDOW_BYTES))
    world.run_for(SECOND)
    assert end.in_flight_bytes == 0
    assert client.machine.heard == []


def test_keep_alive_detects_a_vanished_peer(world: World) -> None:
    world.network.streams.keep_alive_ns = SECOND
    _, server = connected(world)
    world.run_for(10 * SECOND)
    assert server.machine.closed == []
    cut = Partition(sources=["first"], destinations=["second"])
    world.inject(cut)
    world.crash(world.nodes["first"])
    world.run_for(10 * SECOND)
    assert server.machine.closed == [], "its last word was lost, and so is every answer"
    cut.stop(world)
    world.run_for(2 * SECOND)
    (peer,) = server.machine.opened
    assert server.machine.closed == [(peer, CloseReason.LOST)]


def test_a_vanished_peer_is_not_detected_without_keep_alive(world: World) -> None:
    _, server = connected(world)
    cut = Partition(sources=["first"], destinations=["second"])
    world.inject(cut)
    world.crash(world.nodes["first"])
    cut.stop(world)
    world.run_for(60 * SECOND)
    assert server.machine.closed == []
