"""The file of contexts."""

from __future__ import annotations

from pathlib import Path

import pytest

from skerry.cli.saved_contexts import (
    SavedContext,
    SavedContexts,
    check_context_name,
    read_contexts,
)
from skerry.errors import ConfigError, SkerryError


def test_contexts_are_read_as_they_were_saved(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert read_contexts(environ).contexts == {}
    saved = SavedContexts(path=tmp_path / "skerry" / "contexts.json", contexts={}, selected="a")
    saved.contexts["a"] = SavedContext(node="tcp://a", ca="ca.pem")
    saved.save()
    found = read_contexts(environ)
    assert (found.contexts, found.selected) == (saved.contexts, "a")
    assert read_contexts({"HOME": str(tmp_path)}).contexts == {}


@pytest.mark.parametrize("text", ["", "[]", '{"contexts": {"a": {"host": "x"}}}', "\xff"])
def test_a_file_of_another_program_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "skerry").mkdir()
    (tmp_path / "skerry" / "contexts.json").write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError, match="not written by `skerry context`"):
        read_contexts({"XDG_CONFIG_HOME": str(tmp_path)})


def test_names_are_words() -> None:
    check_context_name("harbour-2.test")
    for name in ("", "a b", "-x", "a/b", "x" * 65):
        with pytest.raises(SkerryError, match="cannot be the name of a context"):
            check_context_name(name)
