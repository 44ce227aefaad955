"""The meter of published updates: rates and bursts."""

from __future__ import annotations

import dataclasses

import pytest

from skerry.codec.frame import buffer_bytes_max
from skerry.engine.admission.quotas import ClientLimits, PublishMeter, address_limits, address_meter
from skerry.limits import FRAME_BYTES_MAX, PAYLOAD_BYTES_MAX, UPDATE_BYTES_DEFAULT

SECOND = 1_000_000_000
NOW = 5 * SECOND


def meter(**limits: float) -> PublishMeter:
    return PublishMeter(ClientLimits(**limits))  # type: ignore[arg-type]


def test_without_rates_nothing_is_limited() -> None:
    unlimited = meter()
    assert {unlimited.spend(1, 1000, NOW) for _ in range(10_000)} == {None}


def taken_count(meter: PublishMeter, now_ns: int, *, size: int = 0, tries: int = 1000) -> int:
    return sum(meter.spend(1, size, now_ns) is None for _ in range(tries))


def test_updates_are_accepted_in_a_burst_and_then_at_the_rate() -> None:
    limited = meter(updates_per_s_max=10, burst_s=2)
    # A burst is two seconds' worth, and the one that is being worked off.
    assert taken_count(limited, NOW) == 21
    assert limited.spend(1, 0, NOW) == "more than 10 updates a second"
    assert taken_count(limited, NOW + SECOND // 2) == 5
    assert taken_count(limited, NOW + SECOND) == 5
    assert taken_count(limited, NOW + 100 * SECOND) == 21


def test_bytes_are_measured_too() -> None:
    limited = meter(bytes_per_s_max=1000)
    assert taken_count(limited, NOW, size=100) == 11
    assert limited.spend(1, 1, NOW) == "more than 1000 bytes a second"
    assert taken_count(limited, NOW + SECOND, size=100) == 10


def test_the_average_rate_is_limited() -> None:
    limited = meter(updates_per_s_max=50)
    taken = sum(taken_count(limited, NOW + step * SECOND // 100, tries=5) for step in range(1000))
    assert taken == pytest.approx(10 * 50 + 50, abs=2)


def test_one_large_update_is_accepted_and_delays_the_next() -> None:
    limited = meter(bytes_per_s_max=1000)
    assert limited.spend(1, 5000, NOW) is None
    assert limited.spend(1, 1, NOW) is not None
    assert limited.spend(1, 1, NOW + 3 * SECOND) is not None
    assert limited.spend(1, 1, NOW + 4 * SECOND) is None


def test_rejected_updates_do_not_count() -> None:
    limited = meter(updates_per_s_max=1)
    assert taken_count(limited, NOW) == 2
    assert limited.spend(1, 0, NOW + SECOND) is None


def test_several_updates_are_counted_at_once() -> None:
    limited = meter(updates_per_s_max=10)
    assert limited.spend(11, 0, NOW) is None
    assert limited.spend(1, 0, NOW) is not None


def test_update_bytes_max_is_limited() -> None:
    assert ClientLimits().update_bytes_max == UPDATE_BYTES_DEFAULT
    assert ClientLimits(update_bytes_max=PAYLOAD_BYTES_MAX).frame_bytes_max == FRAME_BYTES_MAX
    with pytest.raises(ValueError, match=f"update_bytes_max must be at most {PAYLOAD_BYTES_MAX}"):
        ClientLimits(update_bytes_max=PAYLOAD_BYTES_MAX + 1)


@pytest.mark.parametrize("kind", ["address", "node"])
def test_unfinished_bytes_have_room_for_one_object(kind: str) -> None:
    name = f"unfinished_bytes_per_{kind}_max"
    needed = buffer_bytes_max(ClientLimits(update_bytes_max=100_000).frame_bytes_max)
    assert meter(update_bytes_max=100_000, **{name: needed}) is not None
    with pytest.raises(ValueError, match=f"{name} must have room .* {needed} bytes"):
        meter(update_bytes_max=100_000, **{name: needed - 1})


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(ClientLimits)])
def test_limits_are_positive_and_rates_may_be_zero(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be .*, and is -1"):
        meter(**{name: -1})
    if "_per_s_" in name or name == "backpressure_s_max":
        assert meter(**{name: 0}).spend(1, 1, NOW) is None
    else:
        with pytest.raises(ValueError, match=f"{name} must be more than 0"):
            meter(**{name: 0})


def test_the_default_limits_suffice_for_a_thousand_clients_of_one_computer() -> None:
    limits = ClientLimits()
    assert limits.connection_count_per_address_max >= 1100
    assert limits.connection_count_max > limits.connection_count_per_address_max


def test_new_limits_apply_at_once_and_counted_updates_still_count() -> None:
    shared = address_meter(ClientLimits(updates_per_s_per_address_max=10))
    meters = [PublishMeter(ClientLimits(), address=shared) for _ in range(2)]
    assert taken_count(meters[0], NOW) == 11
    other = ClientLimits(updates_per_s_per_address_max=100, update_bytes_max=1)
    shared.renew(address_limits(other))
    assert meters[1].spend(1, 0, NOW) == "more than 100 updates a second from one address"
    assert taken_count(meters[1], NOW + 10 * SECOND, size=2) == 101, "bytes are not the address's"
    shared.renew(address_limits(ClientLimits()))
    assert taken_count(meters[0], NOW + 10 * SECOND) == 1000, "what was spent does not matter"


def test_counted_bytes_count_as_long_as_bytes_are_limited() -> None:
    shared = address_meter(ClientLimits(bytes_per_s_per_address_max=10))
    assert taken_count(shared, NOW, size=10) == 2
    shared.renew(address_limits(ClientLimits(bytes_per_s_per_address_max=20)))
    assert shared.spend(1, 1, NOW) == "more than 20 bytes a second from one address"
    shared.renew(address_limits(ClientLimits(updates_per_s_per_address_max=10)))
    assert taken_count(shared, NOW, size=10) == 11
