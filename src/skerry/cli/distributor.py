"""`skerry distributor`: multicast from the shell, without a node."""

from __future__ import annotations

import queue
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from skerry.cli.groups import group_key_option, group_reach_options, group_segment_option
from skerry.cli.input import input_contents
from skerry.cli.output import Output, current_output, json_option
from skerry.cli.parameters import (
    CheckedText,
    FiniteFloat,
    check_group,
    check_pattern,
    check_subject,
)
from skerry.cli.stopping import Stop, stop_on_signals
from skerry.json_values import visible

if TYPE_CHECKING:
    from skerry.protocol.machine import MachineEvent

__all__ = ["distributor"]

_Batch = list[tuple[str, bytes]]

_WAIT_S: Final = 0.1
"""How soon a request to stop is seen while nothing happens."""
_BATCH_COUNT_MAX: Final = 100
"""Batches on their way to the output; behind them the queue of the subscriber fills."""
_BUFFER_BYTES: Final = 8 * 1024 * 1024
_QUIET: Final = ("SenderFound", "SenderRemoved", "ConnectionClosed")


@click.group()
def distributor() -> None:
    """Publish and follow updates by IP multicast, without a node.

    GROUP is an address and a port, 239.192.7.1:4711 or [ff15::7:1]:4711. All who use the same are
    in one group. Programs that use the Java distributor can be in it, too.
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
    help="Publish under this subject.",
)
@click.option(
    "--data",
    metavar="D",
    help="Text, @FILE, hex:DIGITS, or - for the whole standard input. If not given, each line of"
    " the standard input is an update.",
)
@click.option("--name", default="skerry", show_default=True, help="What to be called in the group.")
@click.option(
    "--mbit",
    type=FiniteFloat(min=0),
    default=0.0,
    help="Send no more than so many Mbit/s, what is sent again included; 0 for no limit.",
)
@group_segment_option
@click.option(
    "--json", "as_json", is_flag=True, help="In the end, one JSON object with how much was sent."
)
def pub(
    *,
    group: str,
    interface: str,
    ttl: int,
    dialect: str,
    key_file: str,
    subject: str,
    data: str | None,
    name: str,
    mbit: float,
    segment_bytes: int,
    as_json: bool,
) -> None:
    """Publish one update, or each line of the standard input.

    Subscribers in the group receive it; nothing is kept for later. The command ends 0.8 seconds
    after the last update, and later while subscribers ask for updates they lost.

    \b
    Examples:
      skerry distributor pub 239.192.7.1:4711 --subject /prices/ERIC-B --data 92.14
      producer | skerry distributor pub 239.192.7.1:4711 --subject /log --interface eth0
      skerry distributor pub 239.192.7.1:4711 --subject /map --data @harbour.png --mbit 10
    """
    from skerry import distributor as api

    connection = api.open(
        group,
        interface=interface,
        ttl=ttl,
        dialect=api.Dialect(dialect),
        key_file=key_file,
        application=name,
        bandwidth_mbit_max=mbit,
        segment_bytes=segment_bytes,
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
        output.json_line({"subject": subject, "published": count})


@distributor.command()
@click.argument("group", metavar="GROUP", type=CheckedText(check_group))
@group_reach_options
@group_key_option
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...", type=CheckedText(check_pattern))
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after so many.")
@click.option("--statistics", is_flag=True, help="At the end, one line of JSON with all counters.")
@json_option
def sub(
    *,
    group: str,
    interface: str,
    ttl: int,
    dialect: str,
    key_file: str,
    patterns: tuple[str, ...],
    count: int | None,
    statistics: bool,
    as_json: bool,
) -> None:
    """Follow what is published in a group, until Ctrl-C.

    In a pattern, * stands for one level and ... at its end for all below; without one it is /...,
    which is all. An update that several patterns select is shown once. What happens in the group
    (senders that come and go, updates that were lost) is told on stderr.

    With --json each line has subject and data, or hex where the data is no text; lines with _event
    tell what happens in the group.

    \b
    Examples:
      skerry distributor sub 239.192.7.1:4711
      skerry distributor sub 239.192.7.1:4711 '/prices/*' /alarms/... --json
      skerry distributor sub 239.192.7.1:4711 --interface 127.0.0.1 --count 10
      skerry distributor sub 239.192.7.1:4711 --key-file keys.toml
    """
    from skerry import distributor as api

    output = current_output()
    arrived: queue.Queue[_Batch | MachineEvent] = queue.Queue(_BATCH_COUNT_MAX)
    connection = api.open(
        group,
        interface=interface,
        ttl=ttl,
        dialect=api.Dialect(dialect),
        key_file=key_file,
        socket_buffer_bytes=_BUFFER_BYTES,
    )
    with stop_on_signals() as stop, connection:
        subscriber = connection.subscriber(on_event=arrived.put, on_batch=arrived.put)
        try:
            for pattern in patterns or ("/...",):
                subscriber.add(pattern)
            _show_all(arrived, stop, output, count=count, as_json=as_json)
            if statistics:
                output.line(connection.statistics().to_json())
        finally:
            # The thread that calls back may wait for room, and is waited for at the end.
            arrived.maxsize = 0
            _empty(arrived)


@distributor.command()
@click.option(
    "--group",
    type=CheckedText(check_group),
    default="239.255.77.9:4711",
    show_default=True,
    metavar="TEXT",
    help="A group nobody else uses.",
)
@click.option("--interface", default="127.0.0.1", show_default=True, help="Network interface.")
@click.option(
    "--seconds",
    type=FiniteFloat(min=0.05, max=3600),
    default=1.0,
    show_default=True,
    help="How long.",
)
@click.option(
    "--size", type=click.IntRange(0, 60_000), default=56, show_default=True, help="Bytes an update."
)
@click.option(
    "--subscribers", type=click.IntRange(1, 64), default=1, show_default=True, help="How many."
)
@click.option("--holdback-ms", type=click.IntRange(0, 1000), default=10, show_default=True)
@click.option("--loss", type=click.IntRange(0, 500), default=0, help="Lose so many of a thousand.")
@click.option("--batches", is_flag=True, help="Call back with lists, and not for each update.")
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
    """Measure how fast this computer is: one publisher, some subscribers, each a process.

    The figure to compare is the processor time for an update; the rate depends on what else the
    computer does. --loss loses datagrams on purpose and shows what repairing them costs. Ctrl-C
    ends it sooner, with what was measured until then.

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
            ("updates delivered a second", f"{result.rate:,.0f}"),
            ("published", f"{result.sent_count:,}"),
            ("delivered to all", f"{result.received_count:,}"),
            ("publisher, us CPU an update", f"{result.publisher_cpu_us:.3f}"),
            ("subscriber, us CPU an update", f"{result.subscriber_cpu_us:.3f}"),
            ("datagrams", f"{result.datagram_count:,}"),
            ("requests for lost ones", f"{result.request_count:,}"),
            ("datagrams sent again", f"{result.resent_count:,}"),
            ("dropped by the kernel", f"{result.kernel_drop_count:,}"),
        ],
    )


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
        output.json_line({"_event": name, **asdict(event)})
    elif name in _QUIET:
        output.note(visible(str(event)))
    else:
        output.warning(visible(str(event)))


def _empty(arrived: queue.Queue[_Batch | MachineEvent]) -> None:
    try:
        while True:
            arrived.get_nowait()
    except queue.Empty:
        pass
