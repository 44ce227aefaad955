"""Power failure: confirmed objects were synced before, as the system calls show."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

WRITER = """
import os, sys
from pathlib import Path
from skerry.engine.persistence import WriteBatch
from skerry.runtime.storage.contract import SyncPolicy
from skerry.runtime.storage.sqlite import SqliteStorage

storage = SqliteStorage(Path(sys.argv[1]), sync=SyncPolicy(sys.argv[2]))
for number in range(3):
    os.write(1, b"begin")
    storage.write(WriteBatch(number=number, meta={"number": number}))
    os.write(1, b"confirmed")
"""


def calls(path: Path, sync: str) -> str:
    """One letter a call: b(egin), w(rite to the log), s(ync of the log), c(onfirmed)."""
    tracer = shutil.which("strace")
    if tracer is None:
        pytest.skip("strace is not there to watch the calls: install it (apt-get install strace)")
    watched = "trace=write,pwrite64,fsync,fdatasync"
    done = subprocess.run(
        [tracer, "-f", "-y", "-e", watched, sys.executable, "-c", WRITER, path, sync],
        capture_output=True,
        text=True,
    )
    if "ptrace" in done.stderr and done.returncode != 0:
        pytest.skip("this computer does not let strace watch a program")
    assert done.returncode == 0, done.stderr
    patterns = {
        "b": r'write\(1<[^>]*>, "begin"',
        "w": r"pwrite64\(\d+<[^>]*-wal>",
        "s": r"f(?:data)?sync\(\d+<[^>]*-wal>",
        "c": r'write\(1<[^>]*>, "confirmed"',
    }
    found = (
        letter
        for line in done.stderr.splitlines()
        for letter, pattern in patterns.items()
        if re.search(pattern, line)
    )
    return re.sub(r"w+", "w", "".join(found))


@pytest.mark.parametrize("sync", ["commit", "interval"])
def test_batch_is_synced_between_its_last_byte_and_its_confirmation(
    tmp_path: Path, sync: str
) -> None:
    seen = calls(tmp_path / "node.db", sync)
    assert seen.count("c") == 3
    assert re.search(r"(?:b(?:ws)+c){3}", seen), seen


def test_policy_none_leaves_the_sync_to_the_operating_system(tmp_path: Path) -> None:
    seen = calls(tmp_path / "node.db", "none")
    # The log begins with one sync of its head, and ends with one when the file is closed.
    assert re.fullmatch(r"b(?:ws)?wc(?:bwc){2}s?", seen), seen
