"""`kernel`, the decorator with which scripts and extensions add custom operators.

Besides the kernel it registers a schema, from the function's signature, so that checks and the palette know the
operator, and a rule for the types of its outputs.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from onnx_workbench.exec import kernels
from onnx_workbench.exec.errors import KernelError
from onnx_workbench.exec.kernels import registry
from onnx_workbench.model import extensions, schemas
from onnx_workbench.model.errors import ModelError, is_interrupt
from onnx_workbench.model.ir.attributes import AttributeKind, make_attribute
from onnx_workbench.model.progress import Cancelled
from onnx_workbench.model.schemas import traits
from onnx_workbench.model.schemas.schema import ANY, UNLIMITED, AttributeSchema, Parameter, Schema

F = TypeVar("F", bound=Callable[..., Any])

#: Exceptions that a kernel raises on purpose; any other one is a bug in it.
_MEANT = (KernelError, MemoryError, ModelError, Cancelled)
_KINDS = {
    "float": AttributeKind.FLOAT,
    "int": AttributeKind.INT,
    "bool": AttributeKind.INT,
    "str": AttributeKind.STRING,
}


def kernel(
    op_type: str,
    *,
    domain: str,
    since: int = 1,
    outputs: Sequence[str] = ("output",),
    infer: str | Callable[..., Any] | None = None,
) -> Callable[[F], F]:
    """Register a function as the kernel of an operator of a domain, from version `since` on.

    Positional parameters are the inputs in order, numpy arrays; those with a default are optional, and `*name` takes
    any number. Keyword-only parameters are the attributes with their defaults. The function returns an array, or a
    tuple if it has several `outputs`. Its docstring is the operator's documentation.

    `infer` defines the types of the outputs: ``"same as input 0"``, or, in a file that is loaded as an extension, a
    function of a call (`call.inputs`, `call.dims(0)`, `call.attribute("axis", 0)`) that returns a type, or None, for
    each output. A later version of the operator is another function with a higher `since`. Registering a custom
    operator again replaces it. ValueError if this version is built into the program.

    >>> import numpy as np, onnx_workbench as ow
    >>> @ow.kernel("Twice", domain="my.example", infer="same as input 0")
    ... def twice(x, *, plus=0.0):
    ...     return x * 2 + np.asarray(plus, x.dtype)
    >>> text = '''<ir_version: 8, opset_import: ["my.example" : 1]>
    ...     g (float[2] x) => (float[2] y) { y = my.example.Twice <plus = 1.0> (x) }'''
    >>> ow.Session(ow.load(text.encode())).run({"x": np.array([1, 2], np.float32)}).outputs["y"].tolist()
    [3.0, 5.0]
    """

    def register(function: F) -> F:
        key = (domain, op_type, since)
        unregister_before = _own.pop(key, None)
        if unregister_before is not None:
            unregister_before()
        if domain in traits.TABLES:
            kernels.load()  # so that a built-in operator of this name is found
        path = inspect.getsourcefile(function) or "<unknown>"
        registry.kernel(op_type, since=since, domain=domain)(_reporting(function, path))
        undo: list[Callable[[], object]] = [functools.partial(registry.remove, op_type, domain, since)]
        if schemas.find(op_type, since, domain) is None:
            schema = _schema(function, op_type, domain, since, outputs, path)
            schemas.register([schema])
            undo.append(functools.partial(schemas.unregister, [schema]))
        if infer is not None:
            from onnx_workbench.model.inference import custom_rules

            custom_rules.add(f"{domain}::{op_type}", infer)
            undo.append(functools.partial(custom_rules.remove, f"{domain}::{op_type}"))

        def unregister() -> None:
            _own.pop(key, None)
            for step in undo:
                step()

        _own[key] = unregister
        extensions.register("operator", f"{domain}::{op_type}", unregister)
        return function

    return register


def remove(op_type: str, *, domain: str, since: int = 1) -> None:
    """Unregister an operator that `kernel` registered: kernel, schema and rule; no effect if it did not."""
    unregister = _own.get((domain, op_type, since))
    if unregister is not None:
        unregister()


#: Functions that unregister the operators registered here.
_own: dict[tuple[str, str, int], Callable[[], None]] = {}


def _reporting(function: Callable[..., Any], path: str) -> Callable[..., Any]:
    """Wrap the function so that unexpected exceptions are reported with its file."""

    @functools.wraps(function)
    def call(*inputs: Any, **attributes: Any) -> Any:
        try:
            return function(*inputs, **attributes)
        except _MEANT:
            raise
        except BaseException as error:
            if is_interrupt(error):
                raise
            raise KernelError(extensions.blame(error, path)) from error

    return call


def _schema(
    function: Callable[..., Any], op_type: str, domain: str, since: int, outputs: Sequence[str], path: str
) -> Schema:
    """Return a schema made from a function's signature."""
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "ctx"]
    inputs = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)]
    required = [p for p in inputs if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    is_variadic = any(p.kind is p.VAR_POSITIONAL for p in inputs)
    attributes = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    return Schema(
        op_type,
        domain,
        since,
        inputs=tuple(_parameter(p) for p in inputs),
        outputs=tuple(Parameter(name, "", ANY) for name in outputs),
        attributes={p.name.strip("_"): _attribute(p) for p in attributes},
        doc=inspect.getdoc(function) or "",
        min_inputs=len(required),
        max_inputs=UNLIMITED if is_variadic else len(inputs),
        min_outputs=1,
        max_outputs=len(outputs),
        origin=re.split(r"[/\\]", path)[-1],
    )


def _parameter(parameter: inspect.Parameter) -> Parameter:
    if parameter.kind is parameter.VAR_POSITIONAL:
        return Parameter(parameter.name, "", ANY, "variadic", homogeneous=False, min_arity=0)
    return Parameter(parameter.name, "", ANY, "single" if parameter.default is parameter.empty else "optional")


def _attribute(parameter: inspect.Parameter) -> AttributeSchema:
    """Return the schema of an attribute; its kind from the default or the annotation, else any kind."""
    name, default = parameter.name.strip("_"), parameter.default
    if default is parameter.empty or default is None:
        annotation = getattr(parameter.annotation, "__name__", str(parameter.annotation))
        kind = _KINDS.get(annotation.partition(" |")[0], AttributeKind.UNDEFINED)
        return AttributeSchema(name, kind, required=default is parameter.empty)
    attribute = make_attribute(name, default)
    return AttributeSchema(name, attribute.kind, default=attribute)
