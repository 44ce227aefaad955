"""What plain DOTS guests are sent, whatever happens at a node: nothing that DOTS does not have.

Every byte that the node sends to a guest without our additions is decoded here by another reader
than the node's own, and each type, header field and field of a message must be one of DOTS.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import cbor2
import pytest

import skerry
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.permissions import PermissionRule
from skerry.engine.admission.quotas import ClientLimits
from skerry.limits import FRAME_BYTES_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import Header
from skerry.protocol.access.json.text import parse_text
from skerry.protocol.access.json.wire import JsonWire, cut_messages
from skerry.protocol.access.json.writing import JsonNodeWire
from skerry.protocol.access.wire import OldWire, Wire
from skerry.schema.internal import internal_types
from skerry.schema.model import NamedType, StructType

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Guest, Harbour

TYPES = skerry.define_types(
    """
    struct Boat { 1: [key] uint32 id; 2: string name; 3: float64 lat; }
    struct Mine [cleanup] { 1: [key] uint32 id; 2: string name; }
    struct Secret { 1: [key] uint32 id; }
    struct Shout [cached=false] { 1: string text; }
    struct Ask [cached=false] { 1: string text; }
    """
)
OTHER_BOAT = skerry.define_types("struct Boat { 1: [key] string id; 2: string name; }").Boat
Boat, Mine, Secret, Shout, Ask = TYPES.Boat, TYPES.Mine, TYPES.Secret, TYPES.Shout, TYPES.Ask
OUR_OWN = [name for name in internal_types() if name.startswith("Skerry")]
EVENTS: Any = internal_class("SkerryClaimEvent")

HEADER_TAGS = {1, 2, 3, 4, 5, 6, 7, 8}
"""Of DotsHeader in C++ 1.2. The ninth is for filtered subscriptions, which none of these opens."""
SAID_TO_ALL = {"DotsMsgHello"}
"""Announces the additions, by a field that the C++ reader skips."""


class FramedJson(JsonWire):
    """Takes the frames of another one as they are, without a WebSocket between."""

    def reading(self, data: bytes) -> None:
        return None

    def _read(self, data: bytes, arrived: list[tuple[Header, bytes]]) -> None:
        for message in cut_messages(data):
            super()._read(message, arrived)


class FramedNodeJson(FramedJson, JsonNodeWire):
    """The same for the end of the node."""


class Witness:
    """A node, and all that it sends to plain guests of one framing."""

    def __init__(self, harbour: Harbour, framing: str) -> None:
        self.harbour = harbour
        self.framing = framing
        self.client_types = {cls.descriptor.name: cls.descriptor for cls in TYPES.values()}
        """By which guests write JSON."""
        self.frame_bytes_max = FRAME_BYTES_MAX
        self.types: set[str] = set()
        self.errors: list[str] = []

    def guest(self, name: str = "plain", **options: Any) -> Guest:
        """A plain guest that is let in; all that is sent to it is checked."""
        # One for the guest, one for the node.
        wires = iter([self._wire(self.client_types), self._wire(self.harbour.node.registry)])
        made = self.harbour.stranger(name, extensions=0, wire=lambda: next(wires), **options)
        hear = made.hear

        def check_and_hear(data: bytes) -> None:
            self.check(data)
            hear(data)

        made.hear = check_and_hear  # type: ignore[method-assign]
        self.harbour.pump()
        return made

    def check(self, data: bytes) -> None:
        for header, payload in self._transmissions(data):
            name = header["typeName"]
            self.types.add(name)
            assert not name.startswith("Skerry"), name
            assert set(header) <= {field_name("DotsHeader", tag) for tag in HEADER_TAGS}, header
            type_ = internal_types().get(name)
            if isinstance(type_, StructType) and name not in SAID_TO_ALL:
                ours = {field.name for field in type_.fields if field.tag >= 20}
                assert not ours & set(payload), payload
            if name == "DotsMsgError":
                self.errors.append(payload.get("errorText", ""))

    def _wire(self, types: Mapping[str, NamedType]) -> Wire:
        if self.framing == "json":
            kind = FramedJson if types is self.client_types else FramedNodeJson
            return kind(types, frame_bytes_max=self.frame_bytes_max)
        return OldWire() if self.framing == "v1" else Wire()

    def _transmissions(self, data: bytes) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        if self.framing == "json":
            return [tuple(parse_text(message)) for message in cut_messages(data)]
        found = []
        stream = io.BytesIO(data)
        while stream.tell() < len(data):
            if self.framing == "v1":
                stream.read(2)
                header = cbor2.load(stream)[3]
            else:
                stream.read(5)
                header = cbor2.load(stream)
            payload = cbor2.load(stream)
            header = {field_name("DotsHeader", tag): value for tag, value in header.items()}
            name = header["typeName"]
            found.append((header, {field_name(name, tag): value for tag, value in payload.items()}))
        return found


def field_name(type_name: str, tag: int) -> str:
    type_ = internal_types().get(type_name)
    fields = type_.fields if isinstance(type_, StructType) else ()
    return {field.tag: field.name for field in fields}.get(tag, str(tag))


@pytest.fixture(params=["v2", "v1", "json"])
def framing(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def witness(make_harbour: Callable[..., Harbour], framing: str) -> Witness:
    return Witness(make_harbour(), framing)


def limited(make_harbour: Callable[..., Harbour], framing: str, **limits: Any) -> Witness:
    config = AdmissionConfig(limits=ClientLimits(**limits))
    return Witness(make_harbour(admission=Admission(config)), framing)


def join_everything(guest: Guest) -> None:
    for group in (
        *OUR_OWN,
        *("Boat", "Mine", "Shout", "DotsClient", "DotsDaemonStatus", "DotsClearCache"),
        *("StructDescriptorData", "EnumDescriptorData", "DotsMember", "DotsEcho", "/..."),
    ):
        guest.join(group)


def test_what_our_own_clients_do_reaches_plain_guests_as_dots(witness: Witness) -> None:
    harbour = witness.harbour
    early = witness.guest("early", wants_preload=True)
    early.connection.join("Boat", 0.0)
    early.connection.finish_joins(0.0)
    harbour.pump()
    plain = witness.guest()
    join_everything(plain)
    ours = harbour.guest("ours")
    join_everything(ours)
    ours.publish(Boat(id=1, name="a", lat=math.inf), Boat(id=2, lat=math.nan))
    ours.publish(Boat(id=3), subject="/harbour/3")
    ours.publish(Boat(id=3), subject="/elsewhere/3")
    ours.publish(internal_class("SkerryBytes")(data=b"x"), subject="/prices/x")
    ours.publish(Shout(text="hello"), subject="/shouts/1")
    ours.describe(Ask)
    ours.send("SkerryClaim", number=1, event=EVENTS["claim"], typeName="Ask", handler="router")
    ours.send("SkerryClaim", number=2, event=EVENTS["claim"], typeName="Boat")
    asker = harbour.guest("asker")
    asker.describe(Ask)
    asker.send(
        "SkerryRequest",
        number=1,
        typeName="Ask",
        handler="router",
        object=Ask(text="?").encode(),
        timeout=1.0,
    )
    asker.publish(Boat(id=1, name="refused"))
    differing = harbour.guest("differing")
    differing.publish(OTHER_BOAT(id="x"))
    harbour.node.set_endpoints(["tcp://127.0.0.1:1"], harbour.now_ns)
    for seconds in (2.0, 5.0, 12.0):
        harbour.wait(seconds)
    plain.send("DotsDescriptorRequest")
    plain.echo(1)
    ours.send("DotsClearCache", typeNames=["Boat", "SkerryHolder"])
    ours.vanish()
    late = witness.guest("late")
    join_everything(late)
    harbour.wait(12.0)
    harbour.node.farewell(harbour.now_ns)
    harbour.pump()
    assert not [guest for guest in (early, plain, late) if guest.fault]
    assert {"Boat", "Shout", "DotsClient", "DotsDaemonStatus", "DotsEcho"} <= witness.types


def test_a_plain_guest_that_uses_additions_gets_an_error_of_dots(witness: Witness) -> None:
    for name in OUR_OWN:
        type_ = internal_types()[name]
        if not isinstance(type_, StructType) or name == "SkerryBytes":
            continue
        guest = witness.guest(name)
        header = Header(name)
        header.attributes = 2
        guest.say(header, b"\xa0")
        assert guest.is_cut, name
    assert witness.errors
    assert witness.types <= {"DotsMsgHello", "DotsMsgConnectResponse", "DotsMsgError"}


def refused(guest: Guest, act: Callable[[], object]) -> None:
    act()
    assert guest.is_cut


def test_what_is_not_permitted_is_refused_by_an_error_of_dots(
    make_harbour: Callable[..., Harbour], framing: str
) -> None:
    publish = PermissionRule(verbs=("publish",), subjects=("Boat",))
    subscribe = PermissionRule(verbs=("subscribe",), subjects=("Boat",))
    config = AdmissionConfig(permission=(publish, subscribe))
    harbour = make_harbour(admission=Admission(config))
    witness = Witness(harbour, framing)
    guest = witness.guest()
    # By itself: JSON is read message by message, and here they come together.
    guest.describe(Boat)
    guest.publish(Boat(id=1))
    assert not guest.is_cut
    guest.describe(Secret)
    refused(guest, lambda: guest.publish(Secret(id=1)))
    guest = witness.guest()
    guest.join("Boat")
    refused(guest, lambda: guest.join("Secret"))
    guest = witness.guest()
    refused(guest, lambda: guest.join("/..."))
    guest = witness.guest()
    refused(guest, lambda: guest.remove(Boat(id=1)))
    guest = witness.guest()
    refused(guest, lambda: guest.send("DotsClearCache", typeNames=["Boat"]))
    guest = witness.guest()
    rule_fields: dict[str, Any] = {"nameSpace": "", "accept": True}
    refused(guest, lambda: guest.send("DotsAuthenticationPolicy", **rule_fields))
    guest = witness.guest()
    refused(guest, lambda: guest.send("DotsClient", id=1, name="another"))
    watching = witness.guest()
    watching.join("Boat")
    harbour.node.renew_admission(AdmissionConfig(permission=(publish,)), harbour.now_ns)
    harbour.pump()
    assert watching.is_cut
    assert len(witness.errors) == 8
    assert all("not permitted" in text or "only publish its own" in text for text in witness.errors)


def test_what_is_beyond_a_limit_is_refused_by_an_error_of_dots(
    make_harbour: Callable[..., Harbour], framing: str
) -> None:
    witness = limited(make_harbour, framing, object_count_max=2)
    guest = witness.guest()
    refused(guest, lambda: guest.publish(Boat(id=1), Boat(id=2), Boat(id=3)))
    witness = limited(make_harbour, framing, join_count_max=1)
    guest = witness.guest()
    guest.join("Boat")
    refused(guest, lambda: guest.join("Mine"))
    witness = limited(make_harbour, framing, type_count_max=1)
    guest = witness.guest()
    refused(guest, lambda: guest.publish(Boat(id=1), Mine(id=1)))
    witness = limited(make_harbour, framing, update_bytes_max=100)
    guest = witness.guest()
    refused(guest, lambda: guest.publish(Boat(id=1, name="x" * 200)))
    witness = limited(make_harbour, framing, updates_per_s_max=1.0)
    guest = witness.guest()
    refused(guest, lambda: guest.publish(*(Boat(id=number) for number in range(5))))
    assert len(witness.errors) == 1


def test_a_plain_guest_that_changes_what_is_owned_gets_an_error_of_dots(witness: Witness) -> None:
    owner = witness.harbour.guest("owner")
    owner.publish(Boat(id=1))
    owner.send("SkerryClaim", number=1, event=EVENTS["claim"], typeName="Boat")
    guest = witness.guest()
    refused(guest, lambda: guest.publish(Boat(id=1, name="mine")))
    assert ["owned by client" in text for text in witness.errors] == [True]


def test_a_definition_that_does_not_fit_is_refused_by_an_error_of_dots(witness: Witness) -> None:
    witness.harbour.guest("ours").publish(Boat(id=1))
    witness.client_types["Boat"] = OTHER_BOAT.descriptor
    guest = witness.guest()
    refused(guest, lambda: guest.publish(OTHER_BOAT(id="x")))
    assert len(witness.errors) == 1


@pytest.mark.parametrize(
    "act",
    [
        lambda guest: guest.send("DotsMember", groupName="Boat"),
        lambda guest: guest.send("DotsClearCache"),
        lambda guest: guest.remove(Shout(text="x")),
        lambda guest: guest.say(Header("Boat"), b"\xa0"),
        lambda guest: guest.say(Header("DotsMsgHello"), b"\xa0"),
        lambda guest: guest.say_bytes(b"\x00\x00\x00\x04[}]]"),
        lambda guest: guest.send("DotsMsgError", errorCode=5, errorText="lost my mind"),
    ],
)
def test_a_violation_is_answered_by_an_error_of_dots(
    witness: Witness, act: Callable[[Guest], None]
) -> None:
    guest = witness.guest()
    refused(guest, lambda: act(guest))
    assert witness.types == {"DotsMsgHello", "DotsMsgConnectResponse", "DotsMsgError"}


def test_a_slow_plain_client_is_disconnected_without_a_message(
    make_harbour: Callable[..., Harbour], framing: str
) -> None:
    witness = limited(make_harbour, framing, waiting_bytes_max=1000)
    slow = witness.guest("slow")
    slow.join("Boat")
    slow.pause()
    before = set(witness.types)
    ours = witness.harbour.guest("ours")
    ours.publish(*(Boat(id=number, name="x" * 100) for number in range(20)))
    assert slow.is_cut_abruptly
    assert witness.types == before


def test_a_rejected_plain_client_receives_the_response_of_dots(
    make_harbour: Callable[..., Harbour], framing: str
) -> None:
    admission = Admission(AdmissionConfig(policy="reject"))
    witness = Witness(make_harbour(admission=admission), framing)
    assert witness.guest().is_cut
    assert witness.types == {"DotsMsgHello", "DotsMsgConnectResponse"}


def test_an_object_that_no_message_can_carry_ends_a_plain_websocket_guest(
    make_harbour: Callable[..., Harbour],
) -> None:
    witness = Witness(make_harbour(), "json")
    witness.frame_bytes_max = 1000
    guest = witness.guest()
    guest.join("Boat")
    witness.harbour.guest("ours").publish(Boat(id=1, name="x" * 2000))
    assert guest.is_cut
    assert ["Boat: " in text and "the limit is 1000" in text for text in witness.errors] == [True]
