"""The loop that processes every received update."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.client.core.events import Event
from skerry.client.core.received_types import ReceivedType
from skerry.client.core.type_route import Target, TypeRoute
from skerry.client.core.type_store import TypeStore
from skerry.client.core.update_intake import UpdateIntake
from skerry.codec.frame import FrameCutter
from skerry.codec.hot_loops import FrameDelivery
from skerry.errors import DecodeError
from skerry.objects.base import codec_of
from skerry.protocol.access.header import Header, read_header
from skerry.protocol.access.wire import Wire
from tests.unit.client.stage import Shout, Stage, Vessel, operations


def shape_of(cls: Any) -> ReceivedType:
    return ReceivedType(cls, codec_of(cls).plan, cls.descriptor.flags.cached)


def sent(obj: Any, *, remove: bool = False, **facts: Any) -> tuple[Header, bytes]:
    header = Header(obj.descriptor.name)
    header.attributes = int(obj.attributes)
    header.sender = 3
    header.sent_time = 1.0
    header.remove_obj = int(remove)
    for name, value in facts.items():
        setattr(header, name, value)
    return header, obj.encode()


def vessels(intake: UpdateIntake, callback: Any) -> TypeStore:
    route = TypeRoute(shape_of(Vessel), False)
    route.is_joined = True
    route.targets = [Target(callback, None)]
    intake.routes["Vessel"] = route
    assert route.store is not None
    return route.store


def delivered(*transmissions: tuple[Header, bytes]) -> tuple[list[Event[Any]], TypeStore]:
    intake = UpdateIntake()
    events: list[Event[Any]] = []
    store = vessels(intake, events.append)
    assert intake.take(list(transmissions), 0) == len(transmissions)
    return events, store


def test_intake_stops_at_other_messages() -> None:
    intake = UpdateIntake()
    vessels(intake, lambda event: event)
    stranger = sent(Shout(text="x"))
    assert intake.take([sent(Vessel(mmsi=1)), stranger, sent(Vessel(mmsi=2))], 0) == 1
    assert intake.take([sent(Vessel(mmsi=1), attributes=-1)], 0) == 0
    intake.routes["Vessel"].is_service = True
    assert intake.take([sent(Vessel(mmsi=1))], 0) == 0
    intake.is_stopped = True
    assert intake.take([sent(Vessel(mmsi=1))], 0) == 0


def test_condition_has_its_own_route_by_number() -> None:
    intake = UpdateIntake()
    events: list[Event[Any]] = []
    vessels(intake, print)
    route = intake.conditions[7] = TypeRoute(shape_of(Vessel), False)
    route.is_joined = route.is_condition = True
    route.targets = [Target(events.append, None)]
    assert intake.take([sent(Vessel(mmsi=1), subscription_id=7)], 0) == 1
    assert len(events) == 1
    assert intake.take([sent(Vessel(mmsi=1), subscription_id=8)], 0) == 0


def test_closed_target_is_not_called_any_more() -> None:
    intake = UpdateIntake()
    events: list[Event[Any]] = []
    vessels(intake, events.append)
    intake.routes["Vessel"].targets[0].is_open = False
    intake.take([sent(Vessel(mmsi=1))], 0)
    assert events == []


@pytest.mark.parametrize("is_selected", [True, False])
def test_object_without_a_join_is_stored_only_if_a_pattern_selects_it(is_selected: bool) -> None:
    intake = UpdateIntake()
    events: list[Event[Any]] = []
    store = vessels(intake, print)
    route = intake.routes["Vessel"]
    route.is_joined, route.targets = False, []
    intake.patterns.add("/Vessel/1" if is_selected else "/Vessel/2", Target(events.append, None))
    intake.pattern_count = 1
    route.has_patterns = True
    intake.take([sent(Vessel(mmsi=1))], 0)
    assert (len(events), len(store.objects)) == (int(is_selected), int(is_selected))


def test_moved_object_is_created_and_removed_for_patterns() -> None:
    stage = Stage()
    writer, core = stage.space(), stage.space()
    whole = stage.hear(core, Vessel)
    fleet, yard, both = (stage.hear(core, what) for what in ("/fleet/*", "/yard/*", "/*/1"))
    stage.publish(writer, Vessel(mmsi=1, name="a", lat=1.0), subject="/fleet/1")
    stage.publish(writer, Vessel(mmsi=1, lat=2.0), subject="/yard/1")
    assert operations(whole) == operations(both) == ["create", "update"]
    assert operations(fleet) == ["create", "remove"]
    gone, come = fleet[-1], yard[-1]
    assert (gone.subject, gone.update) == ("/fleet/1", Vessel(mmsi=1))
    assert gone.object == Vessel(mmsi=1, name="a", lat=1.0), "as it was"
    assert gone.info.last_operation == "remove"
    assert operations(yard) == ["create"]
    assert come.subject == "/yard/1"
    assert come.update == come.object == Vessel(mmsi=1, name="a", lat=2.0)


def test_object_may_move_to_and_from_its_default_subject() -> None:
    stage = Stage()
    writer, core = stage.space(), stage.space()
    stage.hear(core, Vessel)
    own, fleet = stage.hear(core, "/Vessel/1"), stage.hear(core, "/fleet/*")
    for lat, subject in ((1.0, "/fleet/1"), (2.0, ""), (3.0, "/fleet/1")):
        stage.publish(writer, Vessel(mmsi=1, lat=lat), subject=subject)
    assert operations(own) == ["create", "remove"]
    assert operations(fleet) == ["create", "remove", "create"]
    assert [event.object.lat for event in own] == [2.0, 2.0]


def test_removal_uses_the_known_subject() -> None:
    stage = Stage()
    core = stage.space()
    fleet, yard = stage.hear(core, "/fleet/*"), stage.hear(core, "/yard/*")
    core.types.learn(Vessel)
    route = core.subscriptions.routes.of_name("Vessel")
    assert route is not None
    for last in ({"remove_obj": 1, "subject": "/yard/1"}, {"subject": "/sea/1"}):
        for facts in ({"subject": "/fleet/1"}, last):
            core.intake.deliver(route, *sent(Vessel(mmsi=1, lat=1.0), **facts))
    assert operations(fleet) == ["create", "remove"] * 2
    assert [event.subject for event in fleet] == ["/fleet/1"] * 4
    assert yard == []


# -- messages, which are delivered in runs


def shouts(count: int, first: int = 0) -> bytes:
    frames = []
    for number in range(first, first + count):
        header, payload = sent(Shout(text=str(number)), sent_time=float(number))
        frames.append(Wire().frame(header, payload))
    return b"".join(frames)


class Crowd:
    """Subscribers whose callbacks change subscriptions."""

    def __init__(self) -> None:
        self.intake = UpdateIntake()
        self.route = TypeRoute(shape_of(Shout), False)
        self.route.is_joined = True
        self.intake.routes["Shout"] = self.route
        self.received_events: list[tuple[str, str]] = []
        self.cutter = FrameCutter()

    def join(self, name: str, act: Any = None, shape: ReceivedType | None = None) -> Target:
        def hear(event: Event[Any]) -> None:
            self.received_events.append((name, event.object.text))
            if act is not None:
                act(event)

        target = Target(hear, shape)
        self.route.targets = [*self.route.targets, target]
        self.route.changed()
        return target

    def take(self, data: bytes) -> bool:
        self.cutter.load(data)
        return self.intake.take_frames(self.cutter)

    def of(self, name: str) -> list[int]:
        return [int(text) for who, text in self.received_events if who == name]


def test_all_messages_are_delivered_for_any_cut_of_the_stream() -> None:
    data = shouts(9)
    for size in (1, 40, 75, len(data)):
        crowd = Crowd()
        crowd.join("a")
        for at in range(0, len(data), size):
            assert crowd.take(data[at : at + size])
        assert crowd.of("a") == list(range(9))


def test_subscription_change_in_a_callback_counts_from_the_next_message() -> None:
    crowd = Crowd()

    def act(event: Event[Any]) -> None:
        if event.object.text == "3":
            crowd.join("late")
        if event.object.text == "5":
            second.is_open = False
            crowd.route.targets = [t for t in crowd.route.targets if t is not second]
            crowd.route.changed()

    crowd.join("first", act)
    second = crowd.join("second")
    assert crowd.take(shouts(9))
    assert crowd.of("first") == list(range(9))
    assert crowd.of("second") == list(range(5))
    assert crowd.of("late") == list(range(4, 9))
    assert crowd.cutter.frame_count == 9


def test_stopped_space_delivers_nothing() -> None:
    crowd = Crowd()

    def act(event: Event[Any]) -> None:
        crowd.intake.is_stopped = event.object.text == "4"

    crowd.join("a", act)
    crowd.take(shouts(9))
    assert crowd.of("a") == list(range(5))


@pytest.mark.parametrize("change", ["is_joined", "has_patterns", "filters", "pattern_count"])
def test_change_of_a_route_counts_from_the_next_message(change: str) -> None:
    crowd = Crowd()
    seen: list[str] = []

    class View:
        def changed(self, _key: bytes, event: Event[Any]) -> None:
            seen.append(event.object.text)

    def act(event: Event[Any]) -> None:
        if event.object.text != "4":
            return
        if change == "is_joined":
            crowd.route.is_joined = False
        elif change == "filters":
            crowd.route.filters = [View()]
        else:
            crowd.intake.patterns.add("/Shout", Target(lambda e: seen.append(e.object.text), None))
            crowd.intake.pattern_count = 1
            crowd.route.has_patterns = True
        crowd.route.changed()

    crowd.join("a", act)
    crowd.take(shouts(9))
    assert crowd.of("a") == list(range(5 if change == "is_joined" else 9))
    assert seen == ([] if change == "is_joined" else [str(n) for n in range(5, 9)])


def test_subscriber_of_another_class_receives_its_objects_in_a_run() -> None:
    class Loud(Shout):  # type: ignore[misc]
        """A class of the program."""

    crowd, classes = Crowd(), []
    crowd.join("a", lambda event: classes.append(type(event.object)), shape_of(Loud))
    crowd.join("b")
    assert crowd.take(shouts(4))
    assert crowd.of("a") == crowd.of("b") == list(range(4))
    assert classes == [Loud] * 4


def test_invalid_message_stops_the_run() -> None:
    crowd = Crowd()
    crowd.join("a")
    bad = shouts(1, 7).replace(b"\xa1\x01\x61" + b"7", b"\xa1\x01\x18" + b"7")
    assert not crowd.take(shouts(4) + bad + shouts(2, 8))
    assert isinstance(crowd.intake.broken, DecodeError)
    header, size = read_header(crowd.cutter.body(), 0)
    assert (header.type_name, crowd.cutter.body()[size:]) == ("Shout", b"\xa1\x01\x187")
    crowd.intake.broken = None
    assert crowd.intake.take_frames(crowd.cutter)
    assert crowd.of("a") == [0, 1, 2, 3, 8, 9]


def test_kept_events_of_a_run_do_not_change() -> None:
    crowd = Crowd()
    events: list[Event[Any]] = []
    crowd.join("a", events.append)
    crowd.join("b", lambda event: event.header)
    crowd.take(shouts(5))
    assert [event.header.sent_time for event in events] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert [event.update.text for event in events] == ["0", "1", "2", "3", "4"]
    assert [event.subject for event in events] == ["/Shout"] * 5


def test_alternating_types_are_delivered_like_single_frames() -> None:
    """Kept objects, messages and a condition among them, by whole and by partial updates."""

    def facts(event: Event[Any]) -> Any:
        header = event.header
        times = (header.sent_time, header.server_sent_time, header.subscription_id)
        return event.operation, event.object, event.update, event.subject, times

    def frames() -> list[bytes]:
        made = []
        for number in range(60):
            time: dict[str, Any] = {"sent_time": float(number), "server_sent_time": number + 0.5}
            made += [
                sent(Vessel(mmsi=number % 3, name="a", lat=float(number)), **time),
                sent(Shout(text=str(number)), **time),
                sent(Vessel(mmsi=number % 3, lat=float(-number)), **time),
                sent(Shout(text="own"), subject=f"/own/{number % 2}", **time),
                sent(Vessel(mmsi=number % 5, lat=1.0), subscription_id=7, **time),
                sent(Vessel(mmsi=number % 3), remove=number % 4 == 0, **time),
            ]
        return [Wire().frame(*one) for one in made]

    def delivered_in_pieces(count: int) -> list[Any]:
        intake = UpdateIntake()
        received_events: list[Any] = []

        def hear(event: Event[Any]) -> None:
            received_events.append(facts(event))

        vessels(intake, hear)
        condition, messages = TypeRoute(shape_of(Vessel), False), TypeRoute(shape_of(Shout), False)
        condition.is_condition = True
        for route in (condition, messages):
            route.is_joined = True
            route.targets = [Target(hear, None)]
        intake.conditions[7] = condition
        intake.routes["Shout"] = messages
        cutter, data = FrameCutter(), frames()
        for start in range(0, len(data), count):
            if start == 180:
                del intake.conditions[7]
                intake.changed()
            cutter.load(b"".join(data[start : start + count]))
            if count == 1:
                intake._delivery = FrameDelivery()
            while not intake.take_frames(cutter):
                # An object without a subscription is left to the space.
                assert start >= 180
        return received_events

    alone = delivered_in_pieces(1)
    assert len(alone) > 250
    for count in (2, 6, 90, 180):
        assert delivered_in_pieces(count) == alone


def test_taker_replaces_stores_and_events() -> None:
    class Taker:
        def __init__(self) -> None:
            self.taken: list[Any] = []

        def take_frames(self, cutter: Any) -> bool:
            self.taken.append(cutter)
            return False

        def take(self, arrived: list[tuple[Header, bytes]], start: int) -> int:
            self.taken.append(arrived[start])
            return len(arrived)

    intake = UpdateIntake()
    events: list[Event[Any]] = []
    store = vessels(intake, events.append)
    taker = intake.taker = Taker()
    arrived = [sent(Vessel(mmsi=1)), sent(Vessel(mmsi=2))]
    assert intake.take(arrived, 1) == 2
    cutter = FrameCutter()
    assert not intake.take_frames(cutter)
    assert taker.taken == [arrived[1], cutter]
    assert not store.objects
    assert not events
