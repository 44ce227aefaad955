"""`skerry replay`: play a recording back to a node or a multicast group."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from skerry.cli.group_options import group_segment_option
from skerry.cli.input import input_lines
from skerry.cli.keys import has_keys, key_presses
from skerry.cli.node_options import NodeChoice, is_node_named, node_options
from skerry.cli.output import Output, current_output, json_option
from skerry.cli.parameters import FiniteFloat
from skerry.cli.progress import status_line
from skerry.cli.record.options import (
    bare_option,
    group_options,
    node_options_of,
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

_KEYS: Final = "space: pause, n: next update, q: quit"


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path())
@selection_options
@click.option(
    "--speed",
    type=FiniteFloat(min=0, min_open=True),
    default=1.0,
    help="Speed as a multiple of the original.",
)
@click.option("--fast", is_flag=True, help="Play as fast as possible, instead of --speed.")
@click.option("--loop", is_flag=True, help="Start again from the beginning at the end.")
@click.option(
    "--step",
    is_flag=True,
    help="Play one update for each line of standard input, or N for a line with a number N.",
)
@bare_option
@click.option(
    "--stay",
    is_flag=True,
    help="Stay connected at the end until Ctrl-C: objects of cleanup types are removed when their"
    " publisher disconnects.",
)
@group_options
@group_segment_option
@node_options
@json_option
def replay(
    *,
    folder: str,
    chosen: dict[str, Any],
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
    """Play a recording back to a node or a multicast group, at the original speed or another.

    The objects that existed at the beginning are published first. Updates keep their original send
    times. Status objects of the node (clients, statistics) are not played. On a terminal, the space
    bar pauses, n plays the next update, and q quits.

    \b
    Examples:
      skerry replay recordings/today
      skerry replay recordings/today --node tcp://127.0.0.1:4000
      skerry replay recordings/today --from 2026-11-15T14:00:00Z --speed 10 --node uds:/run/n.sock
      skerry replay recordings/prices --multicast 239.192.7.2:4711 --fast
    """
    if is_node_named() and group["multicast"] is not None:
        raise click.UsageError("--node and --multicast exclude each other: give one target")
    if (
        fast
        and click.get_current_context().get_parameter_source("speed") != ParameterSource.DEFAULT
    ):
        raise click.UsageError("--fast and --speed exclude each other")
    output = current_output()
    recordings = opened(folder)
    warn_of_absent(output, recordings, chosen)
    from skerry.apps.replayer.program import Replayer
    from skerry.recording.selection import selection_of

    replayer = Replayer(
        recordings,
        _target(choice, group, output, is_looping=loop),
        selection_of(**chosen),
        has_state=not bare,
        speed=None if fast else speed,
        is_looping=loop,
        is_paused=step,
        stays=stay,
        report=output.warning,
    )
    with stop_on_signals() as stop, ExitStack() as stack:
        if step:
            _follow_lines(replayer, stop)
        elif has_keys():
            output.note(_KEYS)
            stack.enter_context(
                key_presses(
                    lambda key: replayer.do_soon(partial(apply_key, key, replayer.pacer, stop))
                )
            )
        show = stack.enter_context(status_line(output, "replay"))
        summary = asyncio.run(
            replayer.run(lambda: stop.is_requested, show=lambda pacer: show(progress_text(pacer)))
        )
    _report(summary, output, as_json=as_json)


def _target(
    choice: NodeChoice, group: dict[str, Any], output: Output, *, is_looping: bool
) -> ReplayTarget:
    if group["multicast"] is not None:
        from skerry.apps.recorder.group_source import GroupOptions
        from skerry.apps.replayer.group_target import GroupTarget

        name = group.pop("multicast")
        return GroupTarget(GroupOptions(group=name, **group), report=output.warning)
    from skerry.apps.replayer.node_target import NodeTarget

    if not is_node_named():
        # It may be the node on which the recording was made.
        output.note(f"playing to {choice.shown_endpoint}")
    return NodeTarget(node_options_of(choice), report=output.note, is_looping=is_looping)


def _report(summary: ReplaySummary, output: Output, *, as_json: bool) -> None:
    if as_json:
        output.json_line(asdict(summary))
        return
    missing = f"; {summary.gaps} gaps" if summary.gaps else ""
    output.line(f"{summary.played:,} updates played{missing}")
    for reason, count in summary.left_out.items():
        output.line(f"{count:,} omitted: {reason}")


# -- manual control


def _follow_lines(replayer: Replayer, stop: Stop) -> None:
    """Step for each line of standard input; its end ends the playback."""

    def read() -> None:
        for line in input_lines(stop):
            text = line.strip()
            count = int(text) if text.isdigit() and len(text) < 10 else 1
            replayer.do_soon(partial(replayer.pacer.step, count))
        replayer.finish()

    threading.Thread(target=read, name="steps", daemon=True).start()


def apply_key(key: str, pacer: Pacer[Any], stop: Stop) -> None:
    """Pause, resume, step or stop, as the key demands; other keys are ignored."""
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


def progress_text(pacer: Pacer[Any]) -> str:
    """State, time and count of a playback as one line."""
    state = "paused" if pacer.is_paused else "playing"
    at = f" at {shown_time(pacer.time_ns)}" if pacer.time_ns is not None else ""
    return f"{state}{at}: {pacer.played_count:,} updates"
