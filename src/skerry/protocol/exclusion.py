"""Why a node does not, or no longer, belong to the system."""

from __future__ import annotations

import enum


class ExclusionReason(enum.IntEnum):
    """Why a node is excluded. The values are those on the wire."""

    SILENT = 1
    """Its keep-alives were lost."""
    UNANSWERED = 2
    """It acknowledges nothing."""
    SLOW = 3
    """It does not keep up with the others."""
    INCARNATION = 4
    """It belongs to another run of the system."""
    BLACK_LISTED = 5
    """It belongs to a run of the system that was stopped."""
    ORDERED = 6
    """It was ordered to stop."""
    COORDINATOR = 7
    """The elected node decided so."""
    CLOCK = 8
    """Its clock differs too much."""
    VETO = 9
    """The program that controls the node does not admit it."""
    STREAM = 10
    """A stream of messages from it or to it cannot continue."""
