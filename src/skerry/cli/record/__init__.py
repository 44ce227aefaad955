"""`skerry record`: record a space, and work with recordings.

options      options and output that these commands share
run          `record`: record a space
inspect      `record info`, `record verify`: summarize and check a recording
derive       `record cut`, `record merge`: make new recordings of existing ones
export       `record export`: convert a recording to MCAP, JSON lines or a DOTS record
imports      `record import`: make a recording of a Goby log or a DOTS record
copy         `record copy`: upload a recording
"""

from __future__ import annotations

from skerry.cli.record.copy import copy
from skerry.cli.record.derive import cut, merge
from skerry.cli.record.export import export
from skerry.cli.record.imports import import_
from skerry.cli.record.inspect import info, verify
from skerry.cli.record.run import record

__all__ = ["copy", "cut", "export", "import_", "info", "merge", "record", "verify"]

for _command in (copy, cut, export, import_, info, merge, verify):
    record.add_command(_command)
