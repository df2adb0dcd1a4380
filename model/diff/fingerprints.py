"""Hash digests of tensor elements, where direct comparison would be too expensive."""

from __future__ import annotations

import hashlib

from onnx_workbench.model.ir.tensors import Tensor
from onnx_workbench.model.progress import SILENT, Progress


def fingerprint(tensor: Tensor, progress: Progress = SILENT) -> str:
    """Return a hexadecimal digest of the elements, without type and shape. Reads all of them, in chunks; any thread.

    ModelError if they are not available.
    """
    digest = hashlib.sha256()
    for part in tensor.pieces():
        progress.check()
        # Texts as a list: joined, two could be taken for one.
        digest.update(repr(part.tolist()).encode() if part.dtype == object else part.tobytes())
    return digest.hexdigest()
