"""What a release says of itself, from pyproject.toml and CHANGELOG.md: version, date, addresses, notes, AppStream.

python packaging/release.py version          print the version
python packaging/release.py appstream        print the AppStream metadata
python packaging/release.py check v0.1.0     exit with 1 unless the tag fits the version and CHANGELOG has its date
"""

from __future__ import annotations

import datetime as dt
import re
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSION: str = PROJECT["version"]
HOME_PAGE: str = PROJECT.get("urls", {}).get("Homepage", "").rstrip("/")
APPSTREAM_ID = "io.github.onnx_workbench"
SCREENSHOT = "packaging/screenshots/window.png"

#: A version's heading in CHANGELOG.md, as "## 0.1.0 – 2026-11-30" or "## 0.1.0 – unreleased".
HEADING = re.compile(r"^## (\S+) – (\d{4}-\d\d-\d\d|unreleased)$", re.MULTILINE)


def newest_changes() -> tuple[str, str, str]:
    """Return version, date and introduction of the newest heading in CHANGELOG.md; the date may be "unreleased"."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = HEADING.search(text)
    if heading is None:
        raise SystemExit("CHANGELOG.md has no heading such as: ## 0.1.0 – unreleased")
    introduction = text[heading.end() :].strip().partition("\n\n")[0]
    return heading[1], heading[2], " ".join(introduction.split())


def appstream() -> str:
    """Return the AppStream metadata, with addresses and screenshot where the project has an address."""
    version, date, introduction = newest_changes()
    root = ET.parse(ROOT / "packaging" / "linux" / f"{APPSTREAM_ID}.metainfo.xml").getroot()  # noqa: S314 - our own
    if HOME_PAGE:
        for kind, address in (
            ("homepage", HOME_PAGE),
            ("bugtracker", f"{HOME_PAGE}/issues"),
            ("vcs-browser", HOME_PAGE),
        ):
            ET.SubElement(root, "url", type=kind).text = address
        screenshot = ET.SubElement(ET.SubElement(root, "screenshots"), "screenshot", type="default")
        ET.SubElement(screenshot, "caption").text = "A model with the values of a run"
        ET.SubElement(screenshot, "image").text = f"{HOME_PAGE}/raw/v{VERSION}/{SCREENSHOT}"
    day = dt.datetime.now(tz=dt.UTC).date().isoformat() if date == "unreleased" else date
    release = ET.SubElement(ET.SubElement(root, "releases"), "release", version=version, date=day)
    ET.SubElement(ET.SubElement(release, "description"), "p").text = introduction
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def check(tag: str) -> list[str]:
    """Return why this tag cannot be released; nothing when it can."""
    version, date, _ = newest_changes()
    reasons = []
    if tag != f"v{VERSION}":
        reasons.append(f"The tag is {tag}, the version in pyproject.toml is {VERSION}.")
    if version != VERSION:
        reasons.append(f"The newest heading in CHANGELOG.md is {version}, the version in pyproject.toml is {VERSION}.")
    if date == "unreleased":
        reasons.append(f"CHANGELOG.md has no date for {version}.")
    return reasons


def main(arguments: list[str]) -> int:
    """Print what is asked for; returns the exit status."""
    match arguments:
        case ["version"]:
            print(VERSION)
        case ["appstream"]:
            print(appstream(), end="")
        case ["check", tag]:
            reasons = check(tag)
            print("\n".join(reasons) or f"{tag} can be released.")
            return 1 if reasons else 0
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
