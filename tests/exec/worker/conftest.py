"""Sessions whose runs are in processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from onnx_workbench.exec.worker.client import WorkerSession
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.ir.graph import Model


@pytest.fixture
def sessions() -> Iterator[Any]:
    made: list[WorkerSession] = []

    def make(model: Model | Document, **options: Any) -> WorkerSession:
        made.append(WorkerSession(model, **options))
        return made[-1]

    yield make
    for session in made:
        session.close()
