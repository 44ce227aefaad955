"""Repairs segments that a crash left.

A segment that is still open while no recorder runs was left by a crash. It is cut behind its last
complete batch and sealed.
"""

from __future__ import annotations

import os
from pathlib import Path

from skerry.recording.index import NO_CRC, SegmentContent, segment_of
from skerry.recording.manifest_lines import Repair
from skerry.recording.messages import END_OF_STREAM
from skerry.recording.scanning import Scan, scan
from skerry.runtime.recordings.files.folders import (
    OPEN_SUFFIX,
    SEALED_SUFFIX,
    open_names,
    sync_folder,
)
from skerry.runtime.recordings.files.manifest import Manifest
from skerry.runtime.recordings.files.segment_files import map_file, write_all


def repair_open(folder: Path, manifest: Manifest) -> list[Repair]:
    """Seal the segments that a crash left; the caller must hold the lock of the writer."""
    return [_repair(folder, name, manifest) for name in open_names(folder)]


def _repair(folder: Path, name: str, manifest: Manifest) -> Repair:
    path = folder / name
    found = scan(map_file(path))
    repair = _repair_of(name, found)
    if any(content.batch.crc != NO_CRC for content in found.contents):
        _finish(path, found)
        sealed = name.removesuffix(OPEN_SUFFIX) + SEALED_SUFFIX
        with manifest.locked():
            path.rename(folder / sealed)
            sync_folder(folder)
            size = found.stop + len(END_OF_STREAM)
            segment = segment_of(
                found.contents, folder=folder, name=sealed, line=-1, byte_count=size
            )
            manifest.add_sealed(segment, sync=True)
            manifest.add_repaired(repair, sync=True)
    else:
        with manifest.locked():
            manifest.add_repaired(repair, sync=True)
            path.unlink()
    return repair


def _repair_of(name: str, found: Scan) -> Repair:
    complete = [content.batch for content in found.contents if content.batch.crc != NO_CRC]
    return Repair(
        name=name,
        kept_batches=len(complete),
        kept_rows=sum(batch.rows for batch in complete),
        lost_bytes=found.tail + sum(_lost(content) for content in found.contents),
    )


def _lost(content: SegmentContent) -> int:
    return content.batch.size if content.batch.crc == NO_CRC else 0


def _finish(path: Path, found: Scan) -> None:
    """Cut the file behind its last complete batch, and write the end marker."""
    handle = os.open(path, os.O_WRONLY)
    try:
        os.ftruncate(handle, found.stop)
        write_all(handle, END_OF_STREAM, found.stop)
        os.fsync(handle)
    finally:
        os.close(handle)
