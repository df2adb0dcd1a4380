"""The manual is true: its links and pictures exist, menus and keys are the program's, and its examples run."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shlex
import shutil
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image

from onnx_workbench.exec.kernels import registry
from onnx_workbench.model import extensions
from onnx_workbench.model.edits.values import rename_value
from onnx_workbench.model.history.document import Document
from onnx_workbench.model.io.reader.read import load
from onnx_workbench.model.scripts import edit_script
from onnx_workbench.viewer.actions import actions
from onnx_workbench.viewer.cli.commands import COMMANDS, HELP_COMMANDS, command_parser, options_of, window_parser
from onnx_workbench.viewer.cli.main import main
from onnx_workbench.viewer.panel_list import PANELS
from onnx_workbench.viewer.program import manual

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
GENERATED = {"reference/commands", "reference/operators", "reference/keys"}
SAMPLE = ROOT / "resources" / "sample" / "digits.onnx"


def name_of(page: Path) -> str:
    return page.relative_to(DOCS).with_suffix("").as_posix()


WRITTEN = [page for page in PAGES if name_of(page) not in GENERATED]


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def prose_of(page: Path) -> str:
    """The text without code blocks, each paragraph on one line."""
    return re.sub(r"(?<!\n)\n(?!\n)", " ", re.sub(r"(?ms)^```.*?^```", "", text_of(page)))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```", text_of(page))


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(name).stem, DOCS / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generate = script("generate.py")


def test_every_page_is_in_the_contents() -> None:
    listed = {line for block in blocks(DOCS / "index.md", r"\{toctree\}") for line in block.splitlines()}
    expected = {name_of(page) for page in WRITTEN} | GENERATED
    assert expected - listed == {"index"}
    assert {line for line in listed if line and not line.startswith(":")} <= expected


def test_panels_and_dialogs_have_pages() -> None:
    names = {name_of(page) for page in WRITTEN}
    assert {f"panels/{one.id.replace('_', '-')}" for one in PANELS} <= names
    assert manual.page_names() <= names


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_links_and_pictures_exist(page: Path) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", text_of(page)):
        if not link.startswith("https://"):
            target = (page.parent / link.partition("#")[0]).resolve()
            generated = target.is_relative_to(DOCS) and name_of(target) in GENERATED
            assert target.exists() or generated, link
            if target.suffix == ".png":
                with Image.open(target) as picture:
                    assert min(picture.size) > 100, link


def test_every_picture_is_used_and_made_by_the_script() -> None:
    tree = ast.parse(text_of(DOCS / "pictures.py"))
    made = {
        key.value
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "PICTURES"
        for key in node.value.keys
    }
    used = {Path(link).stem for page in WRITTEN for link in re.findall(r"\]\(([^)]+\.png)\)", text_of(page))}
    assert used == made
    assert {path.stem for path in (DOCS / "pictures").glob("*.png")} == made


def plain(title: str) -> str:
    return title.replace("&&", "\0").replace("&", "").replace("\0", "&")


@cache
def menu_paths() -> dict[str, tuple[str, ...]]:
    """What the menus hold, with the keys of each action; submenus too."""
    found: dict[str, tuple[str, ...]] = {}
    for one in actions():
        if one.place is not None:
            parts = [plain(part) for part in (one.place.menu.value, one.place.submenu) if part]
            found[" › ".join(parts)] = ()
            found[" › ".join([*parts, plain(one.title)])] = one.keys
    return found


@cache
def texts_of_the_program() -> set[str]:
    """Every text in the program's source, without mnemonics."""
    found = set()
    for path in (ROOT / "viewer").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(plain(node.value))
    return found


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_menus_and_keys_are_those_of_the_program(page: Path) -> None:
    text = prose_of(page)
    for path, keys in re.findall(r"\*\*([^*]+ › [^*]+)\*\*(?: \(`([^`]+)`\))?", text):
        assert path in menu_paths(), path
        assert not keys or keys in menu_paths()[path], (path, keys)
    for keys, path in re.findall(r"`([^`]+)`[^`*.]*\(\*\*([^*]+ › [^*]+)\*\*\)", text):
        assert keys in menu_paths()[path], (path, keys)


@pytest.mark.long
@pytest.mark.parametrize("page", sorted((DOCS / "panels").glob("*.md")), ids=name_of)
def test_labels_in_bold_are_in_the_program(page: Path) -> None:
    for start, label in re.findall(r"(- )?\*\*([^*]+)\*\*", prose_of(page)):
        if not start and " › " not in label:  # one that begins a list item is a heading
            assert {label, f"{label}…"} & texts_of_the_program(), label


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the examples name."""
    shutil.copy(SAMPLE, tmp_path / "model.onnx")
    document = Document(load(SAMPLE))
    with document.edit("Rename the input") as edit:
        rename_value(edit, document.model.graph.inputs[0], "picture")
    (tmp_path / "changes.jsonl").write_text(edit_script.export(document), encoding="utf-8")
    Image.new("L", (28, 28), 90).save(tmp_path / "digit.png")
    (tmp_path / "rules.txt").write_text(*blocks(DOCS / "how-to" / "rewrite.md", "text"), encoding="utf-8")
    for number, name in enumerate(("before", "after")):
        (tmp_path / f"{name}.json").write_text(f'{{"/stem/Conv": {number}, "/down/Conv": 5}}', encoding="utf-8")
    event = {
        "cat": "Node", "name": "/stem/Conv_kernel_time", "dur": 7, "ts": 1, "ph": "X",
        "args": {"op_name": "Conv", "provider": "CPUExecutionProvider"},
    }  # fmt: skip
    (tmp_path / "profile.json").write_text(json.dumps([event]), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


COMMAND_PAGES = [page for page in WRITTEN if blocks(page, "sh")]
PYTHON_PAGES = [page for page in WRITTEN if blocks(page, "python")]


@pytest.mark.parametrize("page", [*WRITTEN, ROOT / "README.md"], ids=lambda page: page.stem)
def test_options_are_those_of_the_commands(page: Path) -> None:
    """Those behind a command are its own, those named alone belong to some command."""
    own = {name: {o for a in options_of(command_parser(name)) for o in a.option_strings} for name in COMMANDS}
    window = {o for a in options_of(window_parser()) for o in a.option_strings}
    known = window.union(*own.values())
    for line in re.findall(r"onnx-workbench ([^\n`\"]*)", text_of(page)):
        options = set(re.findall(r"(?<!\S)--?[a-zA-Z][a-z-]*", line))
        assert options <= own.get(line.split()[0], window), line
    for named in re.findall(r"`(--[a-z][a-z-]*)[^`]*`", text_of(page)):
        assert named in known, named


@pytest.mark.long
@pytest.mark.parametrize("page", COMMAND_PAGES, ids=name_of)
def test_commands_run(page: Path, folder: Path, qapp: object) -> None:
    for line in "\n".join(blocks(page, "sh")).splitlines():
        program, *arguments = shlex.split(line)
        assert program == "onnx-workbench"
        assert main(arguments) == 0, line


@pytest.mark.long
@pytest.mark.parametrize("page", PYTHON_PAGES, ids=name_of)
def test_python_runs(page: Path, folder: Path) -> None:
    for number, block in enumerate(blocks(page, "python")):
        path = folder / f"example_{number}.py"
        path.write_text(block, encoding="utf-8")
        extensions.load(path)
        extensions.unload(str(path))  # as some register operators and more


NETWORK = {"aiohttp", "ftplib", "http", "requests", "smtplib", "urllib", "webbrowser", "xmlrpc"}
NETWORK_CLASSES = {"AF_INET", "AF_INET6", "QNetworkAccessManager", "QTcpSocket", "QTcpServer", "QUdpSocket"}


@pytest.mark.long
def test_the_program_opens_no_connection() -> None:
    """What the page about privacy says."""
    for top in ("model", "exec", "viewer", "packaging/launcher"):
        for path in (ROOT / top).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    assert not NETWORK & {alias.name.partition(".")[0] for alias in node.names}, path
                elif isinstance(node, ast.ImportFrom) and node.module is not None:
                    assert node.module.partition(".")[0] not in NETWORK, path
                    assert not NETWORK_CLASSES & {alias.name for alias in node.names}, path
                elif isinstance(node, ast.Attribute):
                    assert node.attr not in NETWORK_CLASSES, path


def test_the_pages_made_from_the_program_are_complete() -> None:
    commands = "\n".join(generate.command_page())
    for name in COMMANDS | HELP_COMMANDS:
        assert f"\n## {name}\n" in commands
        for option in options_of(command_parser(name)):
            assert all(flag in commands for flag in option.option_strings)
    operators = "\n".join(generate.operator_page())
    assert all(f"| {one.op_type} |" in operators for one in registry.all_kernels())
    assert "## com.microsoft\n" in operators
    keys = "\n".join(generate.key_page())
    assert all(f"`{text}`" in keys for one in actions() if one.place is not None for text in one.keys)
