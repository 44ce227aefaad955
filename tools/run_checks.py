"""Runs all checks of the code base, also after one has failed, and lists the failed ones."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

MODULE = [sys.executable, "-P", "-m"]

CHECKS = {
    "format": [*MODULE, "ruff", "format", "--check", "--quiet", "."],
    "lint": [*MODULE, "ruff", "check", "--quiet", "."],
    "types": [*MODULE, "mypy", "--no-error-summary"],
    "imports": [str(Path(sys.executable).with_name("lint-imports"))],
    "tidy": [*MODULE, "pytest", "-q", "tests/tidy"],
}


def main() -> int:
    os.chdir(ROOT)
    failed = [name for name, command in CHECKS.items() if not passes(name, command)]
    if failed:
        print(f"error: failed: {', '.join(failed)}", file=sys.stderr)
        return 1
    return 0


def passes(name: str, command: list[str]) -> bool:
    started_s = time.monotonic()
    # The checks examine the source tree, not the installed package.
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, check=False, env=env, text=True, capture_output=True)
    ok = done.returncode == 0
    print(f"{name:8} {'ok' if ok else 'FAILED'}  {time.monotonic() - started_s:5.1f} s", flush=True)
    if not ok:
        print(done.stdout + done.stderr, flush=True)
    return ok


if __name__ == "__main__":
    sys.exit(main())
