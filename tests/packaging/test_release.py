"""What a release says of itself: one version everywhere, valid AppStream metadata, working links."""

from __future__ import annotations

import importlib.util
import plistlib
import re
import shutil
import subprocess
import tarfile
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from onnx_workbench.viewer.cli.main import main

ROOT = Path(__file__).parents[2]


def script(name: str) -> ModuleType:
    """Import a script of packaging/."""
    spec = importlib.util.spec_from_file_location(Path(name).stem, ROOT / "packaging" / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


release = script("release.py")


def test_the_version_has_one_source(capsys: pytest.CaptureFixture[str]) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert main(["-V"]) == 0
    assert capsys.readouterr().out.startswith(f"onnx-workbench {version}\n8-bit products by ")
    assert release.newest_changes()[0] == version
    assert ET.fromstring(release.appstream()).find("releases/release").get("version") == version
    for file in ("README.md", "CITATION.cff", "packaging/macos/Info.plist", "packaging/onnx_workbench.spec"):
        assert not re.search(rf"(?<![\d.]){re.escape(version)}(?![\d.])", (ROOT / file).read_text(encoding="utf-8")), (
            file
        )


def test_a_tag_is_released_with_its_version_and_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "newest_changes", lambda: (release.VERSION, "2026-11-30", ""))
    assert release.check(f"v{release.VERSION}") == []
    assert len(release.check("v99.0.0")) == 1
    monkeypatch.setattr(release, "newest_changes", lambda: ("98.0.0", "unreleased", ""))
    assert len(release.check("v99.0.0")) == 3


@pytest.mark.parametrize("home_page", ["", "https://example.org/onnx-workbench"])
def test_the_appstream_metadata_is_valid(home_page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "HOME_PAGE", home_page)
    file = tmp_path / f"{release.APPSTREAM_ID}.metainfo.xml"
    file.write_text(release.appstream(), encoding="utf-8")
    root = ET.parse(file).getroot()
    assert root.findtext("releases/release/description/p")
    assert bool(root.find("screenshots/screenshot/image") is not None) == bool(home_page)
    types = {one.text for one in root.findall("provides/mediatype")}
    assert f"MimeType={';'.join(sorted(types))};" in entry_lines()
    validator = shutil.which("appstreamcli")
    if validator is not None:
        done = subprocess.run([validator, "validate", "--no-net", file], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def entry_lines() -> list[str]:
    return (ROOT / "resources/desktop/onnx-workbench.desktop").read_text(encoding="utf-8").splitlines()


def test_all_systems_know_the_same_file_types() -> None:
    mime = ET.parse(ROOT / "resources/desktop/onnx-workbench.xml").getroot()
    namespace = "{http://www.freedesktop.org/standards/shared-mime-info}"
    linux = {
        one.find(f"{namespace}glob").get("pattern").removeprefix("*"): one.get("type")
        for one in mime.findall(f"{namespace}mime-type")
    }
    plist: dict[str, Any] = plistlib.loads((ROOT / "packaging/macos/Info.plist").read_bytes())
    macos = {
        f".{one['UTTypeTagSpecification']['public.filename-extension'][0]}": one["UTTypeTagSpecification"][
            "public.mime-type"
        ]
        for one in plist["UTImportedTypeDeclarations"]
    }
    assert linux == macos
    installer = (ROOT / "packaging/windows/installer.iss").read_text(encoding="utf-8")
    for key in (r'Classes\\(\.\w+)\\OpenWithProgids"', r'\\SupportedTypes"; ValueType: string; ValueName: "(\.\w+)"'):
        assert sorted(re.findall(key, installer)) == sorted(linux)


def test_links_of_readme_work_on_the_package_page() -> None:
    pytest.importorskip("hatchling")
    hooks = script("hatch_hooks.py")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    relative = re.compile(r"\]\((?!https?:)([^)]*)\)")
    assert relative.findall(text), "nothing to test"
    for home_page in ("", "https://example.org/onnx-workbench"):
        assert relative.findall(hooks.readme_for_package_page(text, home_page, "1.2.3")) == []
    shown = hooks.readme_for_package_page(text, "https://example.org/x", "1.2.3")
    assert "](https://example.org/x/raw/v1.2.3/packaging/screenshots/window.png)" in shown
    assert "](https://example.org/x/blob/v1.2.3/LICENSE)" in shown


def test_the_source_archive_has_the_manual_and_all_folders(tmp_path: Path) -> None:
    from hatchling.builders.sdist import SdistBuilder

    for name in ("pyproject.toml", ".gitignore", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "packaging").mkdir()
    shutil.copy(ROOT / "packaging" / "hatch_hooks.py", tmp_path / "packaging")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "errors.py").touch()
    (tmp_path / "build" / "manual" / "html").mkdir(parents=True)
    (tmp_path / "build" / "manual" / "html" / "index.html").touch()
    (tmp_path / "build" / "typing").mkdir()  # as packaging/typing_package.py makes it
    (tmp_path / "build" / "typing" / "model").symlink_to(tmp_path / "model", target_is_directory=True)
    (archive,) = SdistBuilder(str(tmp_path)).build(directory=str(tmp_path / "dist"), versions=["standard"])
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert "model/errors.py" in names
    assert {name for name in names if name.startswith("build")} == {"build/manual/html/index.html"}
