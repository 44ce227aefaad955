"""`make soak [ONLY=name] [MINUTES=n]`: long runs that find what short ones miss.

A soak is another file of this folder with a function `run(minutes: float) -> dict` that gives
`name`, `seeds` (how many were run), `faults` (injected), `inputs` (tried), `violations` (a list of
texts, each with what is needed to repeat it) and optional `notes`. A number
`MINUTES` in it is its default duration; minutes on the command line are divided in
that proportion. All results go to `latest.json`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LATEST = HERE / "latest.json"
COUNTS = ("seeds", "faults", "inputs")
USUAL_MINUTES = 3.0

Result = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the soaks.")
    parser.add_argument("--only", default=os.environ.get("ONLY", ""), help="part of a name")
    parser.add_argument(
        "--minutes",
        type=float,
        default=float(os.environ.get("MINUTES") or 0) or None,
        help="for all soaks together; each as long as it likes if not given",
    )
    arguments = parser.parse_args()
    sys.path.append(str(ROOT))  # for what soaks share
    os.chdir(ROOT)  # where pyproject.toml names the scenarios of the simulator
    paths = soaks(arguments.only)
    if not paths:
        print(f"error: no soak has {arguments.only!r} in its name", file=sys.stderr)
        return 1
    if arguments.minutes is not None and arguments.minutes <= 0:
        print("error: MINUTES must be more than 0", file=sys.stderr)
        return 1
    results: list[Result] = []
    for path, minutes in shares(paths, arguments.minutes):
        results.append(run_one(path, minutes))
        write_latest(results)
    violations = sum(len(result["violations"]) for result in results)
    print(f"{len(results)} soaks, {violations} violations; tests/soak/latest.json")
    return 1 if violations else 0


def soaks(only: str) -> list[Path]:
    paths = sorted(path for path in HERE.glob("*.py") if path.name != "run.py")
    return [path for path in paths if not path.stem.startswith("_") and only in path.stem]


def shares(paths: list[Path], minutes: float | None) -> list[tuple[Path, float]]:
    """Minutes of each soak."""
    usual = [float(getattr(load_module(path), "MINUTES", USUAL_MINUTES)) for path in paths]
    scale = 1.0 if minutes is None else minutes / sum(usual)
    return [(path, own * scale) for path, own in zip(paths, usual, strict=True)]


def run_one(path: Path, minutes: float) -> Result:
    print(f"{path.stem}: {minutes:.3g} minutes", flush=True)
    started_s = time.monotonic()
    result = outcome(path, minutes)
    row = {"name": result["name"], **{name: result.get(name, 0) for name in COUNTS}}
    row["violations"] = [str(violation) for violation in result["violations"]]
    row["notes"] = result.get("notes", {})
    row["seconds"] = round(time.monotonic() - started_s, 1)
    done = ", ".join(f"{row[name]} {name}" for name in COUNTS)
    print(f"{path.stem}: {done}, {len(row['violations'])} violations", flush=True)
    for name, value in row["notes"].items():
        print(f"  {name}: {value}", flush=True)
    for violation in row["violations"]:
        print(f"  {violation}", flush=True)
    return row


def outcome(path: Path, minutes: float) -> Result:
    """Run a soak and return its result. An exception is a violation, too."""
    try:
        result: Result = load_module(path).run(minutes)
    except Exception:
        return {"name": path.stem, "violations": [f"broke off: {traceback.format_exc()}"]}
    return result


def load_module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"soak_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def write_latest(results: list[Result]) -> None:
    draft = LATEST.with_suffix(".part")
    draft.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    draft.replace(LATEST)


if __name__ == "__main__":
    sys.exit(main())
