"""`skerry record info` and `verify`: summarize a recording, and check it for damage and losses."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from skerry.cli.output import Output, current_output, json_option
from skerry.cli.record.options import opened, row_progress, shown_size, shown_time

if TYPE_CHECKING:
    from skerry.runtime.recordings.info import RecordingInfo
    from skerry.runtime.recordings.verify import VerifyReport

_SHOWN_COUNT: Final = 20
"""Number of gaps and repairs that are printed; --json has more."""


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path())
@json_option
def info(*, folder: str, as_json: bool) -> None:
    """Summarize a recording: size, types, time range and gaps.

    DIR is a recording, a folder of recordings, or a remote path such as s3a://bucket/recordings. A
    recorder may still be writing to it.

    \b
    Examples:
      skerry record info recordings/today
      skerry record info recordings --json
    """
    output = current_output()
    for recording in opened(folder):
        from skerry.runtime.recordings.info import inspect_recording

        with row_progress(output, f"reading {recording.path.name}") as show:
            found = inspect_recording(recording, on_progress=show)
        if not recording.has_manifest:
            output.warning(f"{recording.path} has no manifest, so it cannot be read")
        if as_json:
            output.json_line(folder=str(recording.path), **_plain(found))
        else:
            _show(output, str(recording.path), found)


def _plain(found: RecordingInfo) -> dict[str, Any]:
    row = asdict(found)
    row["time_min"], row["time_max"] = shown_time(found.time_min_ns), shown_time(found.time_max_ns)
    return row


def _show(output: Output, folder: str, found: RecordingInfo) -> None:
    state = ", being written" if found.is_being_written else ""
    rows: list[tuple[str, object]] = [
        ("folder", folder),
        ("recording", f"{found.id} of the space {found.space}{state}"),
        ("from", shown_time(found.time_min_ns)),
        ("to", shown_time(found.time_max_ns)),
        ("rows", f"{found.row_count:,} in {found.batch_count:,} batches"),
        ("size", f"{shown_size(found.byte_count)} in {found.segment_count} segments"),
        ("senders", found.sender_count),
        ("gaps", found.gap_count),
    ]
    rows += [("", _gap_text(asdict(gap))) for gap in found.gaps[:_SHOWN_COUNT]]
    if found.gap_count > _SHOWN_COUNT:
        rows.append(("", f"and {found.gap_count - _SHOWN_COUNT:,} more"))
    rows += [
        ("dropped", f"{count:,} segments by their {why}") for why, count in found.dropped.items()
    ]
    rows += [
        ("repaired", f"{repair.name}: {repair.lost_bytes} bytes truncated")
        for repair in found.repairs[-_SHOWN_COUNT:]
    ]
    output.table(("", "value"), rows)
    types = [
        (name or "(gaps)", f"{count:,}", len(found.fingerprints.get(name, ())))
        for name, count in found.types.items()
    ]
    output.table(("type", "rows", "definitions"), types)


def _gap_text(gap: dict[str, Any]) -> str:
    count = f"{gap['count']:,}" if gap["count"] else "an unknown number of"
    return f"{count} updates missing at {shown_time(gap['first_ns'])}: {gap['reason']}"


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
        _show_report(output, str(recording.path), report, as_json=as_json)
    if strict and not is_sound:
        output.error("the recording has losses or damage")
        click.get_current_context().exit(1)


def _show_report(output: Output, folder: str, report: VerifyReport, *, as_json: bool) -> None:
    if as_json:
        findings = [asdict(finding) for finding in report.findings]
        row = asdict(report) | {"is_sound": report.is_sound, "findings": findings}
        output.json_line(folder=folder, **row)
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
