"""A portal and its clients without sockets: machines, a model of the router, and delays by chance.

The model keeps what ZeroMQ promises: messages of one connection arrive in order, and a publication
is dropped where no filter is known yet. Everything else arrives in any order.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from skerry.protocol.machine import MachineEvent
from skerry.protocol.portal.config import PortalClientConfig
from skerry.protocol.portal.identifiers import prefix, publication_head
from skerry.protocol.portal.messages import REQUEST_FILTER, DataSocket, PortalTransport
from skerry.protocol.portal.portal_manager import PortalManager
from skerry.protocol.portal.session import PortalSession
from skerry.protocol.portal.session_messages import (
    AskManager,
    ConnectData,
    DropSockets,
    PortalOpened,
    SetFilter,
)
from skerry.protocol.portal.subscriptions import PortalSubscription

MS = 1_000_000
SECOND = 1000 * MS
GROUP = "data"


@dataclass
class Link:
    """One client's sockets: its filters at the router, and the filters it knows as a publisher."""

    number: int
    filters: list[bytes] = field(default_factory=list)
    """Of the subscribing socket, as the router has received them."""
    known: set[bytes] = field(default_factory=set)
    """Of all subscribers, as the publishing socket has received them."""


class Client:
    def __init__(self, world: PortalWorld, name: str, number: int, **fields: object) -> None:
        self.world = world
        self.name = name
        config = PortalClientConfig(client_name=name, **fields)  # type: ignore[arg-type]
        self.session = PortalSession(
            config, process=number, thread=1, rng=world.rng, now_ns=world.now_ns
        )
        self.received: list[bytes] = []
        self.events: list[MachineEvent] = []
        self.link: Link | None = None
        self.generation = 0
        self.opened_ns: list[int] = []

    def subscribe(self) -> None:
        self.session.subscribe(PortalSubscription(prefix(GROUP), "data"))

    def publish(self, text: str) -> None:
        head = publication_head(self.session.identifier(GROUP, 0, "CSTR"))
        self.session.publish(head + text.encode())

    def turn(self) -> None:
        """What the driver does after each input."""
        world, session = self.world, self.session
        due_ns = session.deadline_ns()
        if due_ns is not None and due_ns <= world.now_ns:
            session.advance(world.now_ns)
        for command in session.take_commands():
            match command:
                case AskManager(data=data):
                    self.generation += 1
                    world.ask(self, data, self.generation)
                case ConnectData(filters=filters):
                    world.connect(self, filters)
                case SetFilter(filter=text, is_set=is_set):
                    world.set_filter(self, text, is_set=is_set)
                case DropSockets():
                    world.drop(self)
        while (frame := session.next_frame()) is not None:
            world.publish(self, frame)
            session.frame_sent(world.now_ns)
        for event in session.take_events():
            self.events.append(event)
            if isinstance(event, PortalOpened):
                self.opened_ns.append(world.now_ns)
        due_ns = session.deadline_ns()
        if due_ns is not None:
            world.at(max(due_ns, world.now_ns), self.turn)


class PortalWorld:
    """One portal, its router, and clients."""

    def __init__(self, seed: int, *required: str) -> None:
        self.rng = Random(seed)
        self.now_ns = SECOND
        self.required = frozenset(required)
        self.filter_delay_ms_max = 10
        """How long a filter of a subscriber is on its way to the router."""
        self.clients: list[Client] = []
        self.manager: PortalManager | None = None
        self._order = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._channels: dict[object, int] = {}
        self._filters: set[bytes] = set()
        """What the router has passed on to publishers."""
        self.start()

    def start(self) -> None:
        """Start the portal, again after `kill`."""
        socket = DataSocket(transport=PortalTransport.TCP, port=1)
        self.manager = PortalManager(
            publish_socket=socket,
            subscribe_socket=socket,
            required=self.required,
            process=9999,
            thread=1,
        )
        self._filters = {REQUEST_FILTER}

    def kill(self) -> None:
        """End the portal; clients notice it after a while."""
        self.manager = None
        for client in self.clients:
            link, client.link = client.link, None
            if link is not None:
                self.after(client, self._lose(client))

    def add(self, name: str, **fields: object) -> Client:
        client = Client(self, name, 100 + len(self.clients), **fields)
        self.clients.append(client)
        self.at(self.now_ns, client.turn)
        return client

    def run_until(self, is_true: Callable[[], bool], seconds: float = 30.0) -> None:
        """Run until a condition holds; AssertionError after `seconds` of the world's time."""
        end_ns = self.now_ns + round(seconds * SECOND)
        while not is_true():
            assert self._events, "nothing happens any more"
            assert self.now_ns < end_ns, f"not within {seconds} s"
            self.now_ns, _, action = heapq.heappop(self._events)
            action()

    def run(self, seconds: float) -> None:
        end_ns = self.now_ns + round(seconds * SECOND)
        self.at(end_ns, lambda: None)
        self.run_until(lambda: self.now_ns >= end_ns, seconds + 1)

    # -- for the clients

    def at(self, due_ns: int, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._events, (due_ns, self._order, action))

    def after(self, channel: object, action: Callable[[], None], delay_ms_max: int = 10) -> None:
        """Act after a delay, and after what is under way in the same channel."""
        due_ns = self.now_ns + self.rng.randrange(1, 2 * delay_ms_max) * MS // 2
        due_ns = self._channels[channel] = max(due_ns, self._channels.get(channel, 0))
        self.at(due_ns, action)

    def ask(self, client: Client, data: bytes, generation: int) -> None:
        def asked() -> None:
            if client.generation != generation:
                return
            if self.manager is None:
                # ZeroMQ connects again and again.
                self.at(self.now_ns + 100 * MS, asked)
                return
            answer = self.manager.answer(data)
            self.after((client, "reply"), lambda: answered(answer))

        def answered(answer: bytes) -> None:
            if client.generation == generation:
                client.session.manager_answered(answer, self.now_ns)
                client.turn()

        self.after((client, "ask"), asked)

    def connect(self, client: Client, filters: tuple[bytes, ...]) -> None:
        link = client.link = Link(number=client.generation)
        for text in filters:
            self.set_filter(client, text, is_set=True)
        self.after((client, "connected"), lambda: self._catch_up(client, link))

    def set_filter(self, client: Client, text: bytes, *, is_set: bool) -> None:
        link = client.link
        self.after(
            (client, link and link.number, "up"),
            lambda: self._filter(link, text, is_set),
            self.filter_delay_ms_max,
        )

    def drop(self, client: Client) -> None:
        client.link = None
        client.generation += 1

    def publish(self, client: Client, frame: bytes) -> None:
        link = client.link
        if link is None or not any(frame.startswith(text) for text in link.known):
            return
        self.after((client, link.number, "pub"), lambda: self._route(frame))

    # -- inside

    def _lose(self, client: Client) -> Callable[[], None]:
        def lost() -> None:
            client.session.connection_lost("the broker closed the connection", self.now_ns)
            client.turn()

        return lost

    def _filter(self, link: Link | None, text: bytes, is_set: bool) -> None:
        owner = next((one for one in self.clients if one.link is link and link is not None), None)
        if owner is None or link is None or self.manager is None:
            return
        if not is_set:
            link.filters.remove(text)
            return
        link.filters.append(text)
        if text not in self._filters:
            self._filters.add(text)
            for client in self.clients:
                # Only those whose publishing socket is connected; others get all when it is.
                if client.link is not None and client.link.known:
                    self._pass(client, client.link, text)

    def _catch_up(self, client: Client, link: Link) -> None:
        if client.link is link and self.manager is not None:
            link.known.add(b"\0connected")
            for text in sorted(self._filters):
                self._pass(client, link, text)

    def _pass(self, client: Client, link: Link, text: bytes) -> None:
        def passed() -> None:
            if client.link is link:
                link.known.add(text)
                client.session.subscription_passed(b"\x01" + text, self.now_ns)
                client.turn()

        self.after((client, link.number, "down"), passed)

    def _route(self, frame: bytes) -> None:
        if self.manager is None:
            return
        if frame.startswith(REQUEST_FILTER):
            answer = self.manager.receive(frame)
            if answer is not None:
                self.after("manager", lambda: self._route(answer))
            return
        for client in self.clients:
            link = client.link
            if link is not None and any(frame.startswith(text) for text in link.filters):
                self._deliver(client, link, frame)

    def _deliver(self, client: Client, link: Link, frame: bytes) -> None:
        def delivered() -> None:
            if client.link is not link:
                return
            found = client.session.receive(frame, self.now_ns)
            if found is not None and "data" in found[0].targets:
                client.received.append(frame[found[1] :])
            client.turn()

        self.after((client, link.number, "sub"), delivered)
