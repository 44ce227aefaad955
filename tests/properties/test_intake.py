"""What a space receives leads to the same events, whether headers are known or read each time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from skerry.client.core.events import Event, info_of
from skerry.client.core.received_types import ReceivedType
from skerry.client.core.type_route import Target, TypeRoute
from skerry.client.core.update_intake import UpdateIntake
from skerry.codec.frame import FrameCutter
from skerry.codec.hot_loops import FrameDelivery
from skerry.objects.base import codec_of
from skerry.objects.typeset import define_types
from skerry.protocol.access.header import Header
from skerry.protocol.access.wire import Wire

TYPES = define_types("""
struct Vessel { 1: [key] uint32 id; 2: string name; 3: float64 lat; 4: vector<uint8> marks; }
struct Buoy { 1: [key] string id; 2: [key] uint8 zone; 3: bool lit; }
struct Call [cached=false] { 1: string text; }
""")


@dataclass(frozen=True)
class Step:
    """One object that is received."""

    obj: Any
    attributes: int
    subject: str = ""
    is_remove: bool = False
    subscription: int = -1

    def frame(self, number: int) -> bytes:
        header = Header(type(self.obj).descriptor.name)
        header.sent_time, header.server_sent_time = float(number), number + 0.5
        header.attributes = self.attributes
        header.sender = 2 + number % 2
        header.remove_obj = int(self.is_remove)
        header.subject = self.subject
        header.subscription_id = self.subscription
        return Wire().frame(header, self.obj.encode())


@st.composite
def steps(draw: st.DrawFn) -> Step:
    kind = draw(st.sampled_from(["Vessel", "Vessel", "Buoy", "Call"]))
    if kind == "Vessel":
        obj = TYPES.Vessel(id=draw(st.integers(0, 2)))
        fields: dict[str, Any] = {"name": st.sampled_from("ab"), "lat": st.sampled_from([1.0, 2.0])}
        fields["marks"] = st.lists(st.integers(0, 3), max_size=2)
    elif kind == "Buoy":
        obj = TYPES.Buoy(id=draw(st.sampled_from("xy")), zone=1)
        fields = {"lit": st.booleans()}
    else:
        obj, fields = TYPES.Call(text=draw(st.sampled_from("no"))), {}
    for name, values in fields.items():
        if draw(st.booleans()):
            setattr(obj, name, draw(values))
    # What is named and not set is cleared.
    cleared = draw(st.sampled_from([0, 0, int(type(obj).descriptor.mask)]))
    return Step(
        obj=obj,
        attributes=int(obj.attributes) | cleared,
        subject=draw(st.sampled_from(["", "", "/a", "/b/c"])),
        is_remove=kind != "Call" and draw(st.integers(0, 5)) == 0,
        subscription=7 if kind == "Vessel" and draw(st.integers(0, 4)) == 0 else -1,
    )


class Receiver:
    """A space that notes every event, and what it stores."""

    def __init__(self, patterns: list[str], is_joined: bool) -> None:
        self.intake = UpdateIntake()
        self.intake.context.epoch = 4
        self.notified: list[Any] = []
        self._cutter = FrameCutter()
        for name in ("Vessel", "Buoy", "Call"):
            cls = getattr(TYPES, name)
            shape = ReceivedType(cls, codec_of(cls).plan, cls.descriptor.flags.cached)
            route = TypeRoute(shape, is_service=False)
            route.is_joined = is_joined or name == "Buoy"
            route.has_patterns = any(name in pattern for pattern in patterns)
            if route.is_joined:
                route.targets = [Target(self._hear(name), None)]
            self.intake.routes[name] = route
        condition = TypeRoute(self.intake.routes["Vessel"].shape, is_service=False)
        condition.is_condition = condition.is_joined = True
        condition.targets = [Target(self._hear("condition"), None)]
        self.intake.conditions[7] = condition
        for pattern in patterns:
            self.intake.patterns.add(pattern, Target(self._hear(pattern), None))
        self.intake.pattern_count = len(patterns)

    def _hear(self, name: str) -> Any:
        def hear(event: Event[Any]) -> None:
            header = event.header
            times = (header.sent_time, header.server_sent_time, header.sender)
            facts = (event.operation, event.object, event.update, event.subject, event.info)
            self.notified.append((name, *facts, times, header.attributes))

        return hear

    def take(self, data: bytes) -> None:
        self._cutter.load(data)
        while not self.intake.take_frames(self._cutter):
            assert self.intake.broken is None

    def stored(self) -> list[Any]:
        routes = [*self.intake.routes.values(), *self.intake.conditions.values()]
        return [
            {
                key: (state.payload, state.present, state.subject, state.epoch, info_of(state))
                for key, state in route.store.objects.items()
            }
            for route in routes
            if route.store is not None
        ]


@given(
    st.lists(steps(), max_size=40),
    st.lists(st.sampled_from(["/a", "/b/*", "/Vessel/1"]), unique=True),
    st.booleans(),
    st.integers(1, 12),
)
def test_known_headers_change_nothing(
    stream: list[Step], patterns: list[str], is_joined: bool, count: int
) -> None:
    frames = [step.frame(number) for number, step in enumerate(stream)]
    alone, together = Receiver(patterns, is_joined), Receiver(patterns, is_joined)
    for frame in frames:
        # Each header is read.
        alone.intake._delivery = FrameDelivery()
        alone.take(frame)
    for start in range(0, len(frames), count):
        together.take(b"".join(frames[start : start + count]))
    assert together.notified == alone.notified
    assert together.stored() == alone.stored()
