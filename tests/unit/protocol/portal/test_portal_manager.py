"""The manager of a portal, and the hold."""

from __future__ import annotations

import pytest

from skerry.protocol.portal.config import IPC_PATH_BYTES_MAX, PortalClientConfig, PortalConfig
from skerry.protocol.portal.hold import HOLD_TRANSITIONS, Hold, HoldEvent, HoldState
from skerry.protocol.portal.messages import (
    MANAGER_MESSAGE_BYTES_MAX,
    REQUEST_FILTER,
    DataSocket,
    ManagerQuestion,
    ManagerRequest,
    ManagerResponse,
    PortalTransport,
    read_response,
    write_request,
)
from skerry.protocol.portal.portal_manager import (
    PORTAL_CLIENT_COUNT_MAX,
    HoldReleased,
    PortalClientSeen,
    PortalManager,
    RequestMalformed,
    RequiredClientReady,
)
from skerry.runtime.portal.broker_config import REQUIRED_CLIENT_COUNT_MAX, PortalBrokerConfig

PUBLISH = DataSocket(transport=PortalTransport.IPC, path="/tmp/goby_vec_ipc.xsub")
SUBSCRIBE = DataSocket(transport=PortalTransport.IPC, path="/tmp/goby_vec_ipc.xpub")


def manager(*required: str) -> PortalManager:
    return PortalManager(
        publish_socket=PUBLISH,
        subscribe_socket=SUBSCRIBE,
        required=frozenset(required),
        process=1,
        thread=1,
    )


def hold(name: str, *, ready: bool, pid: int = 4242) -> bytes:
    return write_request(
        ManagerRequest(question=ManagerQuestion.HOLD, client_name=name, client_pid=pid, ready=ready)
    )


def published(one: PortalManager, name: str, *, ready: bool) -> bool | None:
    frame = one.receive(REQUEST_FILTER + b"1/1/\0" + hold(name, ready=ready))
    assert frame is not None
    return read_response(frame[frame.index(b"\0") + 1 :]).hold


def test_a_request_is_answered_with_the_captured_bytes() -> None:
    request = bytes.fromhex("0801120d766563746f725f636c69656e74189221")
    assert manager().answer(request).hex() == (
        "0801120d766563746f725f636c69656e74189221222408011802200142162f746d702f676f62795f7665635f69"
        "70632e7873756250e80758e8072a2408021802200142162f746d702f676f62795f7665635f6970632e78707562"
        "50e80758e807"
    )


def test_a_minimal_request_is_answered_with_the_captured_bytes() -> None:
    assert manager().answer(b"\x08\x01").hex() == (
        "080112001800222408011802200142162f746d702f676f62795f7665635f6970632e7873756250e80758e8072a"
        "2408021802200142162f746d702f676f62795f7665635f6970632e7870756250e80758e807"
    )


@pytest.mark.parametrize(
    "request_", [b"", b"\xff" * 20, b"\x08\x07", b"\x12\xff", bytes(MANAGER_MESSAGE_BYTES_MAX + 1)]
)
def test_every_request_is_answered(request_: bytes) -> None:
    one = manager()
    answer = read_response(one.answer(request_))
    assert answer == ManagerResponse(question=ManagerQuestion.SOCKETS)
    assert one.statistics().malformed_count == 1
    assert [type(event) for event in one.take_events()] == [RequestMalformed]


def test_the_hold_is_released_by_the_last_required_client() -> None:
    one = manager("pilot", "logger")
    assert published(one, "pilot", ready=False) is True
    assert published(one, "pilot", ready=True) is True
    assert published(one, "other", ready=True) is True
    assert one.statistics().missing == ("logger",)
    assert published(one, "logger", ready=True) is False
    assert published(one, "late", ready=False) is False
    assert one.take_events() == [
        PortalClientSeen(client_name="pilot", client_pid=4242),
        RequiredClientReady(client_name="pilot", missing=("logger",)),
        PortalClientSeen(client_name="other", client_pid=4242),
        PortalClientSeen(client_name="logger", client_pid=4242),
        RequiredClientReady(client_name="logger", missing=()),
        HoldReleased(),
        PortalClientSeen(client_name="late", client_pid=4242),
    ]
    assert one.clients()[-1] == ("late", 4242)


def test_the_hold_is_told_by_request_and_reply_too() -> None:
    answer = manager("other").answer(hold("vector_client", ready=True))
    assert answer.hex() == "0802120d766563746f725f636c69656e741892213001"


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        REQUEST_FILTER,
        REQUEST_FILTER + b"1/1/\0" + b"\xff\xff",
        REQUEST_FILTER + b"1/1/\0" + b"\x08\x01",
        b"/other/PROTOBUF/x/1/1/\0" + hold("pilot", ready=True),
    ],
)
def test_malformed_publications_are_counted(frame: bytes) -> None:
    one = manager("pilot")
    assert one.receive(frame) is None
    assert one.statistics().malformed_count == 1
    assert one.hold.is_held


def test_a_portal_without_required_clients_holds_nobody() -> None:
    assert published(manager(), "any", ready=False) is False


def test_clients_are_remembered_up_to_a_bound() -> None:
    one = manager()
    for number in range(PORTAL_CLIENT_COUNT_MAX + 3):
        one.answer(hold("pilot", ready=False, pid=number))
    one.answer(hold("x" * 1000, ready=False))
    assert one.statistics().clients_count == PORTAL_CLIENT_COUNT_MAX
    assert one.clients()[0] == ("pilot", 3)


def test_the_table_of_the_hold() -> None:
    one = Hold(frozenset({"a", "b"}))
    assert one.state.name == "HELD"
    assert not one.client_ready("c")
    assert not one.client_ready("a")
    assert one.client_ready("b")
    assert not one.client_ready("b")
    assert one.state.name == "RELEASED"
    with pytest.raises(AssertionError, match="not possible"):
        HOLD_TRANSITIONS.next_state(HoldState.RELEASED, HoldEvent.ALL_READY)


def test_addresses_follow_from_the_configuration() -> None:
    assert PortalConfig().manager == "ipc:///tmp/goby_default_goby_platform.manager"
    assert PortalConfig(platform="auv").manager == "ipc:///tmp/goby_auv.manager"
    assert PortalConfig(socket_name="/run/x").manager == "ipc:///run/x.manager"
    assert PortalConfig(transport="tcp").manager == "tcp://127.0.0.1:11144"
    by_v6 = PortalConfig(transport="tcp", address="fd00::5", tcp_port=99)
    assert by_v6.manager == "tcp://[fd00::5]:99"


@pytest.mark.parametrize(
    "fields",
    [
        {"platform": ""},
        {"platform": "a/b"},
        {"socket_name": "a\0b"},
        {"socket_name": "/" + "x" * (IPC_PATH_BYTES_MAX - len(".manager"))},
        {"tcp_port": 0},
        {"address": "a b"},
        {"send_queue_size": -1},
        {"receive_queue_size": 2**31},
        {"io_threads": 0},
        {"message_bytes_max": 1},
    ],
)
def test_an_invalid_configuration_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        PortalConfig(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields",
    [
        {"manager_timeout_s": 0},
        {"settle_s": -1},
        {"rejoin_s": 61},
        {"buffer_count_max": 0},
        {"buffer_bytes_max": 1},
        {"client_name": "x" * 201},
    ],
)
def test_an_invalid_configuration_of_a_client_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        PortalClientConfig(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"required_clients": ("",)},
        {"required_clients": ("x",) * (REQUIRED_CLIENT_COUNT_MAX + 1)},
        {"listen": ""},
        {"publish_port": 65536},
    ],
)
def test_an_invalid_configuration_of_a_broker_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        PortalBrokerConfig(**fields)  # type: ignore[arg-type]
