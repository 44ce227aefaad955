"""How far a type says that its updates go, as far as it decides which way they take."""

from __future__ import annotations

from skerry.schema.model import Scope, StructType

__all__ = ["is_site_message"]


def is_site_message(type_: StructType) -> bool:
    """Whether its objects are messages, kept by nobody, for all nodes of the system.

    What goes to other sites goes to the own one, too.
    """
    flags = type_.flags
    if flags.cached or flags.internal or flags.substruct_only:
        return False
    return type_.effective_scope >= Scope.SITE
