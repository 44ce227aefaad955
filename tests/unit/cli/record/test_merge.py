"""`skerry record merge`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., Any]


def test_rows_of_both_recordings_are_kept_once(run: Run, made: Any, clean_place: Path) -> None:
    done = run("record", "merge", made("a", 5), made("b", 3), clean_place / "both", "--json")
    row = json.loads(done.out)
    assert row.pop("folder") == str(clean_place / "both")
    assert row == {"rows": 5, "duplicates": 3, "filled_gaps": 0}


def test_counts_are_printed(run: Run, made: Any, clean_place: Path) -> None:
    done = run("record", "merge", made("a", 2), made("b", 2, sender=9), clean_place / "both")
    assert "4 rows of 2 recordings; 0 duplicates removed" in done.out


def test_merge_needs_a_source_and_a_target(run: Run, clean_place: Path) -> None:
    assert run("record", "merge", clean_place / "x").code == 2
