"""`skerry doctor`: is this computer fit for skerry, and what to change."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

import click

from skerry.cli.nodes import NodeChoice, node_options
from skerry.cli.output import Output, current_output, json_option
from skerry.json_values import visible

if TYPE_CHECKING:
    from skerry.apps.doctor.checks import CheckResult

__all__ = ["doctor"]

_COLORS: Final = {"ok": "green", "warn": "yellow", "fail": "red"}
_CONNECT_S_MAX: Final = 3.0


@click.command()
@node_options
@json_option
def doctor(*, choice: NodeChoice, as_json: bool) -> None:
    """Check this computer: build, folders, limits, clock, the node and its ports, multicast.

    Each check is ok, a warning, or a failure, with what to change. It ends with 1 if one failed.
    That no node answers is a failure only if one was named by --node.

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
    patient = CheckedComputer(
        environ=os.environ,
        endpoint=choice.endpoint,
        connect=lambda: choice.connect("skerry-doctor", timeout_s=_CONNECT_S_MAX),
    )
    counts: Counter[str] = Counter()
    for finding in chain(examine(patient), examine_multicast()):
        counts[finding.verdict] += 1
        _show(output, finding, as_json=as_json)
    if not as_json:
        output.note(f"{counts['ok']} ok, {counts['warn']} to look at, {counts['fail']} failed")
    if counts["fail"]:
        click.get_current_context().exit(1)


def _show(output: Output, finding: CheckResult, *, as_json: bool) -> None:
    if as_json:
        output.json_line(
            {
                "check": finding.check,
                "verdict": finding.verdict,
                "facts": finding.facts,
                "advice": finding.advice or None,
            }
        )
        return
    verdict = click.style(f"{finding.verdict:4}", fg=_COLORS[finding.verdict], bold=True)
    line = f"{verdict}  {finding.check:16}  {visible(finding.facts)}"
    click.echo(line, file=sys.stdout, color=output.uses_color(sys.stdout))
    if finding.advice:
        output.line(f"{'':22}  -> {visible(finding.advice)}")
