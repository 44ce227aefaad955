"""`skerry replay`: play a recording back, to a node or a multicast group."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from skerry.cli.groups import group_segment_option
from skerry.cli.input import input_lines
from skerry.cli.nodes import NodeChoice, node_options
from skerry.cli.output import Output, current_output, json_option
from skerry.cli.parameters import FiniteFloat
from skerry.cli.record.options import (
    group_options,
    node_wishes,
    opened,
    selection_options,
    shown_time,
    warn_of_absent,
)
from skerry.cli.stopping import Stop, stop_on_signals

if TYPE_CHECKING:
    from skerry.apps.replayer.pacing import Pacer
    from skerry.apps.replayer.program import Replayer, ReplaySummary
    from skerry.apps.replayer.targets import ReplayTarget

__all__ = ["line_of", "obey", "replay"]

_KEYS: Final = "space pauses, n plays the next update, q ends"


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path())
@selection_options
@click.option(
    "--speed",
    type=FiniteFloat(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="How many times as fast as it was.",
)
@click.option("--fast", is_flag=True, help="As fast as possible.")
@click.option("--loop", is_flag=True, help="Begin anew at the end.")
@click.option(
    "--step",
    is_flag=True,
    help="One update for each line of the standard input, or as many as the line says.",
)
@click.option("--bare", is_flag=True, help="With --from: leave out what was there at that moment.")
@click.option(
    "--stay",
    is_flag=True,
    help="At the end stay until Ctrl-C: objects of cleanup types go with who published them.",
)
@group_options
@group_segment_option
@node_options
@json_option
def replay(
    *,
    folder: str,
    from_ns: int | None,
    to_ns: int | None,
    types: tuple[str, ...],
    subjects: tuple[str, ...],
    speed: float,
    fast: bool,
    loop: bool,
    step: bool,
    bare: bool,
    stay: bool,
    choice: NodeChoice,
    as_json: bool,
    **group: Any,
) -> None:
    """Play a recording back to a node or a multicast group, as it was or faster.

    What was there at the beginning comes first. Updates keep the times at which they were sent.
    What the node itself says (clients, statistics) is not played. On a terminal the space bar
    pauses, n plays one update more, and q ends.

    \b
    Examples:
      skerry replay recordings/today --node tcp://127.0.0.1:4000
      skerry replay recordings/today --from 2026-11-15T14:00:00Z --speed 10 --node uds:/run/n.sock
      skerry replay recordings/prices --multicast 239.192.7.2:4711 --fast
    """
    if (choice.endpoint is None) == (group["multicast"] is None):
        raise click.UsageError("say where to: with --node URI, or with --multicast GROUP")
    if (
        fast
        and click.get_current_context().get_parameter_source("speed") != ParameterSource.DEFAULT
    ):
        raise click.UsageError("--fast is as fast as possible; leave out --speed, or --fast")
    output = current_output()
    recordings = opened(folder)
    warn_of_absent(output, recordings, types)
    from skerry.apps.replayer.program import Replayer
    from skerry.apps.replayer.row_reader import ReplayWishes

    wishes = ReplayWishes(
        from_ns=from_ns, to_ns=to_ns, types=types, subjects=subjects, has_state=not bare
    )
    replayer = Replayer(
        recordings,
        _target(choice, group, output, is_looping=loop),
        wishes,
        speed=None if fast else speed,
        is_looping=loop,
        is_paused=step,
        stays=stay,
        tell=output.warning,
    )
    with stop_on_signals() as stop, ExitStack() as stack:
        if step:
            _follow_lines(replayer, stop)
        elif sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty():
            output.note(_KEYS)
            stack.enter_context(_keys(replayer, stop))
        show = stack.enter_context(_live_line(output))
        summary = asyncio.run(replayer.run(lambda: stop.is_requested, show=show))
    _report(summary, output, as_json=as_json)


def _target(
    choice: NodeChoice, group: dict[str, Any], output: Output, *, is_looping: bool
) -> ReplayTarget:
    if choice.endpoint is None:
        from skerry.apps.recorder.group_source import GroupWishes
        from skerry.apps.replayer.group_target import GroupTarget

        name = group.pop("multicast")
        return GroupTarget(GroupWishes(group=name, **group), tell=output.warning)
    from skerry.apps.replayer.node_target import NodeTarget

    return NodeTarget(node_wishes(choice), tell=output.note, is_looping=is_looping)


def _report(summary: ReplaySummary, output: Output, *, as_json: bool) -> None:
    if as_json:
        output.json_line(asdict(summary))
        return
    missing = f"; {summary.gaps} gaps" if summary.gaps else ""
    output.line(f"{summary.played:,} updates were played{missing}")
    for reason, count in summary.left_out.items():
        output.line(f"{count:,} were left out: {reason}")


# -- by hand


def _follow_lines(replayer: Replayer, stop: Stop) -> None:
    """Steps as the standard input says; its end is the end."""

    def read() -> None:
        for line in input_lines(stop):
            word = line.strip()
            count = int(word) if word.isdigit() and len(word) < 10 else 1
            replayer.do_soon(partial(replayer.pacer.step, count))
        replayer.finish()

    threading.Thread(target=read, name="steps", daemon=True).start()


@contextmanager
def _keys(replayer: Replayer, stop: Stop) -> Iterator[None]:
    """Inside, keys of the terminal are obeyed at once."""
    import termios
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)

    def read() -> None:
        while key := sys.stdin.read(1):
            replayer.do_soon(partial(obey, key, replayer.pacer, stop))

    tty.setcbreak(number)
    threading.Thread(target=read, name="keys", daemon=True).start()
    try:
        yield
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def obey(key: str, pacer: Pacer, stop: Stop) -> None:
    """What a key means."""
    from skerry.runtime.clock import monotonic_ns

    if key == " ":
        if pacer.is_paused:
            pacer.resume(monotonic_ns())
        else:
            pacer.pause(monotonic_ns())
    elif key == "n":
        pacer.pause(monotonic_ns())
        pacer.step()
    elif key == "q" and not stop.is_requested:
        stop.request()


@contextmanager
def _live_line(output: Output) -> Iterator[Callable[[Pacer], None]]:
    """On a terminal, a line that tells how far it is."""
    if not (output.config.progress and sys.stderr.isatty()):
        yield lambda _pacer: None
        return
    with output.console(sys.stderr).status("replay") as status:
        yield lambda pacer: status.update(line_of(pacer))


def line_of(pacer: Pacer) -> str:
    """How far a replay is, in a line."""
    state = "paused" if pacer.is_paused else "playing"
    at = f" at {shown_time(pacer.time_ns)}" if pacer.time_ns is not None else ""
    return f"{state}{at}: {pacer.played_count:,} updates"
