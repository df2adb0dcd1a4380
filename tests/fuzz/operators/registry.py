"""How each operator is drawn: its inputs from what is in scope, its attributes at random, its outputs typed.

A function below `@operator` or `@operators` adds nodes to a builder; whether a version of the operator set has the
operator, and for which types, its schema says.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module

from tests.fuzz.generator import MICROSOFT, Builder, Draw, Impossible

#: The modules beside this one.
_MODULES = (
    "elementwise", "reductions", "networks", "shapes", "indexing", "quantization", "sequences", "control_flow", "ml",
    "microsoft",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Operator:
    """How an operator is drawn. `name` is what the schemas must have, with its domain; `weight` how often.

    `nests`: it adds bodies or functions. `when`: whether a builder may take it, beyond what the schemas say.
    """

    name: str
    draw: Draw
    weight: float = 1.0
    domain: str = ""
    nests: bool = False
    when: Callable[[Builder], bool] = lambda _: True


_registered: list[Operator] = []


def register(names: Iterable[str], draw: Callable[[str, Builder], object], weight: float) -> None:
    """Several operators that are drawn alike: `draw` takes the operator's name."""
    _registered.extend(Operator(name, partial(draw, name), weight) for name in names)


def operators(names: Collection[str], weight: float = 1.0) -> Callable[[Callable[[str, Builder], object]], object]:
    """Register a function that draws several operators, by the name it takes."""

    def keep(draw: Callable[[str, Builder], object]) -> object:
        register(names, draw, weight)
        return draw

    return keep


def operator(
    name: str, weight: float = 1.0, domain: str = "", *, nests: bool = False,
    when: Callable[[Builder], bool] = lambda _: True,
) -> Callable[[Draw], Draw]:  # fmt: skip
    """Register a function that draws one operator, or one and its like."""

    def keep(draw: Draw) -> Draw:
        _registered.append(Operator(name, draw, weight, domain, nests, when))
        return draw

    return keep


@cache
def all_operators() -> tuple[Operator, ...]:
    for name in _MODULES:
        import_module(f"tests.fuzz.operators.{name}")
    return tuple(_registered)


def usable(g: Builder, choice: Operator, *, nests: bool = True) -> bool:
    """Whether the builder's operator set has an operator, and the builder may take it."""
    if (choice.nests and not nests) or not choice.when(g):
        return False
    return choice.domain == MICROSOFT or g.has(choice.name, choice.domain)


def draw_node(g: Builder, *, nests: bool = True) -> None:
    """Add a node of a random operator, or nothing where it finds no inputs."""
    choices = [o for o in all_operators() if usable(g, o, nests=nests)]
    apply(g, g.rng.choices(choices, [o.weight for o in choices])[0])


def apply(g: Builder, choice: Operator) -> bool:
    """Add nodes of an operator; false, and nothing is added, where it finds no inputs."""
    lists = (g.nodes, g.values, g.inputs, g.initializers, g.root.functions)
    lengths = [len(part) for part in lists]
    try:
        choice.draw(g)
    except Impossible:
        for part, length in zip(lists, lengths, strict=True):
            del part[length:]
        return False
    return True
