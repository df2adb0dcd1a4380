"""Conversions of whole models: operator set, precision, dimensions, and what can be left out."""

from onnx_workbench.model.convert.dimensions import freeze, symbols, symbols_of
from onnx_workbench.model.convert.dynamic_shapes import batch_places, change_batch, free_dimensions, inputs_of
from onnx_workbench.model.convert.extract_blocks import extract_blocks
from onnx_workbench.model.convert.function_calls import inline_calls_that_differ
from onnx_workbench.model.convert.ir_version import claim_ir_version
from onnx_workbench.model.convert.opset import convert_opset
from onnx_workbench.model.convert.precision import PRECISIONS, PrecisionOptions, convert_precision
from onnx_workbench.model.convert.report import ConversionNote, ConversionReport
from onnx_workbench.model.convert.strip import OF_THE_MODEL, PARTS, strip

__all__ = [
    "OF_THE_MODEL",
    "PARTS",
    "PRECISIONS",
    "ConversionNote",
    "ConversionReport",
    "PrecisionOptions",
    "batch_places",
    "change_batch",
    "claim_ir_version",
    "convert_opset",
    "convert_precision",
    "extract_blocks",
    "free_dimensions",
    "freeze",
    "inline_calls_that_differ",
    "inputs_of",
    "strip",
    "symbols",
    "symbols_of",
]
