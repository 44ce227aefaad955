"""`skerry record verify`: check a recording for damage and losses."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from skerry.cli.output import Output, current_output, json_option
from skerry.cli.record.options import opened, row_progress, shown_size

if TYPE_CHECKING:
    from skerry.runtime.recordings.verify import VerifyReport


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path())
@click.option("--strict", is_flag=True, help="Exit with 1 if updates are lost or data is damaged.")
@json_option
def verify(*, folder: str, strict: bool, as_json: bool) -> None:
    """Check every byte of a recording, and list gaps, lost rows and damage.

    All commands skip damaged data, so a damaged recording remains usable. Therefore damage and
    updates that the recorder dropped are failures only with --strict.

    \b
    Examples:
      skerry record verify recordings/today
      skerry record verify recordings --strict --json
    """
    output = current_output()
    is_sound = True
    for recording in opened(folder):
        from skerry.runtime.recordings.verify import verify_recording

        with row_progress(output, f"checking {recording.path.name}") as show:
            report = verify_recording(recording, on_progress=show)
        is_sound = is_sound and report.is_sound
        _show(output, str(recording.path), report, as_json=as_json)
    if strict and not is_sound:
        output.error("the recording has losses or damage")
        click.get_current_context().exit(1)


def _show(output: Output, folder: str, report: VerifyReport, *, as_json: bool) -> None:
    if as_json:
        findings = [asdict(finding) for finding in report.findings]
        row = asdict(report) | {"is_sound": report.is_sound, "findings": findings}
        output.json_line({"folder": folder, **row})
        return
    for finding in report.findings:
        output.line(f"{'fault' if finding.is_fault else 'note'}: {finding}")
    if report.finding_count > len(report.findings):
        output.line(f"and {report.finding_count - len(report.findings)} more")
    state = "sound" if report.is_sound else f"{report.fault_count} faults"
    output.line(
        f"{folder}: {state}; {report.row_count:,} rows in {report.batch_count:,} batches,"
        f" {report.segment_count} segments and {shown_size(report.byte_count)} can be read;"
        f" {report.lost_row_count:,} rows are lost"
    )
