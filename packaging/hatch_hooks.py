"""Hooks of the build backend, hatchling: README with absolute links, the manual and the translations in the wheel.

A package page shows README without the repository around it, so its relative links become absolute ones below the
Homepage of [project.urls]. While the project has no address, pictures are left out and links become plain text.
The manual is put into the wheel, and into the source archive that a wheel is built from, where it was built before:
`python docs/build.py`. Building it here would make every installation from a checkout fetch Sphinx. The translated
copies of sources are made for each wheel, and stand in it for the catalogues that they are made of.
"""

from __future__ import annotations

import re
import runpy
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

MANUAL = Path("build") / "manual" / "html"

_PICTURE = re.compile(r"!\[([^\]]*)\]\((?!https?:|#)([^)]+)\)\n*")
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!https?:|#)([^)]+)\)")


def readme_for_package_page(text: str, home_page: str, version: str) -> str:
    """Return README with links that work away from the repository. `home_page` may be empty."""
    if not home_page:
        return _LINK.sub(r"\1", _PICTURE.sub("", text))
    files = f"{home_page.rstrip('/')}/raw/v{version}"
    pages = f"{home_page.rstrip('/')}/blob/v{version}"
    text = _PICTURE.sub(lambda found: found[0].replace(f"({found[2]})", f"({files}/{found[2]})"), text)
    return _LINK.sub(lambda found: f"[{found[1]}]({pages}/{found[2]})", text)


class ReadmeHook(MetadataHookInterface):
    """Gives the metadata its readme."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the readme to the metadata."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        home_page = metadata.get("urls", {}).get("Homepage", "")
        text = readme_for_package_page(text, home_page, metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


class BuildHook(BuildHookInterface[Any]):
    """Puts resources, translated sources and a manual that was built into the wheel; not into an editable one.

    The manual is in the source archive too.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add their folders to the files of the wheel."""
        manual = Path(self.root) / MANUAL
        if self.target_name == "sdist" and manual.is_dir():
            build_data["force_include"][str(manual)] = MANUAL.as_posix()  # for wheels that are built from it
        if self.target_name != "wheel" or version != "standard":
            return
        for path in (Path(self.root) / "resources").iterdir():
            if path.name not in ("languages", "__pycache__"):
                build_data["force_include"][str(path)] = f"onnx_workbench/resources/{path.name}"
        if manual.is_dir():
            build_data["force_include"][str(manual)] = "onnx_workbench/resources/manual"
        self._folder = tempfile.TemporaryDirectory()  # removed with the hook, after the build
        runpy.run_path(str(Path(self.root) / "packaging" / "translations.py"))["build"](Path(self._folder.name))
        build_data["force_include"][self._folder.name] = "onnx_workbench/languages"
