"""Named contexts: nodes and credentials that the user saved, and the one that is selected.

They are in `contexts.json` in the configuration folder of the user, which only the user can read:
an endpoint may contain a password.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from skerry.errors import ConfigError, SkerryError
from skerry.runtime.whole_files import read_whole, replace_files
from skerry.suggestions import nearest

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_BYTES_MAX: Final = 1024 * 1024
"""Thousands of contexts. A larger file was not written by this module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedContext:
    """A node, and the files of the credentials for it."""

    node: str
    secret_file: str | None = None
    ca: str | None = None
    cert: str | None = None
    key: str | None = None


@dataclass(slots=True, kw_only=True)
class SavedContexts:
    """The contexts of a user by name, and the name of the selected one."""

    path: Path
    contexts: dict[str, SavedContext]
    selected: str | None = None

    def named(self, name: str) -> SavedContext:
        """SkerryError, with a suggestion, if there is no such context."""
        found = self.contexts.get(name)
        if found is None:
            error = SkerryError(f"there is no context {name:.60}")
            guess = nearest(name, self.contexts)
            known = ", ".join(sorted(self.contexts))
            error.hint = (
                f"did you mean {guess}?"
                if guess
                else f"the contexts are {known}"
                if known
                else "save one with `skerry context add NAME URI`"
            )
            raise error
        return found

    def save(self) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        plain = {
            "selected": self.selected,
            "contexts": {name: _given(found) for name, found in sorted(self.contexts.items())},
        }
        replace_files({self.path: f"{json.dumps(plain, indent=2)}\n".encode()}, mode=0o600)


def check_context_name(name: str) -> None:
    """SkerryError unless the name can be used for a context."""
    if _NAME.fullmatch(name) is None:
        error = SkerryError(f"{name!r:.80} cannot be the name of a context")
        error.hint = "use letters, digits, dots, dashes and underscores; at most 64"
        raise error


def read_contexts(environ: Mapping[str, str]) -> SavedContexts:
    """The saved contexts of the user, none if the file does not exist; ConfigError if it is
    invalid."""
    home = environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME") or Path.home(), ".config")
    path = Path(home, "skerry", "contexts.json")
    try:
        plain = json.loads(read_whole(path, bytes_max=_BYTES_MAX))
        contexts = {name: SavedContext(**facts) for name, facts in plain["contexts"].items()}
        selected = plain.get("selected")
    except FileNotFoundError:
        return SavedContexts(path=path, contexts={})
    except OSError as error:
        raise _fault(path, error.strerror or str(error)) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _fault(path, "it was not written by `skerry context`") from None
    return SavedContexts(path=path, contexts=contexts, selected=selected)


def _given(context: SavedContext) -> dict[str, Any]:
    return {name: value for name, value in asdict(context).items() if value is not None}


def _fault(path: Path, detail: str) -> ConfigError:
    return ConfigError(
        key="contexts",
        origin=f"file {path}",
        detail=detail,
        hint="repair the file, or remove it and add the contexts again",
    )
