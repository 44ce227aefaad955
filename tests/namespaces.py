"""Network namespaces of a test's own, in which it may lose what it likes."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

__all__ = ["in_namespace", "require_nft"]


def in_namespace(commands: str = "true") -> list[str]:
    """Runs what follows in a network namespace of its own, after some commands."""
    prefix = ["unshare", "-Urn", "sh", "-c", f'ip link set lo up && {commands} && exec "$@"', "sh"]
    probe = subprocess.run([*prefix, "true"], capture_output=True, text=True, timeout=20)
    if probe.returncode:
        pytest.skip(f"not permitted, or not there: {probe.stderr.strip()}")
    return prefix


def require_nft() -> str:
    """Where the packet filter is."""
    # It is a program of administrators, which is not on the path of every user.
    nft = shutil.which("nft", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if nft is None:
        pytest.skip("nft is not installed, which would drop what is under way (Debian: nftables)")
    return nft
