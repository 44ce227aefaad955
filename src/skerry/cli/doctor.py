"""`skerry doctor`: check this computer, and advise what to change."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

import click

from skerry.cli.node_options import NodeChoice, node_options
from skerry.cli.output import Output, current_output, json_option
from skerry.formatting import counted
from skerry.json_values import visible

if TYPE_CHECKING:
    from skerry.apps.doctor.results import CheckResult

_COLORS: Final = {"ok": "green", "warn": "yellow", "fail": "red"}
_CONNECT_S_MAX: Final = 3.0


@click.command()
@node_options
@json_option
def doctor(*, choice: NodeChoice, as_json: bool) -> None:
    """Check this computer and its node: folders, limits, clock, ports, multicast and system.

    If the node belongs to a system, it asks each other node: does it answer, do datagrams of the
    configured size pass in one piece, how much do the clocks differ, and is a link one-way?

    Each check ends with ok, a warning or a failure, and with advice what to change. The exit code
    is 1 if a check failed. A node that does not answer is a failure only if --node names it.

    \b
    Examples:
      skerry doctor
      skerry doctor --node tcp://bridge.example:11235
      skerry doctor --json
    """
    import os
    from itertools import chain

    from skerry.apps.doctor.checks import CheckedComputer, examine
    from skerry.apps.doctor.multicast_checks import examine_multicast

    output = current_output()
    computer = CheckedComputer(
        environ=os.environ,
        endpoint=choice.endpoint,
        connect=lambda: choice.connect("skerry-doctor", timeout_s=_CONNECT_S_MAX),
    )
    counts: Counter[str] = Counter()
    for result in chain(examine(computer), examine_multicast()):
        counts[result.verdict] += 1
        _show(output, result, as_json=as_json)
    if not as_json:
        warnings = counted(counts["warn"], "warning")
        output.note(f"{counts['ok']} ok, {warnings}, {counts['fail']} failed")
    if counts["fail"]:
        click.get_current_context().exit(1)


def _show(output: Output, result: CheckResult, *, as_json: bool) -> None:
    if as_json:
        output.json_line(
            check=result.check,
            verdict=result.verdict,
            facts=result.facts,
            advice=result.advice or None,
        )
        return
    verdict = click.style(f"{result.verdict:4}", fg=_COLORS[result.verdict], bold=True)
    line = f"{verdict}  {result.check:18}  {visible(result.facts)}"
    click.echo(line, file=sys.stdout, color=output.uses_color(sys.stdout))
    if result.advice:
        output.line(f"{'':24}  -> {visible(result.advice)}")
