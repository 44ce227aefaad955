"""A program for tests: one publisher and some subscribers in a group, each a process.

It tells as a line of JSON what each subscriber got. With `--loss` the kernel drops some of the
datagrams that come to the sockets of all of them, by a filter that asks its random numbers.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import socket
import struct
import threading
from multiprocessing.connection import Connection as Pipe
from typing import Any

from skerry import distributor

_SO_ATTACH_FILTER = 26
_RANDOM = 0xFFFFF000 + 56
"""Where a filter finds a random number: SKF_AD_OFF and SKF_AD_RANDOM of the kernel."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--group", required=True)
    parser.add_argument("--interface", default="127.0.0.1")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--subscribers", type=int, default=1)
    parser.add_argument("--loss", type=float, default=0.0)
    parser.add_argument("--no-trains", action="store_true")
    given = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    try:
        for _ in range(given.subscribers):
            near, far = context.Pipe()
            process = context.Process(target=subscribe, args=(far, vars(given)), daemon=True)
            process.start()
            pipes.append(near)
            processes.append(process)
        for pipe in pipes:
            assert pipe.recv() == "ready"
        statistics, results = publish(vars(given), pipes)
    finally:
        for process in processes:
            process.kill()
            process.join()
    print(json.dumps({"publisher": statistics, "subscribers": results}))


def opened(given: dict[str, Any]) -> distributor.Connection:
    return distributor.open(
        given["group"],
        interface=given["interface"],
        ttl=0,
        trains=not given["no_trains"],
        holdback_delay_ms=2,
        bandwidth_mbit_max=200,
        flow_interval_ms=10,
        socket_buffer_bytes=8_000_000,
        cache_bytes_max=100_000_000,
        request_timeout_ms=100,
        request_retry_count_max=50,
        heartbeat_interval_ms=100,
        delivery_queue_count_max=1_000_000,
        nagging_window_ms=0,
    )


def publish(given: dict[str, Any], pipes: list[Pipe]) -> tuple[dict[str, int], list[Any]]:
    with opened(given) as connection:
        lose(connection, given["loss"])
        publisher = connection.publisher()
        for pipe in pipes:
            # Told once it has heard of the publisher, so that it misses nothing from the first on.
            assert pipe.recv() == "found"
        for number in range(given["count"]):
            publisher.publish(f"/number/{number % 10}", b"%d" % number)
        publisher.flush()
        results = [pipe.recv() if pipe.poll(60) else "no answer" for pipe in pipes]
        counters = connection.statistics().counters
    statistics = {
        "datagrams": counters.sent_datagram_count,
        "resent": counters.resent_datagram_count,
        "requests": counters.requests_received_count,
    }
    return statistics, results


def subscribe(pipe: Pipe, given: dict[str, Any]) -> None:
    expected = 0
    wrong: list[str] = []
    done, found = threading.Event(), threading.Event()
    losses: list[str] = []

    def on_update(subject: str, data: bytes, _tag: object, _waiting: int) -> None:
        nonlocal expected
        if int(data) != expected or subject != f"/number/{expected % 10}":
            wrong.append(f"{subject} {data!r} instead of {expected}")
            done.set()
        expected += 1
        if expected == given["count"]:
            done.set()

    def on_event(event: distributor.Event) -> None:
        if isinstance(event, distributor.SenderFound):
            found.set()
        elif isinstance(event, distributor.UpdatesLost | distributor.UpdatesDropped):
            losses.append(str(event))

    with opened(given) as connection:
        connection.subscriber(on_update, on_event).add("/number/*")
        # Not before: subscribing takes away a filter of the connection's own.
        lose(connection, given["loss"])
        pipe.send("ready")
        found.wait(30)
        pipe.send("found")
        done.wait(50)
        statistics = connection.statistics()
        pipe.send(
            {
                "count": expected,
                "wrong": wrong[:3],
                "losses": losses[:3],
                "requests": statistics.counters.requests_sent_count,
                "dropped": statistics.kernel_drop_count,
                "senders": [sender.address for sender in connection.senders()],
            }
        )
        # The others may still need what this one, too, has to hear of; the publisher ends us.
        pipe.poll(60)


def lose(connection: distributor.Connection, share: float) -> None:
    """Let the kernel drop this share of the received datagrams."""
    if not share:
        return
    steps = [
        (0x20, 0, 0, _RANDOM),  # load a random number
        (0x25, 0, 1, int(share * 0xFFFFFFFF)),  # if it is greater than this, go on
        (0x06, 0, 0, 0xFFFFFFFF),  # take all of it
        (0x06, 0, 0, 0),  # take nothing
    ]
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *s) for s in steps))
    pointer = struct.pack("@HP", len(steps), ctypes.addressof(program))
    made = connection._session.driver.socket._made
    made.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, pointer)


if __name__ == "__main__":
    main()
