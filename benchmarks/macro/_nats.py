"""Finds a NATS server to measure against: an installed one, or one unpacked from Debian's package.

Nothing is installed into the system: the package is fetched with apt and unpacked below `build`,
which needs no rights and starts no service. If that fails, a message says so, and the
benchmark runs without NATS.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PROGRAM = "nats-server"
BUILD = Path(__file__).resolve().parents[2] / "build" / "nats"
FETCH_S_MAX = 120.0


def path_with_nats() -> str:
    """PATH for programs that start the server, with the server on it if it can be had."""
    # Debian keeps it among the programs of administrators, which are not on the path of every user.
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", str(BUILD)])
    if shutil.which(PROGRAM, path=path) is None:
        try:
            fetch()
        except (OSError, subprocess.SubprocessError) as error:
            print(f"no {PROGRAM} is here and none could be fetched: {error}", file=sys.stderr)
            print((getattr(error, "stderr", None) or b"").decode(), file=sys.stderr)
    return path


def fetch() -> None:
    """Unpack the server below `build`; OSError or SubprocessError say why it did not work."""
    folder = BUILD / "package"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        run(["apt-get", "download", PROGRAM], folder)
    except subprocess.CalledProcessError:
        # A new system has no lists of packages yet.
        run(["apt-get", "update", "--quiet"], folder)
        run(["apt-get", "download", PROGRAM], folder)
    (package,) = folder.glob("*.deb")
    run(["dpkg", "-x", package.name, "."], folder)
    # Moved at the end, so that what is found at its place is whole.
    (folder / "usr" / "sbin" / PROGRAM).replace(BUILD / PROGRAM)


def run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=FETCH_S_MAX)
