"""Sphinx set-up: Markdown pages, warnings as errors (see the Makefile)."""

from __future__ import annotations

import tomllib
from pathlib import Path

_project = tomllib.loads(
    Path(__file__).resolve().parent.parent.joinpath("pyproject.toml").read_text(encoding="utf-8")
)["project"]

project = "skerry"
author = "the skerry authors"
copyright = author
release = version = _project["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["_build"]
nitpicky = True
# The types in signatures are mostly internal names, and private ones of the standard library.
nitpick_ignore_regex = [("py:.*", ".*")]

autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
autodoc_typehints = "signature"

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"skerry {release}"
html_show_sphinx = False
html_copy_source = False
