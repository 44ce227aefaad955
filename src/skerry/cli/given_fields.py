"""Objects from arguments of the form FIELD=VALUE."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from skerry.cli.parameters import WrongValue
from skerry.suggestions import nearest

if TYPE_CHECKING:
    from skerry.objects.base import Struct


def given_fields(
    cls: type[Struct],
    fields: tuple[str, ...],
    cleared: tuple[str, ...] = (),
    *,
    needs_key: bool = True,
) -> dict[str, Any]:
    """The fields of FIELD=VALUE arguments by name; None for those in `cleared`.

    Raises UsageError for a field that does not exist, that is given twice, or that has no value.
    """
    plain: dict[str, Any] = {}
    for field in fields:
        name, equals, text = field.partition("=")
        if not equals:
            raise click.UsageError(
                f"{field!r} does not have the form FIELD=VALUE, which is one argument without"
                " spaces around ="
            )
        if name in plain:
            raise click.UsageError(f"{name} is given twice")
        plain[name] = _value(cls, name, text)
    for name in cleared:
        if plain.get(name) is not None:
            raise click.UsageError(f"{name} has a value and is also in --clear")
        plain[name] = None
    known = cls.descriptor
    names_known = [field.name for field in known.fields]
    for option, names in (("--clear", cleared), ("FIELD=VALUE", plain)):
        for name in names:
            if not known.has_field(name):
                guess = nearest(name, names_known)
                hint = (
                    f"did you mean {guess}?"
                    if guess
                    else f"its fields are {', '.join(names_known)}"
                )
                message = f"{known.name} has no field {name:.60}"
                raise WrongValue(message, option=option, hint=hint)
    missing = [field.name for field in known.key_fields if plain.get(field.name) is None]
    if missing and needs_key:
        raise click.UsageError(f"the key of {known.name} is incomplete: give {missing[0]}=VALUE")
    return plain


def _value(cls: type[Struct], name: str, text: str) -> Any:
    """The value of a field: text for string fields, otherwise JSON, or text that is not JSON."""
    from skerry.schema.model import Kind

    descriptor = cls.descriptor
    if descriptor.has_field(name) and descriptor.field(name).type.kind == Kind.STRING:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
