"""Sphinx configuration of the manual: Markdown pages through MyST, Furo's theme. Built by docs/build.py."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import generate

_PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "ONNX Workbench"
author = _PROJECT["authors"][0]["name"]
project_copyright = author
version = release = _PROJECT["version"]
extensions = ["myst_parser"]
exclude_patterns = ["pictures"]
html_theme = "furo"
html_title = f"ONNX Workbench {version}"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
nitpicky = True

generate.write_pages()  # before Sphinx looks for pages
