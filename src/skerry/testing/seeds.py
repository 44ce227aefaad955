"""Seeds that ever failed: kept in a TOML file with a sentence each, and run again for ever after.

A fault in a protocol that took ten thousand seeds to show itself must not need as many to come back
unnoticed. The file is for people too: the sentence says what the seed once found.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from skerry.errors import ConfigError

__all__ = ["KeptSeed", "keep_seed", "read_seeds"]

_KEYS: Final = {"scenario": str, "seed": int, "nodes": int, "why": str}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSeed:
    """A seed that failed once."""

    scenario: str
    seed: int
    why: str
    """What it found, in a sentence."""
    nodes: int | None = None
    """How many nodes there were, where it was not the scenario's own number."""


def read_seeds(path: Path) -> list[KeptSeed]:
    """All kept seeds, in the order in which they were found."""
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
    """Add a seed at the end of the file, which is made if need be; False if it was there."""
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
                detail=f"{value!r} is no {_KEYS[key].__name__}",
            )
    missing = [key for key in ("scenario", "why") if not row.get(key)]
    if "seed" not in row:
        missing.append("seed")
    if missing:
        raise ConfigError(
            key=f"seed.{missing[0]}", origin=str(path), detail="every kept seed has one"
        )
    return KeptSeed(**row)


def _text(value: str) -> str:
    # What JSON writes as a text is one in TOML too, but for the one character that JSON leaves
    # as it is and TOML forbids.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
