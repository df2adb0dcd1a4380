"""Kernel registry: `@kernel` registers the function of an operator version, `find` looks it up."""

from __future__ import annotations

import inspect
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, TypeVar

from onnx_workbench.exec.errors import MissingKernelError
from onnx_workbench.model.schemas import registry as schemas

KernelFunction = Callable[..., Any]
#: Given the constant inputs (None where not constant) and the attributes, returns a faster function of all
#: inputs, or None to use the plain kernel.
Prepare = Callable[..., KernelFunction | None]
F = TypeVar("F", bound=KernelFunction)
T = TypeVar("T")

REQUIRED: Any = inspect.Parameter.empty


@dataclass(slots=True, eq=False)
class Kernel:
    """A function and the first operator version that it implements.

    Positional parameters of `function` are the ONNX inputs in order, keyword-only ones the attributes with the
    specification's defaults; several outputs are a tuple. With `takes_context` the first parameter is a Context.
    `source` is the function as written, whose attribute names may have underscores: `_locale` is unused, `min_` would
    hide a built-in.
    """

    op_type: str
    domain: str
    since: int
    function: KernelFunction
    source: KernelFunction
    takes_context: bool
    inputs: tuple[str, ...]
    required_inputs: int
    variadic: bool
    attributes: dict[str, Any] = field(default_factory=dict)  # name → default, REQUIRED where there is none
    any_attributes: bool = False  # the function takes **attributes
    prepare: Prepare | None = None
    #: Inputs that may be omitted before required ones: annotated with None and without a default.
    absent_before: frozenset[int] = frozenset()

    def __str__(self) -> str:
        return f"{self.domain or 'ai.onnx'}::{self.op_type}-{self.since}"

    def arity_problem(self, given: Sequence[bool]) -> str:
        """Describe a missing required input or an excess of inputs of a node; empty if there is none."""
        for index in range(min(self.required_inputs, len(self.inputs))):
            if index not in self.absent_before and not (index < len(given) and given[index]):
                return f"input {index} ({self._names[index]}) is left out; expected a value"
        used = max((index + 1 for index, is_given in enumerate(given) if is_given), default=0)
        if used > len(self.inputs) and not self.variadic:
            expected = f"at most {len(self.inputs)} ({', '.join(self._names)})" if self.inputs else "none"
            return f"it has {used} input{'s' if used > 1 else ''}; expected {expected}"
        return ""

    @property
    def _names(self) -> Sequence[str]:
        """Return the input names in the specification, if it has the operator."""
        schema = schemas.find(self.op_type, self.since, self.domain)
        formal = schema.inputs if schema is not None else ()
        return [formal[index].name if index < len(formal) else name for index, name in enumerate(self.inputs)]

    def arguments(self, inputs: Sequence[T]) -> Sequence[T]:
        """Return a node's inputs without trailing empty ones that the function does not take."""
        return inputs if self.variadic else inputs[: len(self.inputs)]


@dataclass(slots=True, eq=False)
class _Registration:
    """A registered function. Its Kernel is made on the first lookup: a run needs few of hundreds."""

    function: KernelFunction
    op_type: str
    domain: str
    since: int
    without: frozenset[str]
    defaults: dict[str, Any]
    prepare: Prepare | None = None
    described: Kernel | None = None

    @property
    def kernel(self) -> Kernel:
        """Its Kernel, made on first use."""
        if self.described is None:
            described = _describe(self.function, self.op_type, self.domain, self.since, self.without)
            described.attributes.update(self.defaults)
            described.prepare = self.prepare
            self.described = described
        return self.described


_kernels: dict[tuple[str, str], list[_Registration]] = {}


def kernel(
    op_type: str, *, since: int, domain: str = "", without: Sequence[str] = (), defaults: dict[str, Any] | None = None
) -> Callable[[F], F]:
    """Register a function as the kernel of an operator from opset `since` on, until the next registered one.

    One function may implement several versions: `without` names the trailing optional inputs and attributes that this
    version lacks, `defaults` the attributes with another, equivalent default there.
    """

    def register(function: F) -> F:
        if without and (unknown := set(without) - set(inspect.signature(function).parameters)):
            missing = ", ".join(sorted(unknown))
            msg = f"{function.__name__} has no parameter {missing} that {op_type}-{since} could lack"
            raise ValueError(msg)
        entry = _Registration(function, op_type, domain, since, frozenset(without), defaults or {})
        versions = _kernels.setdefault((domain, op_type), [])
        if any(v.since == since for v in versions):
            msg = f"kernel {domain or 'ai.onnx'}::{op_type}-{since} is registered twice"
            raise ValueError(msg)
        versions.append(entry)
        versions.sort(key=lambda v: v.since)
        return function

    return register


class _Compiled:
    """The plain kernel of an operator that `compiled` registers."""

    def __init__(self, make: Callable[..., KernelFunction]) -> None:
        self._make = make
        x = inspect.Parameter("x", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        self.__signature__ = inspect.Signature([x, *inspect.signature(make).parameters.values()])

    def __call__(self, x: Any, **attributes: Any) -> Any:
        return self._make(**attributes)(x)


def compiled(op_type: str, *, since: int, domain: str, without: Sequence[str] = ()) -> Callable[[F], F]:
    """Register a function that makes the kernel of a single input from the attributes, once per node and plan."""

    def register(make: F) -> F:
        function = _Compiled(make)
        kernel(op_type, since=since, domain=domain, without=without)(function)
        prepares(function)(lambda _constants, **attributes: make(**attributes))
        return make

    return register


def prepares(*functions: KernelFunction) -> Callable[[F], F]:
    """Register a plan-time preparation (constant packing) for kernels already registered with these functions.

    Called once per node and plan as ``prepare(constants, **attributes)``, where constants[i] is the array of input i if
    it never changes, else None. It packs, transposes or casts in advance and returns a function of all inputs
    (constants included, same order), or None when the plain kernel is as good.
    """

    def register(prepare: F) -> F:
        for versions in _kernels.values():
            for entry in versions:
                if entry.function in functions:
                    entry.prepare = prepare
                    if entry.described is not None:
                        entry.described.prepare = prepare
        return prepare

    return register


def keeps(index: int, make: Callable[..., Any], zero_index: int | None = None) -> Callable[[F], F]:
    """Let a kernel get what `make` makes of a constant input, once per node and plan, in the place of that input.

    make(constant, zero point, attributes) returns None where the constant itself is as good. A zero point must be
    constant too.
    """

    def register(function: F) -> F:
        def prepare(constants: Sequence[Any], **attributes: Any) -> KernelFunction | None:
            has_zero = zero_index is not None and len(constants) > zero_index
            zero = constants[zero_index] if zero_index is not None and has_zero else None
            if constants[index] is None or (has_zero and zero is None):
                return None
            kept = make(constants[index], zero, attributes)

            def run(*inputs: Any) -> Any:
                return function(*inputs[:index], kept, *inputs[index + 1 :], **attributes)

            return None if kept is None else run

        prepares(function)(prepare)
        return function

    return register


def remove(op_type: str, domain: str, since: int) -> None:
    """Unregister what `kernel` registered; no effect if there is no such version."""
    left = [version for version in _kernels.get((domain, op_type), ()) if version.since != since]
    if left:
        _kernels[domain, op_type] = left
    else:
        _kernels.pop((domain, op_type), None)


def find(op_type: str, opset: int, domain: str = "") -> Kernel:
    """Return the newest kernel not newer than `opset`; MissingKernelError lists the existing versions."""
    versions = _kernels.get((domain, op_type), ())
    index = bisect_right(versions, opset, key=attrgetter("since"))
    if index:
        return versions[index - 1].kernel
    have = ", ".join(str(v.since) for v in versions)
    expected = f"one of the versions {have}" if have else "an operator that is known, or a function of the model"
    msg = f"no kernel for {domain or 'ai.onnx'}::{op_type} at opset {opset}; expected {expected}"
    raise MissingKernelError(msg)


def all_kernels() -> Iterator[Kernel]:
    """Return every registered kernel, by domain, operator and version."""
    for key in sorted(_kernels):
        yield from (entry.kernel for entry in _kernels[key])


def _describe(function: KernelFunction, op_type: str, domain: str, since: int, without: frozenset[str]) -> Kernel:
    signature = inspect.signature(function).parameters
    parameters: Sequence[inspect.Parameter] = [p for p in signature.values() if p.name not in without]
    takes_context = bool(parameters) and parameters[0].name == "ctx"
    if takes_context:
        parameters = parameters[1:]
    inputs = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    attributes = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    written = {p.name.strip("_"): p.name for p in attributes if p.name != p.name.strip("_")}
    return Kernel(
        op_type=op_type,
        domain=domain,
        since=since,
        function=_under_plain_names(function, written) if written else function,
        source=function,
        takes_context=takes_context,
        inputs=tuple(p.name.strip("_") for p in inputs),
        required_inputs=sum(p.default is p.empty for p in inputs),
        variadic=any(p.kind is p.VAR_POSITIONAL for p in parameters),
        attributes={p.name.strip("_"): p.default for p in attributes},
        any_attributes=any(p.kind is p.VAR_KEYWORD for p in parameters),
        absent_before=frozenset(
            i for i, p in enumerate(inputs) if p.default is p.empty and str(p.annotation).endswith("| None")
        ),
    )


def _under_plain_names(function: KernelFunction, written: dict[str, str]) -> KernelFunction:
    """Return the function with the specification's attribute names, where its own have underscores."""

    def call(*inputs: Any, **attributes: Any) -> Any:
        return function(*inputs, **{written.get(name, name): value for name, value in attributes.items()})

    return call
