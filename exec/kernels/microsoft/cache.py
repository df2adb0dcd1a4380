"""Key-value caches: grown by concatenation, or written into a preallocated buffer."""

from __future__ import annotations

import numpy as np

from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels.microsoft.onnx_calls import onnx
from onnx_workbench.exec.kernels.shared.axes import scalar_int
from onnx_workbench.exec.values.arrays import Array


def appended(
    past: Array | None, now: Array, place: Array | None, beams: Array | None, shared: bool
) -> tuple[Array, Array]:
    """Return the cache with the new step, and the part to attend to: for each beam its own history."""
    if past is None:
        return now, now
    if past.ndim != 4 or past.shape[:2] != now.shape[:2] or past.shape[3] != now.shape[3]:
        given = f"a cache of shape {past.shape} for new entries of shape {now.shape}"
        msg = f"{given}; expected the same, but for the length of axis 2"
        raise KernelError(msg)
    if not shared:
        whole = np.asarray(onnx("Concat", 13, past, now, axis=2))
        end = whole.shape[2]
    else:
        if place is None:
            msg = "past_present_share_buffer needs past_sequence_length"
            raise KernelError(msg)
        start = scalar_int(place, "past_sequence_length")
        end = start + now.shape[2]
        if start < 0 or end > past.shape[2]:
            msg = f"step {start} of a cache for {past.shape[2]}; expected room for {now.shape[2]} steps from 0 on"
            raise KernelError(msg)
        whole = past.copy()
        whole[:, :, start:end] = now
    seen = whole[:, :, :end]
    return whole, seen if beams is None else _of_beams(seen, beams, end - now.shape[2])


def _of_beams(seen: Array, beams: Array, past: int) -> Array:
    """Gather each past entry from the beam that it belongs to; `beams` is (batch, width, length)."""
    if beams.ndim != 3 or beams.shape[0] * beams.shape[1] != seen.shape[0] or beams.shape[2] < past:
        msg = f"cache_indirection has shape {beams.shape}; expected (batch, beams, {past} or more)"
        raise KernelError(msg)
    batch, width, _ = beams.shape
    source = beams[:, :, :past]
    if source.size and not 0 <= int(source.min()) <= int(source.max()) < width:
        given = f"cache_indirection names beams {source.min()} to {source.max()} of {width}"
        msg = f"{given}; expected within [0, {width - 1}]"
        raise KernelError(msg)
    rows = (source + np.arange(batch)[:, None, None] * width).reshape(batch * width, past)
    result = seen.copy()
    result[:, :, :past] = seen[rows[:, None, :], np.arange(seen.shape[1])[:, None], np.arange(past)]
    return result
