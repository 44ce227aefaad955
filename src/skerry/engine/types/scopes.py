"""Which types are distributed to other nodes, by their scope."""

from __future__ import annotations

from skerry.schema.model import Scope, StructType


def is_site_message(type_: StructType) -> bool:
    """Whether objects of a type are messages for all nodes of the system.

    Messages of scope `global`, for other sites, are also messages for the own site.
    """
    flags = type_.flags
    if flags.cached or flags.internal or flags.substruct_only:
        return False
    return type_.effective_scope >= Scope.SITE
