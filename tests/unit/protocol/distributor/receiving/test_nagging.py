"""The monitor of requests: it fires when it should, and never otherwise."""

from __future__ import annotations

from skerry.protocol.distributor.receiving.nagging import NaggingMonitor

WINDOW = 4
CHECK = 60


def monitor(*, window_ns: int = WINDOW, count_max: int = 200) -> NaggingMonitor:
    return NaggingMonitor(
        window_ns=window_ns, check_ns=CHECK, request_count_max=count_max, now_ns=0
    )


def play(watch: NaggingMonitor, counts: list[int]) -> list[bool]:
    """Requests in one window after another, and whether it fired at the end of each."""
    fired = []
    for index, count in enumerate(counts, 1):
        for _ in range(count):
            watch.requested()
        fired.append(watch.advance(index * WINDOW))
    return fired


def test_it_fires_when_requests_went_on_for_the_check_interval() -> None:
    watch = monitor()
    assert play(watch, [14] * 15) == [False] * 14 + [True]
    assert watch.is_fired
    assert (watch.run_count, watch.run_ns) == (210, CHECK)
    assert watch.due_ns is None


def test_it_fires_at_the_maximum_and_not_one_below() -> None:
    assert not any(play(monitor(), [14] * 14 + [3]))
    assert play(monitor(), [14] * 14 + [4])[-1]


def test_too_few_requests_in_a_run_begin_a_new_one() -> None:
    watch = monitor()
    assert not any(play(watch, [1] * 15))
    assert watch.run_count == 0
    assert watch.run_ns == 0
    # A run that follows is judged by its own requests.
    for index in range(16, 31):
        for _ in range(14):
            watch.requested()
        assert watch.advance(index * WINDOW) == (index == 30)


def test_a_window_without_requests_ends_a_run() -> None:
    assert not any(play(monitor(), [100] * 14 + [0] + [100] * 14))


def test_with_a_maximum_of_zero_every_run_is_too_long() -> None:
    assert play(monitor(count_max=0), [1] * 15)[-1]
    assert not any(play(monitor(count_max=0), [0] * 100))


def test_a_window_of_zero_switches_the_monitor_off() -> None:
    watch = monitor(window_ns=0)
    assert watch.due_ns is None
    for _ in range(10_000):
        watch.requested()
    assert not watch.advance(10**12)


def test_windows_end_on_time_and_missed_ones_are_skipped() -> None:
    watch = monitor()
    assert watch.due_ns == WINDOW
    watch.requested()
    assert not watch.advance(WINDOW - 1)
    assert watch.run_count == 0
    assert not watch.advance(3 * WINDOW)
    assert watch.due_ns == 4 * WINDOW
    # The later windows it slept through had no requests.
    assert watch.run_count == 0


def test_a_sleep_of_many_windows_is_caught_up_at_once() -> None:
    watch = monitor(window_ns=1)
    watch.requested()
    assert not watch.advance(10**15)
    assert watch.due_ns == 10**15 + 1
    assert watch.run_count == 0


def test_it_fires_only_once() -> None:
    watch = monitor(count_max=0)
    play(watch, [1] * 15)
    watch.requested()
    assert not watch.advance(10**9)
