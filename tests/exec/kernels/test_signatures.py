"""Every registered kernel against the signature the specification gives the versions it serves."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, helper
from onnx.defs import OpSchema

from onnx_workbench.exec.kernels import load
from onnx_workbench.exec.kernels.registry import REQUIRED, Kernel, all_kernels, find, kernel, prepares

load()

#: Dropped before a kernel sees it: a hint about memory in opset 1.
LEGACY = {"consumed_inputs"}

#: What ONNX Runtime writes into the default domain when it saves an optimised model, and what was dropped from
#: ONNX before its first release.
EXTENSIONS = {
    ("", op_type, 1)
    for op_type in (
        "LayerNormalization", "SimplifiedLayerNormalization", "Affine", "Crop", "DynamicSlice", "ImageScaler",
        "MemcpyFromHost", "MemcpyToHost", "ParametricSoftplus", "Scale", "ScaledTanh", "ThresholdedRelu",
    )
}  # fmt: skip


def schemas_with_kernels() -> list[Any]:
    """Each version of each operator that some kernel of its domain serves."""
    registered = {(k.domain, k.op_type) for k in all_kernels()}
    found = []
    for schema in sorted(onnx.defs.get_all_schemas_with_history(), key=_order):
        if (schema.domain, schema.name) in registered and not schema.deprecated:
            domain = schema.domain or "ai.onnx"
            found.append(pytest.param(schema, id=f"{domain}.{schema.name}-{schema.since_version}"))
    return found


def _order(schema: OpSchema) -> tuple[str, str, int]:
    return schema.domain, schema.name, schema.since_version


@pytest.mark.parametrize("schema", schemas_with_kernels())
def test_kernel_has_the_signature_of_the_version_it_serves(schema: OpSchema) -> None:
    kernel = find(schema.name, schema.since_version, schema.domain)
    check_inputs(kernel, schema)
    check_attributes(kernel, schema)


def check_inputs(kernel: Kernel, schema: OpSchema) -> None:
    formal = list(schema.inputs)
    variadic = bool(formal) and formal[-1].option == OpSchema.FormalParameterOption.Variadic
    plain = formal[:-1] if variadic else formal
    if kernel.variadic:
        assert variadic, f"{kernel} takes any number of inputs, the specification {schema.max_input}"
        assert len(kernel.inputs) <= schema.min_input
    else:
        assert not variadic, f"{kernel} must take any number of inputs"
        assert len(kernel.inputs) == len(plain), f"{kernel} takes {kernel.inputs}"
        required = max(
            (i + 1 for i, p in enumerate(plain) if p.option == OpSchema.FormalParameterOption.Single), default=0
        )
        assert kernel.required_inputs == required, f"{kernel} needs {kernel.required_inputs} inputs, not {required}"


def check_attributes(kernel: Kernel, schema: OpSchema) -> None:
    expected = {name: attribute for name, attribute in schema.attributes.items() if name not in LEGACY}
    assert set(kernel.attributes) == set(expected), f"{kernel} differs in attributes"
    for name, attribute in expected.items():
        default = kernel.attributes[name]
        if attribute.required:
            assert default is REQUIRED, f"{kernel}: {name} is required"
        elif attribute.default_value.type == AttributeProto.UNDEFINED:
            assert default is None, f"{kernel}: {name} has no default, not {default!r}"
        else:
            wanted = plain_value(attribute.default_value)
            if isinstance(wanted, float):
                assert np.float32(default) == np.float32(wanted), f"{kernel}: {name} defaults to {default}"
            else:
                assert (type(default), default) == (type(wanted), wanted), f"{kernel}: {name} defaults to {default!r}"


def plain_value(attribute: AttributeProto) -> Any:
    value = helper.get_attribute_value(attribute)
    if isinstance(value, list):
        return tuple(v.decode() if isinstance(v, bytes) else v for v in value)
    return value.decode() if isinstance(value, bytes) else value


def test_versions_registered_are_versions_of_the_specification() -> None:
    known = {_order(s) for s in onnx.defs.get_all_schemas_with_history()} | EXTENSIONS
    domains = {domain for domain, _, _ in known}
    wrong = [str(k) for k in all_kernels() if k.domain in domains and (k.domain, k.op_type, k.since) not in known]
    assert not wrong


def test_underscores_around_a_parameter_are_no_part_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnx_workbench.exec.kernels.registry._kernels", {})

    def function(x: Any, _y: Any = None, *, _unused: int, min_: float = 0.0, max_: float = 1.0) -> Any:
        return x, min_, max_

    kernel("Bounded", since=1)(function)
    entry = find("Bounded", 1)
    assert entry.inputs == ("x", "y")
    assert entry.attributes == {"unused": REQUIRED, "min": 0.0, "max": 1.0}
    assert entry.function(2, unused=1, min=-1.0) == (2, -1.0, 1.0)

    prepares(function)(lambda constants, **attributes: (constants, attributes))
    assert entry.prepare is not None


def test_a_version_can_only_lack_what_the_function_has() -> None:
    def function(x: Any, *, there: int = 0) -> Any:
        return x, there

    with pytest.raises(ValueError, match="has no parameter missing"):
        kernel("Nothing", since=1, without=("missing",))(function)
    assert "Nothing" not in {k.op_type for k in all_kernels()}
