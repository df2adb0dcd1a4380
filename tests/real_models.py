"""Models that people use: the small ones in tests/models, and all of ../shared/models where that folder is there.

Each folder holds model.onnx and, of most, inputs.npz and outputs.npz (what ONNX Runtime gave for them). MANIFEST.json
says where each comes from, under which licence, and how far ONNX Runtime's own optimisations change its outputs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

BROUGHT = Path(__file__).parent / "models"
_SHARED = Path(__file__).parents[2] / "shared" / "models"
FOLDER = _SHARED if _SHARED.is_dir() else BROUGHT  # those of the repository are among the shared ones

MANIFEST: list[dict[str, Any]] = json.loads((FOLDER / "MANIFEST.json").read_text("utf-8"))


class RealModels:
    """The folders of the models by name; asking for one that is not there skips the test, which says so."""

    def __truediv__(self, name: str) -> Path:
        folder = FOLDER / name
        if not folder.is_dir():
            pytest.skip(f"the model {name} is not in tests/models and there is no ../shared/models")
        return folder

    def with_data(self, name: str) -> Path:
        """The folder of a model that has inputs and outputs beside it."""
        folder = self / name
        if not (folder / "inputs.npz").exists():
            pytest.skip(
                f"only the model of {name} is in tests/models, without inputs, and there is no ../shared/models"
            )
        return folder

    def files(self) -> list[Path]:
        """Every model.onnx, in a fixed order."""
        return sorted(FOLDER.glob("*/model.onnx"))
