"""`skerry record`: record a space, and work with recordings."""

from __future__ import annotations

from skerry.cli.record.copy import copy
from skerry.cli.record.cut import cut
from skerry.cli.record.export import export
from skerry.cli.record.info import info
from skerry.cli.record.merge import merge
from skerry.cli.record.run import record
from skerry.cli.record.verify import verify

__all__ = ["copy", "cut", "export", "info", "merge", "record", "verify"]

for _command in (copy, cut, export, info, merge, verify):
    record.add_command(_command)
