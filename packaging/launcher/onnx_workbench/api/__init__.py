"""The functions of the Python API, which are also what the commands of the command line do.

What works on a model takes a Model or a Document; changes to a Document become entries of its history. Models are used
from one thread at a time. Every function that may take long has a `progress`, which also cancels.
"""

from __future__ import annotations

from onnx_workbench.api.checks import check, infer
from onnx_workbench.api.comparison import NumericComparison, compare, diff, statistics
from onnx_workbench.api.files import External, StrPath, load, model_of, save
from onnx_workbench.api.parts import Merged, extract, merge, reduce, split
from onnx_workbench.api.transform import Converted, FoundPattern, Simplified, convert, find, quantize, rewrite, simplify

__all__ = [
    "Converted",
    "External",
    "FoundPattern",
    "Merged",
    "NumericComparison",
    "Simplified",
    "StrPath",
    "check",
    "compare",
    "convert",
    "diff",
    "extract",
    "find",
    "infer",
    "load",
    "merge",
    "model_of",
    "quantize",
    "reduce",
    "rewrite",
    "save",
    "simplify",
    "split",
    "statistics",
]
