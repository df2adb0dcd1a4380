"""Makes build/typing/onnx_workbench: links that show type checkers the package as the wheel has it.

In a checkout the parts of the package lie in two places, packaging/launcher and the root of the repository. The package
joins them when it is imported; mypy and editors, which import nothing, read these links (mypy_path in pyproject.toml).
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "build" / "typing" / "onnx_workbench"


def main() -> None:
    """Make the folder and every link that is missing; remove those of modules that are gone."""
    PACKAGE.mkdir(parents=True, exist_ok=True)
    for link in PACKAGE.iterdir():
        if not link.exists():
            link.unlink()
    launcher = ROOT / "packaging" / "launcher" / "onnx_workbench"
    parts = [path for path in launcher.iterdir() if path.suffix in {".py", ".pyi", ".typed"} or path.name == "api"]
    for target in (*parts, *(ROOT / name for name in ("model", "exec", "viewer", "resources"))):
        link = PACKAGE / target.name
        if not link.is_symlink():
            link.symlink_to(target, target_is_directory=target.is_dir())


if __name__ == "__main__":
    main()
