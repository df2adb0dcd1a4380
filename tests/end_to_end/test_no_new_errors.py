"""No command adds an error to a model: its problems afterwards are among those before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
import onnx.parser
import pytest

import onnx_workbench as ow
from onnx_workbench.model.scripts import edit_script
from onnx_workbench.viewer.cli.main import main
from tests.fuzz.cases import ORT, one_helper_process
from tests.model import builders

MODELS = sorted(path.parent.name for path in (Path(__file__).parents[1] / "models").glob("*/model.onnx"))
#: Small models of every IR version that there is, with and without subgraphs, functions and other domains.
QUICK = (
    "finn-base__model", "onnx__light_bvlc_alexnet", "onnxruntime__mul_1", "skl2onnx__treecl", "sklearn_mlp_pca",
    "sklearn_rf_classifier_op9_mlv1", "sklearn_tfidf_ngrams_logreg",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def helpers() -> Iterator[None]:
    with one_helper_process():
        yield


def middle(model: ow.Model) -> str:
    """The first output of a node in the middle."""
    nodes = list(model.graph.nodes)
    output = nodes[len(nodes) // 2].outputs[0]
    assert output is not None
    return output.name


def convert(**options: object) -> Callable[[ow.Model], ow.Model]:
    def command(model: ow.Model) -> ow.Model:
        ow.convert(model, checks=0, **options)
        return model

    return command


def simplified(model: ow.Model) -> ow.Model:
    ow.simplify(model, checks=0)
    return model


def inferred(model: ow.Model) -> ow.Model:
    ow.infer(model)
    return model


def merged(model: ow.Model) -> ow.Model:
    """Both sides of a split, put together again."""
    first, second = ow.split(model, at=[middle(model)], checks=0)
    ow.merge(first, second)
    return first


def merged_beside(model: ow.Model) -> ow.Model:
    """The model beside another of the newest IR version that has a constant of its own."""
    version = model.opset_imports.get("", 13)
    other = ow.load(onnx.parser.parse_model(f"""
        <ir_version: 10, opset_import: ["" : {version}]>
        g (float[3] other) => (float[3] sum) <float[3] one = {{1.0, 1.0, 1.0}}> {{ sum = Add (other, one) }}
        """).SerializeToString())  # fmt: skip
    ow.merge(model, other)
    return model


def with_constant(model: ow.Model) -> ow.Model:
    builders.one_edit(ow.Document(model), ow.edits.add_constant, model.graph, "added: float[2] = 1, 2")
    return model


COMMANDS: dict[str, Callable[[ow.Model], ow.Model]] = {
    "simplify": simplified,
    "infer": inferred,
    "free the batch": convert(free=["batch"]),
    "freeze sizes": convert(freeze={"N": 2, "batch": 2}),
    "float16": convert(precision="float16"),
    "bfloat16": convert(precision="bfloat16"),
    "newest opset": convert(opset=26),
    "older opset": convert(opset=9),
    "inline": convert(functions="inline"),
    "functions of blocks": convert(functions="extract"),
    "strip": convert(strip=["doc", "metadata", "producer", "types", "inputs"]),
    "rename and sort": convert(rename=["nodes", "initializers", "values"], sort=True),
    "extract": lambda model: ow.extract(model, outputs=[middle(model)], checks=0),
    "merge what was split": merged,
    "merge another": merged_beside,
    "add a constant": with_constant,
}


def errors(model: ow.Model) -> Counter[str]:
    """How often each rule is broken; names may change."""
    return Counter(problem.rule for problem in ow.check(model) if problem.severity == "error")


def is_worse(path: Path, command: str, folder: Path) -> str:
    """What a command has made worse; a refusal is none."""
    before = errors(ow.load(path))
    try:
        model = COMMANDS[command](ow.load(path))
    except ow.ModelError:
        return ""
    if added := errors(model) - before:
        return f"{command}: {dict(added)}"
    ow.save(model, folder / "out.onnx", external="inline")
    was_loaded = isinstance(ORT.run(path.read_bytes()), dict)
    report = ORT.run((folder / "out.onnx").read_bytes())
    if was_loaded and isinstance(report, str) and "NOT_IMPLEMENTED" not in report and "support" not in report:
        return f"{command}: ONNX Runtime says {report}"
    return ""


@pytest.mark.long
@pytest.mark.parametrize("name", QUICK)
def test_small_models(name: str, real_models, tmp_path: Path) -> None:
    path = real_models / name / "model.onnx"
    assert [report for command in COMMANDS if (report := is_worse(path, command, tmp_path))] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_every_model(name: str, real_models, tmp_path: Path) -> None:
    path = real_models / name / "model.onnx"
    assert [report for command in COMMANDS if (report := is_worse(path, command, tmp_path))] == []


UNKNOWN = """
<ir_version: 8, opset_import: ["" : 17, "custom" : 1]>
g (float[2] x) => (float[2] y) { a = custom.Strange (x) b = Relu (a) y = Identity (b) }"""


@pytest.mark.long
def test_parts_whose_types_nobody_knows_are_refused() -> None:
    model = ow.load(onnx.parser.parse_model(UNKNOWN).SerializeToString())
    with pytest.raises(ow.ModelError, match="type or shape of a is not known"):
        ow.extract(model, outputs=["y"], inputs=["a"])
    with pytest.raises(ow.ModelError, match="not known"):
        ow.split(model, at=["a"])
    ow.infer(model, rules={"custom::Strange": "same as input 0"})
    assert errors(ow.extract(model, outputs=["y"], inputs=["a"])) == errors(model)


#: Arguments of commands that write a model; MIDDLE is the output of a node in the middle, NODE its name.
COMMAND_LINES = {
    "simplify": "simplify IN -o OUT --no-check",
    "simplify all": "simplify IN -o OUT --check 1 --also fuse_swish,fuse_mish,fuse_hard_swish,fuse_attention",
    "infer": "infer IN -o OUT",
    "convert": "convert IN -o OUT",
    "text": "convert IN -o OUT.onnxtxt",
    "json": "convert IN -o OUT.json",
    "newest opset": "convert IN -o OUT --opset 26 --check 1",
    "opset 13": "convert IN -o OUT --opset 13 --no-check",
    "older opset": "convert IN -o OUT --opset 8 --no-check",
    "opset 21": "convert IN -o OUT --opset 21 --no-check",
    "IR version": "convert IN -o OUT --ir-version 9",
    "float16": "convert IN -o OUT --precision float16 --no-check",
    "float16 inside": "convert IN -o OUT --precision float16 --keep inputs-outputs --no-check",
    "free": "convert IN -o OUT --free batch --no-check",
    "freeze": "convert IN -o OUT --freeze N=2 --no-check",
    "inline": "convert IN -o OUT --functions inline --no-check",
    "functions": "convert IN -o OUT --functions extract --no-check",
    "strip": "convert IN -o OUT --strip doc --strip metadata --strip types --strip inputs",
    "defaults": "convert IN -o OUT --strip defaults",
    "rename": "convert IN -o OUT --rename nodes --rename initializers --rename values --sort",
    "external": "convert IN -o OUT --external one-file --threshold 0",
    "extract": "extract IN -o OUT --outputs MIDDLE --check 1",
    "split": "split IN -o OUT --at MIDDLE --no-check",
    "merge": "merge IN IN -o OUT --prefix other_",
    "edit": "edit IN SCRIPT -o OUT",
}


def renamed(path: Path) -> ow.Document:
    """A document with an edit that can be recorded."""
    document = ow.Document(ow.load(path))
    builders.one_edit(document, ow.edits.regenerate_node_names, document.model)
    return document


def is_worse_by(path: Path, line: str, folder: Path) -> str:
    """What a command of the command line has made worse; a refusal is none."""
    before, was_loaded = errors(ow.load(path)), isinstance(ORT.run(path.read_bytes()), dict)
    out = folder / "out.onnx"
    script = folder / "script.json"
    script.write_text(edit_script.export(renamed(path)))
    meant = {"IN": str(path), "MIDDLE": middle(ow.load(path)), "SCRIPT": str(script)}
    arguments = [meant.get(word, word.replace("OUT", str(out)).replace(".onnx.", ".")) for word in line.split()]
    for old in folder.glob("out*"):
        old.unlink()
    status = main(arguments)
    for written in folder.glob("out*.*"):
        if written.suffix not in (".onnx", ".onnxtxt", ".json"):
            continue
        if status:
            return f"exit status {status}, and a file"
        model = ow.load(written)
        if added := errors(model) - before:
            return f"{written.name}: {dict(added)}"
        ow.save(model, folder / "loaded.onnx", external="inline")
        data = (folder / "loaded.onnx").read_bytes()
        report = ORT.run(data) if was_loaded and ORT.knows_versions_of(data) else {}
        if isinstance(report, str) and "NOT_IMPLEMENTED" not in report and "support" not in report:
            return f"{written.name}: ONNX Runtime says {report}"
    return ""


@pytest.mark.long
@pytest.mark.parametrize("command", COMMAND_LINES)
def test_commands_on_small_models(command: str, real_models, tmp_path: Path) -> None:
    paths = [real_models / name / "model.onnx" for name in QUICK]
    found = {path.parent.name: is_worse_by(path, COMMAND_LINES[command], tmp_path) for path in paths}
    assert {name: report for name, report in found.items() if report} == {}


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("command", COMMAND_LINES)
def test_commands_on_every_model(command: str, real_models, tmp_path: Path) -> None:
    paths = [real_models / name / "model.onnx" for name in MODELS]
    found = {path.parent.name: is_worse_by(path, COMMAND_LINES[command], tmp_path) for path in paths}
    assert {name: report for name, report in found.items() if report} == {}
