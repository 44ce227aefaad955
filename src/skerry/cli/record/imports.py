"""`skerry record import`: make a recording of a Goby log or a record of DOTS programs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skerry.cli.output import current_output, json_option
from skerry.cli.record.options import opened, row_progress

if TYPE_CHECKING:
    from skerry.protocol.portal.mapping.rules import PortalRule
    from skerry.runtime.recordings.imports import Imported


class _Key(click.ParamType[tuple[str, tuple[str, ...]]]):
    """MESSAGE=FIELD,FIELD"""

    name = "key"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[str, ...]]:
        message, _, fields = str(value).partition("=")
        key = tuple(filter(None, fields.split(",")))
        if not message or not key or "*" in message or "/" in message:
            self.fail(f"{value!r} is not MESSAGE=FIELD, such as nav.Report=name", param, ctx)
        return message, key


@click.command("import")
@click.argument("log", metavar="LOG", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--to",
    "target",
    type=click.Path(),
    metavar="DIR",
    required=True,
    help="Folder of the new recording, or a remote path such as s3a://bucket/auv.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["goby", "dots"]),
    help="Format of LOG. Default: by its suffix, .goby or .rec.",
)
@click.option(
    "--descriptors",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Descriptor set with messages that a Goby log does not describe; may be repeated.",
)
@click.option("--space", metavar="NAME", default="local", help="Space of rows.")
@click.option(
    "--key",
    "keys",
    multiple=True,
    type=_Key(),
    metavar="MESSAGE=FIELD",
    help="Key of the objects of a message, of one field or several with commas, such as"
    " nav.Report=name; may be repeated. Objects with a key have a state at any time; others are"
    " single messages.",
)
@click.option(
    "--rules",
    "has_rules",
    is_flag=True,
    help="Map a Goby log by the rules in section `portal.mapping` of the configuration. Default:"
    " messages become objects, everything else bytes.",
)
@json_option
def import_(
    *,
    log: Path,
    target: str,
    form: str | None,
    descriptors: tuple[Path, ...],
    keys: tuple[tuple[str, tuple[str, ...]], ...],
    space: str,
    has_rules: bool,
    as_json: bool,
) -> None:
    """Make a recording of a Goby log (.goby), or of a record of DOTS programs (.dots.rec).

    All commands for recordings then work, and the pipeline makes tables of it. Messages of Protocol
    Buffers become objects by the descriptors in the log. Damage becomes a gap.

    \b
    Examples:
      skerry record import auv.goby --to recordings/auv
      skerry record import auv.goby --to recordings/auv --key nav.Report=name
      skerry record import old.dots.rec --to recordings/old
    """
    output = current_output()
    opened()  # raises the error of a missing package
    kind = form or {".goby": "goby", ".rec": "dots"}.get(log.suffix)
    if kind is None:
        raise click.UsageError(f"the format of {log.name} is unknown: give --format goby or dots")
    if kind == "dots" and (descriptors or keys or has_rules):
        raise click.UsageError("--descriptors, --key and --rules are for Goby logs")
    from skerry.runtime.goby_logs import GobyLogFile
    from skerry.runtime.recordings.files.remote_paths import resolve_path
    from skerry.runtime.recordings.imports import import_dots_record, import_goby_log

    with row_progress(output, "importing") as show:
        common: dict[str, Any] = {"space": space, "report": output.warning, "on_progress": show}
        if kind == "dots":
            done = import_dots_record(log, resolve_path(target), **common)
        else:
            rules, given = _rules(keys, has_rules=has_rules)
            sets = (*given.pop("descriptor_sets", ()), *descriptors)
            with GobyLogFile(log) as file:
                done = import_goby_log(
                    file, resolve_path(target), rules, descriptor_sets=sets, **given, **common
                )
    output.result(_text(target, done), as_json=as_json, folder=target, **asdict(done))


def _rules(
    keys: tuple[tuple[str, tuple[str, ...]], ...], *, has_rules: bool
) -> tuple[tuple[PortalRule, ...], dict[str, Any]]:
    """The rules, and the arguments that the configuration gives with them."""
    from skerry.protocol.portal.mapping.rules import PortalRule
    from skerry.runtime.recordings.imports import OBJECT_RULES

    keyed = tuple(PortalRule(scheme="PROTOBUF", type=name, key=key) for name, key in keys)
    if not has_rules:
        return (*keyed, *OBJECT_RULES), {}
    from skerry.apps.portal.mapping_config import MappingConfig, mapping_types
    from skerry.cli.config import load_section

    config = load_section("portal.mapping", MappingConfig).value
    given = {"types": mapping_types(config), "descriptor_sets": config.descriptors}
    return (*keyed, *config.rules), given


def _text(target: str, done: Imported) -> str:
    text = f"{target}: {done.rows:,} rows, {done.objects:,} of them objects"
    for count, what in (
        (done.unmapped, "messages that could only become bytes"),
        (done.skipped, "entries left out"),
        (done.damaged, "damaged places"),
    ):
        if count:
            text += f"; {count:,} {what}"
    return text
