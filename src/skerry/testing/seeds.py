"""Seeds that have failed, in a TOML file with a sentence each, to be run again by tests.

A bug that was found with one of ten thousand seeds must not return unnoticed. The sentence
describes the bug that the seed found.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from skerry.errors import ConfigError

_KEYS: Final = {"scenario": str, "seed": int, "nodes": int, "why": str}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSeed:
    scenario: str
    seed: int
    why: str
    """The bug that it found, in a sentence."""
    nodes: int | None = None
    """Number of nodes, if it was not the default of the scenario."""


def read_seeds(path: Path) -> list[KeptSeed]:
    """All kept seeds, in the order of the file. Raises ConfigError if the file is not valid."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(key="seeds", origin=str(path), detail=str(error)) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(key="seeds", origin=str(path), detail=f"not TOML: {error}") from error
    rows = table.pop("seed", [])
    if table or not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ConfigError(key="seeds", origin=str(path), detail="only [[seed]] tables belong here")
    return [_read_row(row, path) for row in rows]


def keep_seed(path: Path, kept: KeptSeed) -> bool:
    """Append a seed to the file, which is created if missing. False if the seed was there."""
    known = read_seeds(path) if path.exists() else []
    same = (kept.scenario, kept.seed, kept.nodes)
    if any((other.scenario, other.seed, other.nodes) == same for other in known):
        return False
    lines = ["", "[[seed]]", f"scenario = {_text(kept.scenario)}", f"seed = {kept.seed}"]
    if kept.nodes is not None:
        lines.append(f"nodes = {kept.nodes}")
    lines.append(f"why = {_text(kept.why)}")
    with path.open("a", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return True


def _read_row(row: dict[str, Any], path: Path) -> KeptSeed:
    for key, value in row.items():
        if key not in _KEYS:
            raise ConfigError(
                key=f"seed.{key}",
                origin=str(path),
                detail="there is no such key",
                hint=f"the keys are {', '.join(_KEYS)}",
            )
        if type(value) is not _KEYS[key]:
            raise ConfigError(
                key=f"seed.{key}",
                origin=str(path),
                detail=f"{value!r} is not of type {_KEYS[key].__name__}",
            )
    missing = [key for key in ("scenario", "why") if not row.get(key)]
    if "seed" not in row:
        missing.append("seed")
    if missing:
        raise ConfigError(key=f"seed.{missing[0]}", origin=str(path), detail="the key is missing")
    return KeptSeed(**row)


def _text(value: str) -> str:
    # A JSON string is also a TOML string, except for one character that JSON does not escape and
    # TOML forbids.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
