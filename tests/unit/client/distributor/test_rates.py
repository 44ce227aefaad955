"""Rates over a second, a minute and five minutes."""

from __future__ import annotations

from skerry.client.distributor.report import INTERVAL_NS, WINDOWS_S, RateMeter


def test_a_steady_stream_has_one_rate() -> None:
    meter = RateMeter(0)
    for second in range(1, 400):
        meter.note(10 * second, second * INTERVAL_NS, second)
    rates = meter.rates(3990)
    assert rates.total == 3990
    assert rates.per_s == (10.0, 10.0, 10.0)
    assert rates.peak_per_s == (10.0, 10.0, 10.0)
    assert rates.peak_wall_ns == (1, 1, 1)


def test_a_burst_is_seen_for_as_long_as_the_window_is() -> None:
    meter = RateMeter(0)
    total = 0
    for second in range(1, WINDOWS_S[2] + 20):
        total += 600 if second == 10 else 0
        meter.note(total, second * INTERVAL_NS, second)
        rates = meter.rates(total)
        if second == 10:
            assert rates.per_s == (600.0, 60.0, 60.0)
        if second == 69:
            assert rates.per_s == (0.0, 10.0, 600 / 69)
        if second == 70:
            assert rates.per_s[:2] == (0.0, 0.0)
    assert rates.per_s == (0.0, 0.0, 0.0)
    assert rates.peak_per_s == (600.0, 60.0, 60.0)
    assert rates.peak_wall_ns == (10, 10, 10)


def test_nothing_is_known_before_the_first_note() -> None:
    assert RateMeter(5).rates(7).per_s == (0.0, 0.0, 0.0)


def test_two_notes_at_once_do_no_harm() -> None:
    meter = RateMeter(5)
    meter.note(1, 5, 0)
    assert meter.rates(1).per_s[0] > 0
