"""Builds the manual into build/manual/html, from where the wheel, the bundles and F1 in a checkout take it.

    pip install -e ".[docs]" && python docs/build.py

A warning, such as a link that leads nowhere, is an error.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent / "build" / "manual"


def main() -> int:
    """Build the HTML anew; return the exit status."""
    shutil.rmtree(TARGET, ignore_errors=True)
    html = TARGET / "html"
    status = build_main(
        ["-q", "-W", "--keep-going", "-b", "html", "-d", str(TARGET / "doctrees"), str(HERE), str(html)]
    )
    for name in ("objects.inv", ".buildinfo"):  # for other manuals and for the next build
        (html / name).unlink(missing_ok=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
