"""`make bench [ONLY=name]`: runs every benchmark in both builds and prints a table of the results.

The rows are written to `results/latest.json`, the description of the machine to
`results/machine.json`. A missed goal is marked in the table and does not fail the run. A benchmark
that raises an error does.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = HERE / "results"

JsonRow = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the benchmarks.")
    parser.add_argument("--only", default=os.environ.get("ONLY", ""), help="part of a name")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        return run_one(arguments.one, arguments.out)
    return run_all(arguments.only)


def run_all(only: str) -> int:
    found = benchmarks(only)
    if not found:
        print(f"error: no benchmark has {only!r} in its name", file=sys.stderr)
        return 1
    rows: list[JsonRow] = []
    failed: list[str] = []
    for path in found:
        for source in builds():
            print(
                f"{path.relative_to(HERE)} ({'uncompiled' if source else 'installed'})", flush=True
            )
            result = run_in_process(path, source)
            if result is None:
                failed.append(str(path.relative_to(HERE)))
            rows += result or []
    write_results(rows)
    print_table(rows)
    for name in failed:
        print(f"error: {name} failed; its output is above", file=sys.stderr)
    return 1 if failed else 0


def benchmarks(only: str) -> list[Path]:
    paths = sorted([*HERE.glob("micro/*.py"), *HERE.glob("macro/*.py")])
    return [p for p in paths if not p.stem.startswith("_") and only in f"{p.parent.name}/{p.stem}"]


def builds() -> list[Path | None]:
    """The installed package, and the source tree if the installed package is compiled."""
    probe = [sys.executable, "-P", "-c", "import skerry.build_info as b; print(b.mode())"]
    mode = subprocess.run(
        probe, check=True, capture_output=True, text=True, env=environment(None)
    ).stdout.strip()
    if mode == "plain":
        print("only the uncompiled build is installed (no compiler, or SKERRY_PURE)", flush=True)
        return [None]
    return [None, ROOT / "src"]


def run_in_process(path: Path, source: Path | None) -> list[JsonRow] | None:
    """Run one benchmark in its own process. Returns its rows, or None if it failed."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "rows.json")
        command = [sys.executable, "-P", __file__, "--one", str(path), "--out", str(out)]
        done = subprocess.run(command, check=False, env=environment(source))
        if done.returncode != 0 or not out.exists():
            return None
        rows: list[JsonRow] = json.loads(out.read_text(encoding="utf-8"))
        return rows


def environment(source: Path | None) -> dict[str, str]:
    """Puts `benchmarks` on the path, and before it `src` for the uncompiled build."""
    path = [str(source)] if source else []
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*path, str(ROOT)])}


def run_one(path: Path, out: Path) -> int:
    from benchmarks.rows import row_as_json
    from skerry import build_info

    spec = importlib.util.spec_from_file_location(f"benchmark_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    rows = [row_as_json(row, build_info.mode()) for row in module.run()]
    out.write_text(json.dumps(rows), encoding="utf-8")
    return 0


def write_results(rows: list[JsonRow]) -> None:
    RESULTS.mkdir(exist_ok=True)
    for name, content in (("latest.json", rows), ("machine.json", circumstances())):
        # Written to a draft and renamed, so that readers never see an incomplete file.
        draft = RESULTS / f"{name}.part"
        draft.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        draft.replace(RESULTS / name)


def circumstances() -> JsonRow:
    from importlib.metadata import version

    packages = ("cbor2", "librt", "msgspec", "mypy", "skerry")
    return {
        "date": datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="seconds"),
        "processor": processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in packages},
        "load": os.getloadavg()[0],
    }


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def print_table(rows: list[JsonRow]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("benchmark")
    table.add_column("mode")
    for column in ("ours", "theirs"):
        table.add_column(column, justify="right")
    table.add_column("unit")
    table.add_column("peer")
    for column in ("ratio", "goal"):
        table.add_column(column, justify="right")
    table.add_column("met")
    for row in rows:
        figures = [figure(row[name]) for name in ("ours", "theirs")]
        ratios = [figure(row[name]) for name in ("ratio", "goal")]
        met = {True: Text("yes", "green"), False: Text("MISSED", "bold red"), None: Text("")}
        table.add_row(
            row["name"], row["mode"], *figures, row["unit"], row["peer"], *ratios, met[row["met"]]
        )
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    console.print(table)
    facts = circumstances()
    console.print(
        f"{facts['date']}, {facts['processor']}, {facts['cores']} cores, load {facts['load']:.1f}, "
        f"Python {facts['python']}, {facts['system']}"
    )
    missed = sum(row["met"] is False for row in rows)
    console.print(f"{len(rows)} rows, {missed} goals missed; benchmarks/results/latest.json")


def figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
