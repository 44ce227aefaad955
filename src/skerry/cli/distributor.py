"""`skerry distributor`: publish and subscribe by multicast, without a node."""

from __future__ import annotations

import queue
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from skerry.cli.group_options import group_key_option, group_reach_options, group_segment_option
from skerry.cli.input import input_contents
from skerry.cli.output import Output, current_output, json_option, json_option_of
from skerry.cli.parameters import CheckedText, FiniteFloat, check_group, count_option
from skerry.cli.stopping import Stop, stop_on_signals
from skerry.json_values import visible
from skerry.protocol.patterns import check_pattern, check_subject

if TYPE_CHECKING:
    from skerry.client.distributor.sync import BlockingGroupConnection
    from skerry.protocol.machine import MachineEvent

_Batch = list[tuple[str, bytes]]

_WAIT_S: Final = 0.1
"""Interval at which a stop request is polled while no update arrives."""
_BATCH_COUNT_MAX: Final = 100
"""Batches that wait to be printed; after that, the queue of the subscriber fills."""
_BUFFER_BYTES: Final = 8 * 1024 * 1024
_QUIET: Final = ("SenderFound", "SenderRemoved", "ConnectionClosed")


@click.group()
def distributor() -> None:
    """Publish and subscribe by IP multicast, without a node.

    GROUP is an address and a port, such as 239.192.7.1:4711 or [ff15::7:1]:4711. Programs that use
    the Java distributor can be members of the same group.
    """


@distributor.command()
@click.argument("group", metavar="GROUP", type=CheckedText(check_group))
@group_reach_options
@group_key_option
@click.option(
    "--subject",
    required=True,
    metavar="S",
    type=CheckedText(check_subject),
    help="Subject to publish under.",
)
@click.option(
    "--data",
    metavar="D",
    help="Bytes to publish: text, @FILE, hex:DIGITS, or - for the whole standard input. Default:"
    " each line of standard input is an update.",
)
@click.option(
    "--name",
    default="skerry",
    help="Name of the publisher, which other members of the group receive.",
)
@click.option(
    "--mbit",
    type=FiniteFloat(min=0),
    default=0.0,
    help="Bandwidth limit in Mbit/s, repairs included; 0 is no limit.",
)
@group_segment_option
@json_option_of("Print one JSON object at the end with the number of updates sent.")
def pub(
    *,
    group: str,
    subject: str,
    data: str | None,
    name: str,
    mbit: float,
    segment_bytes: int,
    as_json: bool,
    **reach: Any,
) -> None:
    """Publish one update, or each line of standard input.

    Current subscribers of the group receive the updates; nothing is stored for later ones. The
    command ends 0.8 seconds after the last update, or later while subscribers request repairs.

    \b
    Examples:
      skerry distributor pub 239.192.7.1:4711 --subject /prices/ERIC-B --data 92.14
      producer | skerry distributor pub 239.192.7.1:4711 --subject /log --interface eth0
      skerry distributor pub 239.192.7.1:4711 --subject /map --data @harbour.png --mbit 10
    """
    connection = _open(
        group, reach, application=name, bandwidth_mbit_max=mbit, segment_bytes=segment_bytes
    )
    output = current_output()

    def on_event(event: MachineEvent) -> None:
        if type(event).__name__ not in _QUIET:
            output.warning(visible(str(event)))

    with stop_on_signals() as stop, connection:
        publisher = connection.publisher(on_event)
        count = 0
        for content in input_contents(data, stop):
            publisher.publish(subject, content)
            count += 1
    if as_json:
        output.json_line(subject=subject, published=count)


@distributor.command()
@click.argument("group", metavar="GROUP", type=CheckedText(check_group))
@group_reach_options
@group_key_option
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...", type=CheckedText(check_pattern))
@count_option("updates")
@click.option("--statistics", is_flag=True, help="Print all counters at the end, as a JSON line.")
@json_option
def sub(
    *,
    group: str,
    patterns: tuple[str, ...],
    count: int | None,
    statistics: bool,
    as_json: bool,
    **reach: Any,
) -> None:
    """Subscribe to patterns in a group, and print updates until Ctrl-C.

    In a PATTERN, * matches one level and ... matches all remaining levels. Default: /..., which
    matches all subjects. An update that matches several patterns is printed once. Events of the
    group (senders that join or leave, updates that were lost) are printed on stderr.

    With --json, each line has subject and data, or hex if the data is not text. Lines with _event
    are events of the group.

    \b
    Examples:
      skerry distributor sub 239.192.7.1:4711
      skerry distributor sub 239.192.7.1:4711 '/prices/*' /alarms/... --json
      skerry distributor sub 239.192.7.1:4711 --interface 127.0.0.1 --count 10
      skerry distributor sub 239.192.7.1:4711 --key-file keys.toml
    """
    output = current_output()
    arrived: queue.Queue[_Batch | MachineEvent] = queue.Queue(_BATCH_COUNT_MAX)
    connection = _open(group, reach, socket_buffer_bytes=_BUFFER_BYTES)
    with stop_on_signals() as stop, connection:
        subscriber = connection.subscriber(on_event=arrived.put, on_batch=arrived.put)
        try:
            for pattern in patterns or ("/...",):
                subscriber.add(pattern)
            _show_all(arrived, stop, output, count=count, as_json=as_json)
            if statistics:
                output.line(connection.statistics().to_json())
        finally:
            # The callback thread may be blocked by the full queue, and closing waits for it.
            arrived.maxsize = 0
            with suppress(queue.Empty):
                while True:
                    arrived.get_nowait()


@distributor.command()
@click.option(
    "--group",
    type=CheckedText(check_group),
    default="239.255.77.9:4711",
    metavar="TEXT",
    help="Multicast group for the benchmark; no other program may use it.",
)
@click.option(
    "--interface",
    default="127.0.0.1",
    help="Network interface of the group, by name or address.",
)
@click.option(
    "--seconds",
    type=FiniteFloat(min=0.05, max=3600),
    default=1.0,
    help="Duration in seconds.",
)
@click.option(
    "--size",
    type=click.IntRange(0, 60_000),
    default=56,
    help="Size of an update in bytes.",
)
@click.option(
    "--subscribers",
    type=click.IntRange(1, 64),
    default=1,
    help="Number of subscribers.",
)
@click.option(
    "--holdback-ms",
    type=click.IntRange(0, 1000),
    default=10,
    help="Milliseconds for which updates may be held back to fill a datagram.",
)
@click.option(
    "--loss",
    type=click.IntRange(0, 500),
    default=0,
    help="Datagrams in a thousand that each subscriber drops on purpose.",
)
@click.option(
    "--batches", is_flag=True, help="Call subscribers with lists of updates instead of each one."
)
@json_option
def bench(
    *,
    group: str,
    interface: str,
    seconds: float,
    size: int,
    subscribers: int,
    holdback_ms: int,
    loss: int,
    batches: bool,
    as_json: bool,
) -> None:
    """Measure the distributor on this computer: one publisher and subscribers, each a process.

    Compare the CPU time per update; the rate also depends on other programs of the computer.
    --loss shows the cost of repairs. Ctrl-C ends the measurement early and prints the results so
    far.

    \b
    Examples:
      skerry distributor bench
      skerry distributor bench --size 1000 --subscribers 4 --json
      skerry distributor bench --loss 50
    """
    from skerry.apps.distributor_bench import BenchPlan, run_bench
    from skerry.client.distributor.config import Config

    config = Config(
        interface=interface,
        application="bench",
        socket_buffer_bytes=_BUFFER_BYTES,
        holdback_delay_ms=holdback_ms,
        fake_receive_loss_permille=loss,
        request_timeout_ms=200,
        cache_bytes_max=256 * 1024 * 1024,
        nagging_window_ms=0,
        delivery="inline",
    )
    plan = BenchPlan(
        group=group,
        config=config,
        seconds=seconds,
        size=size,
        subscriber_count=subscribers,
        in_batches=batches,
    )
    with stop_on_signals() as stop:
        result = run_bench(plan, lambda: stop.is_requested)
    row = {"rate": round(result.rate), **asdict(result)}
    output = current_output()
    if as_json:
        output.json_line(row)
        return
    output.table(
        ("", "value"),
        [
            ("updates delivered per second", f"{result.rate:,.0f}"),
            ("published", f"{result.sent_count:,}"),
            ("delivered to all subscribers", f"{result.received_count:,}"),
            ("publisher, us CPU per update", f"{result.publisher_cpu_us:.3f}"),
            ("subscriber, us CPU per update", f"{result.subscriber_cpu_us:.3f}"),
            ("datagrams", f"{result.datagram_count:,}"),
            ("repair requests", f"{result.request_count:,}"),
            ("datagrams retransmitted", f"{result.resent_count:,}"),
            ("dropped by the kernel", f"{result.kernel_drop_count:,}"),
        ],
    )


def _open(group: str, reach: Mapping[str, Any], **fields: Any) -> BlockingGroupConnection:
    from skerry import distributor

    dialect = distributor.Dialect(reach["dialect"])
    return distributor.open(group, **{**reach, **fields, "dialect": dialect})


def _show_all(
    arrived: queue.Queue[_Batch | MachineEvent],
    stop: Stop,
    output: Output,
    *,
    count: int | None,
    as_json: bool,
) -> None:
    left = count
    while not stop.is_requested and left != 0:
        try:
            item = arrived.get(timeout=_WAIT_S)
        except queue.Empty:
            continue
        if not isinstance(item, list):
            _show_event(item, output, as_json=as_json)
            continue
        shown = item if left is None else item[:left]
        for subject, data in shown:
            _show_update(subject, data, output, as_json=as_json)
        if left is not None:
            left -= len(shown)


def _show_update(subject: str, data: bytes, output: Output, *, as_json: bool) -> None:
    try:
        text: str | None = data.decode()
    except UnicodeDecodeError:
        text = None
    if as_json:
        output.json_line(
            {"subject": subject, **({"hex": data.hex()} if text is None else {"data": text})}
        )
    else:
        output.line(f"{visible(subject)} {visible(data.hex() if text is None else text)}")


def _show_event(event: MachineEvent, output: Output, *, as_json: bool) -> None:
    name = type(event).__name__
    if as_json:
        output.json_line(_event=name, **asdict(event))
    elif name in _QUIET:
        output.note(visible(str(event)))
    else:
        output.warning(visible(str(event)))
