"""Texts of the program and their translations, one JSON file per language in resources/languages.

python packaging/translations.py update           give catalogues new texts without translations; drop unused ones
python packaging/translations.py check            say what is wrong with them, and what is not translated yet
python packaging/translations.py build [FOLDER]   translate copies of sources: for this checkout, or into a folder

A text is a string literal or f-string in the code that is no key, name or format. What is none can mostly be told by
where it stands and how it is spelt; what cannot is listed in packaging/texts.json.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
CATALOGUES = ROOT / "resources" / "languages"
IN_CHECKOUT = ROOT / "packaging" / "launcher" / "onnx_workbench" / "languages"  # where viewer.program.language looks
PACKAGES = ("viewer", "model", "exec")
#: Commands and their messages stay English, as scripts read them; what an operator expects is told in the words of its
#: English specification.
LEFT_OUT = (
    "viewer/cli/", "viewer/preflight.py", "viewer/program/desktop.py", "viewer/program/folders.py",
    "viewer/program/language.py", "viewer/program/version.py", "model/schemas/", "model/sandbox_child.py",
    "exec/kernels/",  # but for the registry, whose messages are about no operator's inputs
    "viewer/pictures/svg.py", "viewer/pictures/web_page.py",
)  # fmt: skip
REGISTRY = "exec/kernels/registry.py"


_LISTS: dict[str, Any] = json.loads((ROOT / "packaging" / "texts.json").read_text("utf-8"))


class Text(NamedTuple):
    """A string in a source file."""

    node: ast.Constant | ast.JoinedStr
    text: str  # of an f-string: with its expressions in braces
    parents: tuple[ast.AST, ...]  # the innermost first


def strings_in(tree: ast.Module) -> Iterator[Text]:
    """Yield every string literal and f-string that is a value: no docstring, no annotation."""
    yield from _strings_below(tree, ())


def _strings_below(node: ast.AST, parents: tuple[ast.AST, ...]) -> Iterator[Text]:
    if isinstance(node, ast.JoinedStr):
        yield Text(node, template(node), parents)
        return
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield Text(node, node.value, parents)
        return
    for name, field in ast.iter_fields(node):
        if name in {"annotation", "returns"} or (isinstance(node, ast.Expr) and isinstance(field, ast.Constant)):
            continue
        for child in field if isinstance(field, list) else (field,):
            if isinstance(child, ast.AST):
                yield from _strings_below(child, (node, *parents))


def template(node: ast.JoinedStr) -> str:
    """Return the text of an f-string as it would stand between its quotes, with braces doubled."""
    parts = []
    for value in node.values:
        if isinstance(value, ast.Constant):
            parts.append(str(value.value).replace("{", "{{").replace("}", "}}"))
        elif isinstance(value, ast.FormattedValue):
            conversion = f"!{chr(value.conversion)}" if value.conversion > 0 else ""
            spec = f":{template(value.format_spec)}" if isinstance(value.format_spec, ast.JoinedStr) else ""
            parts.append(f"{{{ast.unparse(value.value)}{conversion}{spec}}}")
    return "".join(parts)


#: Functions and classes whose arguments are keys, patterns, paths or names.
_CALLS_WITH_KEYS = frozenset(_LISTS["calls_with_keys"])
_ROWS = frozenset({"PropertyRow", "section", "text_row"})  # whose first argument is a key
_KEYWORDS = frozenset(_LISTS["keywords_of_keys"])
#: No words, one word that is spelt as a name (``snake_case``, ``camelCase``, ``TwoWords``, ``a.b``, ``Ctrl+C``), codes.
_NAME = re.compile(
    r"[^A-Za-z]*|[a-z0-9-]+|[\w./:*<>=@\\-]*[_/:*.\\][\w./:*<>=@\\-]*[^\s.:…!?]|[A-Z0-9_]+|[a-z]+[A-Z]\w*|[A-Z][a-z0-9]+[A-Z]\w*"
    r"|\.\w+|#[0-9a-fA-F]+|\w|%[a-z]|((Ctrl|Alt|Shift)\+)+\S+|Del|Ins|Home|Space|Return|Backspace|F\d+|<\w|-\w|(\w,)*\w+->\w+"
)

#: A word with a blank before or behind it, which is joined to others.
_PART = re.compile(r" [a-z]{2,} ?|[a-z]{2,} ")


def is_text(text: Text, file: str) -> bool:
    """Tell whether a string is shown to people: by its place, by packaging/texts.json, by its spelling."""
    parent = text.parents[0]
    if stands_as_key(text) or text.text in _LISTS["not_texts"].get(file, ()):
        return False
    if isinstance(parent, ast.Dict) and text.node in parent.keys:
        return False
    if text.text in _LISTS["texts"].get(file, ()) or _is_noun(text) or any(map(_counts, ast.walk(text.node))):
        return True
    if file.startswith("viewer/") and _PART.fullmatch(text.text):
        return True
    expressions = r"\{[^{}]*(\{[^{}]*\}[^{}]*)*\}"
    words = re.sub(expressions, "", text.text) if isinstance(text.node, ast.JoinedStr) else text.text.strip()
    return not (_NAME.fullmatch(words) or (not file.startswith("viewer/") and " " not in words))


def _is_noun(text: Text) -> bool:
    return _counts(text.parents[0])


def _counts(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "plural"


def stands_as_key(text: Text) -> bool:
    """Tell by its place that a string is compared, looked up, or handed to what takes keys."""
    below: ast.AST = text.node
    for parent in text.parents:
        match parent:
            case ast.Subscript(slice=inner) if inner is below:
                return True
            case ast.Compare() | ast.MatchValue() | ast.Assert():
                return True
            case ast.keyword(arg=name) if name in _KEYWORDS:
                return True
            case ast.Call(func=function, args=arguments) if function is not below:
                name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
                return name in _CALLS_WITH_KEYS or (name in _ROWS and below in arguments[:1])
            case ast.Assign(targets=[ast.Name(id="__all__" | "__slots__" | "__match_args__")]):
                return True
            case ast.Tuple() | ast.Starred() | ast.List() | ast.Set() | ast.BinOp() | ast.IfExp() | ast.keyword():
                pass
            case ast.stmt():
                return any(isinstance(outer, ast.FunctionDef) and outer.name == "__repr__" for outer in text.parents)
            case _:
                return False
        below = parent
    return False


def collect() -> dict[str, dict[str, Text]]:
    """Return the texts of each file, in the order in which they stand there."""
    found = {}
    for file, source in _sources():
        texts = {one.text: one for one in strings_in(ast.parse(source)) if is_text(one, file)}
        if texts:
            found[file] = texts
    return found


def _sources() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            if file == REGISTRY or not file.startswith(LEFT_OUT):
                yield file, path.read_text("utf-8")


def load(path: Path) -> dict[str, Any]:
    """Return a catalogue, which has the translations of each file."""
    catalogue: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return catalogue


def update() -> None:
    """Give each catalogue the texts of today: new ones without a translation, none that is no longer there."""
    texts = collect()
    for path in sorted(CATALOGUES.glob("*.json")):
        catalogue = load(path)
        known = catalogue["texts"]
        catalogue["texts"] = {
            file: {text: known.get(file, {}).get(text) for text in listed} for file, listed in texts.items()
        }
        path.write_text(json.dumps(catalogue, ensure_ascii=False, indent=1) + "\n", "utf-8")


def parse_template(text: str) -> ast.JoinedStr:
    """Parse the text of an f-string, as `template` writes it; SyntaxError where it is none."""
    quotes = "'''" if '"""' in text else '"""'
    escaped = text.replace("\\", "\\\\")
    expression = ast.parse(f"f{quotes}{escaped} {quotes}", mode="eval").body  # a space: the text may end with a quote
    assert isinstance(expression, ast.JoinedStr)
    last = expression.values[-1]
    assert isinstance(last, ast.Constant)
    last.value = str(last.value)[:-1]
    return expression


class _WithoutWords(ast.NodeTransformer):
    """Empties the strings in an expression, which may be translated too."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant("") if isinstance(node.value, str) else node


def _expressions(text: str) -> tuple[list[str], list[str]]:
    """Return the expressions of an f-string without their words: those that are values, and those that choose words."""
    values: list[str] = []
    choices: list[str] = []
    for part in parse_template(text).values:
        if isinstance(part, ast.FormattedValue):
            is_choice = isinstance(part.value, ast.IfExp) and all(
                isinstance(word, (ast.Constant, ast.JoinedStr)) for word in (part.value.body, part.value.orelse)
            )
            (choices if is_choice else values).append(ast.dump(_WithoutWords().visit(part)))
    return values, choices


def faults(text: str, translation: str, *, is_format: bool) -> list[str]:
    """Say what a translation lacks: expressions, a mnemonic, an ellipsis, line breaks, tags."""
    found = []
    if is_format:
        try:
            (values, choices), (given, chosen) = _expressions(text), _expressions(translation)
        except SyntaxError as error:
            return [f"it is no f-string: {error.msg}"]
        if sorted(values) != sorted(given) or not set(chosen) <= set(choices):
            found.append(
                "its expressions are others; words in quotes inside them may differ, and choices of words be left out"
            )
    mnemonic = r"(?<!&)&[A-Za-z0-9]"
    if len(re.findall(mnemonic, text)) != len(re.findall(mnemonic, translation)):
        found.append("a mnemonic (&X) is missing or too many")
    if text.rstrip().endswith("…") != translation.rstrip().endswith("…"):
        found.append("an ellipsis at the end is missing or too many")
    for pattern, what in ((r"</?\w+[^>]*>", "tags"), (r"\n", "line breaks"), (r"\t", "tabs")):
        if len(re.findall(pattern, text)) != len(re.findall(pattern, translation)):
            found.append(f"its {what} are others")
    return found


def check() -> tuple[list[str], list[str]]:
    """Return what is wrong with catalogues, and the texts that have no translation yet."""
    wrong, missing = [], []
    texts = collect()
    for path in sorted(CATALOGUES.glob("*.json")):
        catalogue = load(path)["texts"]
        for file in sorted({*texts, *catalogue}):
            listed, known = texts.get(file, {}), catalogue.get(file, {})
            for text in {**listed, **known}:
                place = f"{path.stem}: {file}: {text!r}"
                if text not in listed or text not in known:
                    wrong.append(f"{place} is {'new' if text in listed else 'no longer there'}; run update")
                elif known[text] is None:
                    missing.append(place)
                else:
                    is_format = isinstance(listed[text].node, ast.JoinedStr)
                    wrong += [f"{place}: {fault}" for fault in faults(text, known[text], is_format=is_format)]
    return wrong, missing


def build(folder: Path) -> list[str]:
    """Write the sources whose texts are translated into a folder for each language; return the languages."""
    languages = {path.stem: load(path)["texts"] for path in sorted(CATALOGUES.glob("*.json"))}
    for language, catalogue in languages.items():
        shutil.rmtree(folder / language, ignore_errors=True)
        for file, source in _sources():
            translated = translate(
                source, file, {key: text for key, text in catalogue.get(file, {}).items() if text is not None}
            )
            if translated != source:
                compile(translated, file, "exec", dont_inherit=True)
                target = folder / language / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(translated, "utf-8")
    return list(languages)


def translate(source: str, file: str, translations: Mapping[str, str]) -> str:
    """Return a source with its texts replaced; everything stays on its line."""
    if not translations:
        return source
    lines = source.encode().splitlines(keepends=True)  # columns of ast are in bytes
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    code = b"".join(lines)
    for one in sorted(strings_in(ast.parse(source)), key=lambda one: (-one.node.lineno, -one.node.col_offset)):
        node = one.node
        if one.text not in translations or not is_text(one, file):
            continue
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        given = translations[one.text]
        literal = _format_literal(given) if isinstance(node, ast.JoinedStr) else repr(given)
        if node.end_lineno > node.lineno:
            literal = f"({literal}{chr(10) * (node.end_lineno - node.lineno)})"
        code = code[:start] + literal.encode() + code[end:]
    return code.decode()


def _format_literal(text: str) -> str:
    """Write an f-string, also for Python 3.11, which has no quotes of the same kind inside."""
    parts = []
    for part in parse_template(text).values:
        words = template(ast.JoinedStr([part]))
        if isinstance(part, ast.Constant):
            words = words.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        parts.append(words)
    return f'f"""{"".join(parts)}"""'


def main(arguments: list[str]) -> int:
    """Do what is asked for; returns the exit status."""
    match arguments:
        case ["update"]:
            update()
        case ["check"]:
            wrong, missing = check()
            for place in missing:
                print(f"{place} is not translated")
            for fault in wrong:
                print(fault)
            print(f"{len(missing)} texts are not translated, {len(wrong)} faults")
            return 1 if wrong else 0
        case ["build", *folder] if len(folder) < 2:
            target = Path(*folder) if folder else IN_CHECKOUT
            print(f"{', '.join(build(target))} in {target}")
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
