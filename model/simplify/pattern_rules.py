"""Rules from files: what a pattern is replaced by, as a pass of the simplifier.

A file holds functions in ONNX text. Two of one domain are a rule that is called as the domain, ``pattern`` and
``replacement``, with the same inputs, outputs and attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial

from onnx_workbench.model import schemas
from onnx_workbench.model.edits.functions import FUNCTIONS_SINCE
from onnx_workbench.model.edits.nodes import import_operators
from onnx_workbench.model.edits.rewriter import GraphRewriter
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.history.clone import Cloner
from onnx_workbench.model.history.steps import SetField
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.io.reader.sniff import FileForm, FileFormat
from onnx_workbench.model.io.text_formats import parse
from onnx_workbench.model.ir.attributes import Attribute
from onnx_workbench.model.ir.graph import Function, Node
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.schemas import traits
from onnx_workbench.model.schemas.schema import Schema
from onnx_workbench.model.simplify.context import MatchContext
from onnx_workbench.model.simplify.passes import Match, Pass
from onnx_workbench.model.simplify.pattern import Pattern
from onnx_workbench.model.simplify.pattern_matching import Matcher, Occurrence
from onnx_workbench.model.text.formatting import display, plural

_PATTERN, _REPLACEMENT = "pattern", "replacement"
LONGEST = 1 << 20  # bytes of a file of rules
#: A model in front of the functions, which the parser demands; its line is taken off the numbers in messages.
_FRONT = b'<ir_version: 10, opset_import: ["" : 1]> rules () => () {}\n'


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern, and the function whose nodes replace each of its occurrences.

    `called` is a function that these call, which the model gets with the first of them.
    """

    name: str
    pattern: Pattern
    replacement: Function
    called: Function | None = None

    @classmethod
    def of(cls, name: str, pattern: Function, replacement: Function, called: Function | None = None) -> Rule:
        """Check the functions; ModelError says what does not fit."""
        rule = cls(name, Pattern.of(pattern), replacement, called)
        _check_signatures(name, pattern, replacement)
        for value in replacement.body.values():
            if not value.is_defined:
                raise _wrong(name, f"nothing in the replacement defines {value.name}", replacement)
        return rule

    def as_pass(self) -> Pass:
        """Return the pass that replaces every occurrence; its id and title are the rule's name.

        It is not applied to what it made itself, unless it makes a model smaller each time.
        """
        before, after = len(self.pattern.nodes), len(list(self.replacement.body.nodes))
        doc = f"Replaces {plural(before, 'node')} by {plural(after, 'node')}."
        return Pass(self.name, self.name, doc, self._find, may_grow=after > before)

    def _find(self, context: MatchContext) -> Iterator[Match]:
        is_smaller = len(list(self.replacement.body.nodes)) < len(self.pattern.nodes)
        made = context.made_by.setdefault(self.name, set())

        def may_take(node: Node) -> bool:
            return context.is_chosen(node) and not node.device_configurations and (is_smaller or node not in made)

        matcher = Matcher(
            self.pattern, context.constants, context.type_of, may_take=may_take, progress=context.progress
        )
        for occurrence in matcher.search(context.graphs):
            nodes = occurrence.of(self.pattern)
            graph = nodes[0].graph
            reason = _misfit(self.replacement, {} if graph is None else graph.opset_imports)
            if reason:
                context.refuse(self.name, nodes[-1], reason)
                continue
            yield occurrence.match(self.pattern, partial(self._replace, context, occurrence))
        for node in matcher.left_out:
            context.refuse(self.name, node, "the place was left out, as it shares nodes with another one")

    def _replace(self, context: MatchContext, occurrence: Occurrence, rewriter: GraphRewriter) -> None:
        nodes = occurrence.of(self.pattern)
        graph = nodes[0].graph
        assert graph is not None
        self._add_called(rewriter)
        for domain in {node.domain for body in self.replacement.body.walk() for node in body.nodes}:
            version = self.replacement.opset_imports.get(domain, schemas.newest_opset(domain))
            import_operators(rewriter.edit, graph, domain, version)
        inputs = [occurrence.values[value] for value in self.pattern.inputs]
        outputs = [value for own in self.pattern.outputs if (value := occurrence.values[own]) is not None]
        replacing = rewriter.replace_nodes(nodes, self.replacement, inputs, outputs, occurrence.attributes)
        context.made_by[self.name].update(replacing)
        for node in replacing:
            result, given = node.outputs[0] if node.outputs else None, node.inputs[0] if node.inputs else None
            if node.op_type == "Identity" and given in inputs and context.can_replace(result, given):
                assert result is not None
                assert given is not None
                rewriter.replace_value(result, given)
        rewriter.collect_values(v for v in occurrence.values.values() if v is not None and v not in outputs)

    def _add_called(self, rewriter: GraphRewriter) -> None:
        edit, model = rewriter.edit, rewriter.edit.model
        if self.called is None or model.function(*self.called.key) is not None:
            return
        edit.do(SetField(model, "functions", (*model.functions, Cloner().function(self.called))))
        import_operators(edit, model.graph, self.called.domain, 1)
        if model.ir_version < FUNCTIONS_SINCE:
            edit.do(SetField(model, "ir_version", FUNCTIONS_SINCE))


def rules_in(data: bytes, progress: Progress = SILENT) -> list[Rule]:
    """Return the rules of a file, in its order. ModelError: what is wrong with it, and in which function."""
    pairs = _functions(data, progress)
    for name, found in pairs.items():
        if len(found) == 1:
            raise _wrong(name, f"it has no {_REPLACEMENT if _PATTERN in found else _PATTERN}", *found.values())
    return [Rule.of(name, found[_PATTERN], found[_REPLACEMENT]) for name, found in pairs.items()]


def patterns_in(data: bytes, progress: Progress = SILENT) -> dict[str, Pattern]:
    """Return the patterns of a file by the names of their rules; their replacements may be missing."""
    pairs = _functions(data, progress)
    for name, found in pairs.items():
        if _PATTERN not in found:
            raise _wrong(name, f"it has no {_PATTERN}", *found.values())
    return {name: Pattern.of(found[_PATTERN]) for name, found in pairs.items()}


def function_in(data: bytes, progress: Progress = SILENT) -> Function:
    """Return the only function in a text, as that for a replacement; ModelError for none or several."""
    functions = _parsed(data, progress)
    if len(functions) != 1:
        raise ModelError("One function is expected", f"The text has {plural(len(functions), 'function')}.")
    _require_operators(functions[0])
    return functions[0]


def _parsed(data: bytes, progress: Progress) -> tuple[Function, ...]:
    if len(data) > LONGEST:
        raise ModelError("The rules are too long", f"At most {LONGEST:,} bytes are read.")
    try:
        data.decode("utf-8-sig")
        message = parse(_FRONT + data.removeprefix(b"\xef\xbb\xbf"), FileFormat(FileForm.ONNX_TEXT), progress)
    except UnicodeDecodeError as error:
        raise ModelError("The text is not UTF-8", f"Byte {error.start:,} is not valid UTF-8.") from error
    except ModelError as error:  # its first number is that of a line
        detail = re.sub(r"^\D*\d+", lambda found: _one_less(found[0]), error.detail)
        raise ModelError(error.title, detail, error.place) from error
    return load(message.SerializeToString()).functions


def _one_less(text: str) -> str:
    start = text.rstrip("0123456789")
    return f"{start}{int(text[len(start) :]) - 1}"


def _functions(data: bytes, progress: Progress) -> dict[str, dict[str, Function]]:
    """Return the functions by domain and name; ModelError for others than patterns and replacements."""
    pairs: dict[str, dict[str, Function]] = {}
    for function in _parsed(data, progress):
        name = function.domain or "ai.onnx"
        if function.name not in (_PATTERN, _REPLACEMENT):
            raise _wrong(
                name, f"it has a function {function.name}; only {_PATTERN} and {_REPLACEMENT} are expected", function
            )
        if function.name in pairs.setdefault(name, {}):
            raise _wrong(name, f"it has two functions {function.name}; give each rule a domain of its own", function)
        _require_operators(function)
        pairs[name][function.name] = function
    if not pairs:
        raise ModelError("The file has no rules", f"A rule is two functions, {_PATTERN} and {_REPLACEMENT}.")
    return pairs


def _require_operators(function: Function) -> None:
    """Check that operators of known domains exist in the versions that a function imports."""
    for node in (node for graph in function.body.walk() for node in graph.nodes):
        domain = node.domain or "ai.onnx"
        version = function.opset_imports.get(node.domain)
        if version is None:
            raise _wrong(function.domain, f"its {function.name} imports no version of {domain}", node)
        if node.domain in traits.TABLES and schemas.find(node.op_type, version, node.domain) is None:
            near = get_close_matches(node.op_type, [s.name for s in schemas.operators({node.domain: version})], 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise _wrong(function.domain, f"{domain} {version} has no operator {node.op_type}{hint}", node)


def _check_signatures(name: str, pattern: Function, replacement: Function) -> None:
    for what in ("inputs", "outputs"):
        one, other = (
            ", ".join(value.name for value in getattr(function.body, what)) for function in (pattern, replacement)
        )
        if one != other:
            raise _wrong(name, f"its pattern has the {what} ({one}), its replacement ({other})", replacement)
    given, wanted = ({*f.attributes, *(a.name for a in f.attribute_defaults)} for f in (pattern, replacement))
    captured = {a.reference for a in _attributes(pattern)} - {""}
    for attribute in sorted(given - captured):
        raise _wrong(name, f"no node of its pattern has the attribute {attribute}", pattern)
    for attribute in sorted((wanted | {a.reference for a in _attributes(replacement)}) - captured - {""}):
        raise _wrong(name, f"its replacement uses the attribute {attribute}, which its pattern lacks", replacement)


def _attributes(function: Function) -> Iterator[Attribute]:
    for graph in function.body.walk():
        for node in graph.nodes:
            yield from node.attributes.values()


def _misfit(replacement: Function, imports: Mapping[str, int]) -> str:
    """Return why a graph cannot hold the nodes of a replacement: an operator differs in its opset; empty if it can."""
    for node in (node for graph in replacement.body.walk() for node in graph.nodes):
        here, there = imports.get(node.domain), replacement.opset_imports.get(node.domain)
        if here is None or there is None or here == there:
            continue
        own, other = (schemas.find(node.op_type, version, node.domain) for version in (here, there))
        domain = node.domain or "ai.onnx"
        if own is None and other is not None:
            return f"{domain} {here}, which the model imports, has no {node.op_type}, which {there} has"
        if own is not None and (other is None or not _is_alike(node, own, other)):
            return f"{node.op_type} of {domain} {there} is another one in {domain} {here}, which the model imports"
    return ""


def _is_alike(node: Node, own: Schema, other: Schema) -> bool:
    """Return whether a node has the same inputs and attributes in two versions; types may grow, as may options that it
    does not use.
    """
    count, given = len(node.inputs), node.attributes
    if count < own.min_inputs or any(a.name != b.name for a, b in zip(own.inputs[:count], other.inputs, strict=False)):
        return False
    for name in {*own.attributes, *other.attributes}:
        here, there = own.attributes.get(name), other.attributes.get(name)
        if here is None or there is None:
            if name in given or (here is not None and here.required):
                return False
        elif (here.default and here.default.value) != (there.default and there.default.value):
            return False
    return True


def _wrong(name: str, why: str, place: object) -> ModelError:
    return ModelError(f"The rule {display(name, 60)} is not valid", why[0].upper() + display(why[1:], 300) + ".", place)
