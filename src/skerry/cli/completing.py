"""What a shell can complete beyond commands and options: names of types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

__all__ = ["complete_type"]

_ANSWER_S_MAX: Final = 0.5
"""How long whoever pressed the key may wait for a node."""


def complete_type(context: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """Names of types that begin so: of the type files if there are any, else of the node.

    Nothing where neither can be asked: a shell has no use for an error.
    """
    from skerry.errors import SkerryError

    try:
        names = _names(context.params)
    except (SkerryError, OSError):
        return []
    return sorted(name for name in names if name.startswith(begun))


def _names(given: Mapping[str, Any]) -> list[str]:
    types = given.get("types")
    if types:
        return _structs(types)
    from skerry.cli.nodes import chosen_secret
    from skerry.client.api.sync import connect

    with connect(
        given.get("endpoint"),
        name="skerry-completion",
        secret=chosen_secret(given.get("secret"), given.get("secret_file")),
        ca=given.get("ca"),
        cert=given.get("cert"),
        key=given.get("key"),
        timeout=_ANSWER_S_MAX,
    ) as space:
        return _structs(space.request_types(timeout=_ANSWER_S_MAX))


def _structs(types: Mapping[str, Any]) -> list[str]:
    from skerry.objects.base import Struct

    return [
        name
        for name, cls in types.items()
        if isinstance(cls, type) and issubclass(cls, Struct)
        if not cls.descriptor.flags.substruct_only
    ]
