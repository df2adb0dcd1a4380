"""Every element type the specification allows, for every version of the operators whose inputs share one type."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.defs import OpSchema

from onnx_workbench.model.ir.types import ElementType
from tests.exec.kernels.harness import call

FOLDERS = ("math", "logical", "reduction", "generator")
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "BitShift": {"direction": "LEFT"}, "Einsum": {"equation": "ij,ij->ij"}, "TopK": {"k": 1},
}  # fmt: skip
TENSOR_NAMES = {f"tensor({name})": ElementType[proto] for name, proto in {
    "float": "FLOAT", "double": "DOUBLE", "float16": "FLOAT16", "bfloat16": "BFLOAT16", "bool": "BOOL",
    "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64", "uint8": "UINT8", "uint16": "UINT16",
    "uint32": "UINT32", "uint64": "UINT64", "string": "STRING",
}.items()}  # fmt: skip


def sweeps() -> list[Any]:
    found = []
    for schema in onnx.defs.get_all_schemas_with_history():
        folder = schema.file.rpartition("/")[0].rpartition("/")[2]
        types = {i.type_str for i in schema.inputs if i.option != OpSchema.FormalParameterOption.Optional}
        if folder not in FOLDERS or len(types) != 1 or schema.domain or schema.deprecated:
            continue
        allowed = [c for c in schema.type_constraints if c.type_param_str == next(iter(types))]
        for constraint in allowed:
            for text in sorted(constraint.allowed_type_strs):
                if text in TENSOR_NAMES:
                    name = f"{schema.name}-{schema.since_version}-{text[7:-1]}"
                    found.append(pytest.param(schema, TENSOR_NAMES[text], id=name))
    return found


@pytest.mark.parametrize(("schema", "element_type"), sweeps())
def test_runs_and_has_the_output_type(schema: OpSchema, element_type: ElementType) -> None:
    value = "a" if element_type is ElementType.STRING else 1
    x = np.full((2, 2), value, object).astype(element_type.numpy_dtype)
    if schema.name == "ConstantOfShape":
        x = np.array([2, 2])
    if schema.name == "Range" or schema.name.endswith("Window"):
        x = np.array(1, x.dtype)
    if schema.name == "DFT":
        x = x.reshape(1, 2, 2)
    required = [i for i in schema.inputs if i.option != OpSchema.FormalParameterOption.Optional]
    count = max(len(required), 2 if schema.name in ("Einsum", "Max", "Min", "Sum", "Mean") else 1)
    attributes = {k: v for k, v in ATTRIBUTES.get(schema.name, {}).items() if k in schema.attributes}
    result = call(schema.name, [x] * count, opset=schema.since_version, outputs=len(schema.outputs), **attributes)
    results = result if isinstance(result, tuple) else (result,)
    for output, formal in zip(results, schema.outputs, strict=True):
        assert isinstance(output, np.ndarray)
        if formal.type_str == required[0].type_str:
            assert output.dtype == x.dtype
        elif formal.type_str.startswith("tensor("):
            assert output.dtype == TENSOR_NAMES[formal.type_str].numpy_dtype
