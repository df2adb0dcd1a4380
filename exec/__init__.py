"""The numpy executor: runs a model and keeps every value it computed. `from onnx_workbench.exec import Session`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx_workbench.exec.session import Session

__all__ = ["Session"]


def __getattr__(name: str) -> Any:
    """`Session` on first use: it brings numpy, which the first window must not wait for."""
    if name == "Session":
        from onnx_workbench.exec.session import Session

        return Session
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
