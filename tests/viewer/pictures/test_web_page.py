"""The web page of a graph: what is in it, that names of a model are nothing but text, and that a browser shows it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from onnx_workbench import api, resources
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.ir.graph import Function
from onnx_workbench.viewer.cli.main import main
from onnx_workbench.viewer.pictures import web_page as pages
from onnx_workbench.viewer.pictures.web_page import embedded_json, web_page
from tests.model import builders
from tests.viewer.canvas.graphs import HOSTILE_NAMES, Graphs, long_chain
from tests.viewer.pictures.browser import browser, show

pytestmark = pytest.mark.usefixtures("qapp")  # fonts need an application

needs_browser = pytest.mark.skipif(browser() is None, reason="Chromium is not installed")

ATTACKS = (
    "</script><img src=x onerror=\"document.title='broken'\">",
    "<!--<script>",
    "]]></script><script>document.title='broken'</script>",
    "'\"`${document.title='broken'}",
    "__proto__",
    "\u2028\u2029",
    *HOSTILE_NAMES,
)


class Elements(HTMLParser):
    """The elements of a page, with their attributes and the text in them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.is_inside = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self.texts.append("")
        self.is_inside = True

    def handle_endtag(self, tag):
        self.is_inside = False

    def handle_data(self, data):
        if self.is_inside:
            self.texts[-1] += data

    def only(self, tag: str, **attributes: str) -> str:
        (text,) = (
            text
            for (name, has), text in zip(self.found, self.texts, strict=True)
            if name == tag and attributes.items() <= has.items()
        )
        return text


def data_of(text: str):
    return json.loads(Elements(text).only("script", id="graph"))


def page(model, **options):
    return web_page(model.graph, title="m.onnx", **options).html


def hostile_model():
    g = Graphs()
    g.input("x", 2)
    last = "x"
    for number, name in enumerate(ATTACKS):
        output = f"{name}{number}"
        g.node("Relu", [last], [output], name=name)
        last = output
    g.outputs(last)
    model = g.model()
    model.doc_string = model.producer_name = ATTACKS[0]
    model.metadata = {ATTACKS[0]: ATTACKS[2]}
    return model


def test_the_page_holds_nodes_values_and_their_facts(small):
    model = small.model()
    data = data_of(page(model))
    assert [node["op"] for node in data["nodes"]] == [node.op_type for node in model.graph.nodes]
    conv = next(node for node in data["nodes"] if node["op"] == "Conv")
    assert ["kernel_shape", "3, 3"] in conv["attributes"]
    inputs = [data["values"][value] for value, _ in conv["in"]]
    assert inputs[0]["name"] == "x"
    assert [name for _, name in conv["in"]][:2] == ["X", "W"]
    weights = dict(inputs[1]["constant"])
    assert weights["Size"] == "864 B"
    assert {"Minimum", "Maximum", "Mean", "Std", "Elements"} <= weights.keys()
    (scene,) = data["scenes"]
    assert len(scene["boxes"]) == len(model.graph.nodes) + 2
    assert all(0 <= edge[0] < len(scene["boxes"]) and len(edge[-1]) % 6 == 2 for edge in scene["edges"])


def test_the_page_asks_for_nothing_and_runs_only_its_own_script(small):
    text = page(small.model())
    elements = Elements(text)
    assert [tag for tag, _ in elements.found if tag in ("link", "img", "iframe", "object", "base", "form")] == []
    assert not any(name in attributes for _, attributes in elements.found for name in ("src", "href", "style"))
    assert not any(name.startswith("on") for _, attributes in elements.found for name in attributes)
    policy = next(has["content"] for _, has in elements.found if has.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules.keys() == {"default-src", "script-src", "style-src", "base-uri", "form-action"}
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    assert len(scripts) == 1
    for rule, content in (("script-src", scripts[0]), ("style-src", elements.only("style"))):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"


def test_the_script_makes_text_of_names_and_nothing_else():
    script = resources.path("web_page/page.js").read_text(encoding="utf-8")
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "setTimeout(",
                "fetch(", "XMLHttpRequest", "import(", "http:", "https:"):  # fmt: skip
        assert way not in script


def test_each_text_of_the_script_has_a_translation():
    script = resources.path("web_page/page.js").read_text(encoding="utf-8")
    texts = {text for call in re.findall(r"say\(([^()]*)", script) for text in re.findall(r'"([^"]+)"', call)}
    texts |= set(re.findall(r'(?:section|ports)\("([^"]+)"', script))
    texts |= {
        text for call in re.findall(r'button\(("[^"]+", "[^"]+")', script) for text in re.findall(r'"([^"]+)"', call)
    }
    assert texts - {"−", "+"} <= pages.WORDS.keys()
    assert len(texts) > 30


def test_hostile_names_are_inert():
    model = hostile_model()
    text = page(model)
    elements = Elements(text)
    assert [tag for tag, _ in elements.found].count("script") == 2
    assert "img" not in {tag for tag, _ in elements.found}
    block = elements.only("script", id="graph")
    assert not set("<>&\u2028\u2029") & set(block)
    names = [node["name"] for node in json.loads(block)["nodes"]]
    assert ATTACKS[0] in names
    assert "\\u202eevil\\u202c" in names
    title = web_page(model.graph, title="</title><script>alert(1)</script>").html
    assert [tag for tag, _ in Elements(title).found].count("script") == 2
    title.encode("utf-8")


def test_embedded_json_is_json_without_markup():
    data = {"a</script>": ["<!--", "&lt;", "\u2028", "日本語", 1.5, None]}
    text = embedded_json(data)
    assert json.loads(text) == data
    assert not set("<>&\u2028\u2029") & set(text)


def test_groups_functions_and_bodies_open_in_scenes_of_their_own():
    model = builders.model(builders.BRANCHES)
    data = data_of(page(model))
    titles = [[box[12] for box in scene["boxes"]] for scene in data["scenes"]]
    assert len(titles) == 4  # closed; If open; scale open; both
    closed = {box[12]: box[9] for box in data["scenes"][0]["boxes"] if box[9] >= 0}
    assert closed.keys() == {"If", "scale"}
    assert "Neg" in titles[closed["If"]]
    assert "Neg" not in titles[closed["scale"]]
    assert data["allOpen"] == 3
    assert {"Neg", "Mul"} <= set(titles[3])
    back = next(box[9] for box in data["scenes"][closed["If"]]["boxes"] if box[12] == "If")
    assert back == 0
    inner = next(node for node in data["nodes"] if node["op"] == "Neg")
    assert "else_branch" in data["graphs"][inner["graph"]]["path"]


def test_many_groups_open_within_limits(monkeypatch):
    monkeypatch.setattr(pages, "MOST_SCENES", 3)
    model = long_chain(60, scopes=6).model()
    data = data_of(page(model, groups=True))
    assert len(data["scenes"]) <= 5
    targets = [box[9] for box in data["scenes"][0]["boxes"] if box[0] == 4]
    assert data["allOpen"] in targets  # those without a scene of their own open with all others
    assert all(0 < target < len(data["scenes"]) for target in targets)
    monkeypatch.setattr(pages, "MOST_OPEN", 10)
    assert data_of(page(model, groups=True))["allOpen"] == -1


def test_nodes_that_only_compute_sizes_are_drawn():
    model = builders.model("""
sizes (float[N, 4] x) => (float[N, 4] y)
{
    [size] s = Shape (x)
    [again] c = Cast <to = 7> (s)
    [shaped] r = Reshape (x, c)
    [last] y = Relu (r)
}
""")
    data = data_of(page(model))
    (scene,) = data["scenes"]
    assert {"Shape", "Cast", "Reshape"} <= {box[12] for box in scene["boxes"]}
    assert {node["name"] for node in data["nodes"]} == {"size", "again", "shaped", "last"}


def test_functions_that_call_each_other_do_not_fill_the_page():
    inner = Graphs("f")
    inner.input("a", 2)
    inner.node("F", ["a"], ["b"], domain="local")
    inner.outputs("b")
    function = Function("F", "local", body=inner.graph)
    g = Graphs()
    g.input("x", 2)
    g.node("F", ["x"], ["y"], domain="local")
    g.outputs("y")
    data = data_of(page(g.model(function)))
    assert len(data["scenes"]) <= pages.MOST_SCENES + 2


def test_an_empty_graph_is_refused():
    with pytest.raises(ModelError, match="nothing to draw"):
        web_page(Graphs().model().graph, title="m")


@pytest.fixture
def chain(tmp_path):
    path = tmp_path / "chain.onnx"
    api.save(builders.model(), path)
    return path


def test_values_of_a_run_stand_beside_edges_and_in_the_facts(chain, tmp_path, capsys):
    run, out = tmp_path / "run.npz", tmp_path / "chain.html"
    assert main(["run", str(chain), "-o", str(run), "--values", "all"]) == 0
    assert main(["render", str(chain), "-o", str(out), "--values", str(run)]) == 0
    data = data_of(out.read_text(encoding="utf-8"))
    assert data["hasRun"]
    relu = next(value for value in data["values"] if value["name"] == "r")
    assert dict(relu["run"])["Minimum"]
    assert sum(relu["bars"]) % 4 == 0
    notes = [label[9] for label in data["scenes"][0]["labels"] if len(label) > 9]
    assert any("…" in note for note in notes)
    picture = tmp_path / "chain.svg"
    assert main(["render", str(chain), "-o", str(picture), "--values", str(run)]) == 0
    assert any(note in picture.read_text(encoding="utf-8") for note in notes)


def test_values_that_the_model_does_not_have_are_refused(chain, tmp_path, capsys):
    np.savez(tmp_path / "other.npz", nothing=np.zeros(3))
    arguments = ["render", str(chain), "-o", str(tmp_path / "m.html"), "--values", str(tmp_path / "other.npz")]
    assert main(arguments) == 2
    assert "has no values of this model" in capsys.readouterr().err
    assert not (tmp_path / "m.html").exists()


def test_differences_from_another_model_are_marked(chain, tmp_path):
    changed = builders.document()
    with changed.edit("Edit") as edit:
        from onnx_workbench.model.edits import nodes

        nodes.change_operator(edit, builders.node(changed, "second"), "Elu")
        nodes.delete_and_bridge(edit, [builders.node(changed, "third")])
    new, out = tmp_path / "new.onnx", tmp_path / "new.html"
    api.save(changed, new)
    assert main(["render", str(new), "-o", str(out), "--diff", str(chain)]) == 0
    data = data_of(out.read_text(encoding="utf-8"))
    assert data["title"] == f"{chain.name} and new.onnx"
    kinds = {node["name"]: node.get("kind") for node in data["nodes"]}
    assert kinds["third"] == "removed"
    assert kinds["second"] == "changed"
    assert kinds["first"] is None
    second = next(node for node in data["nodes"] if node["name"] == "second")
    assert any("Relu" in line and "Elu" in line for line in second["differences"])
    assert {box[11] for box in data["scenes"][0]["boxes"]} >= {"removed", "changed", ""}
    assert {edge[5] for edge in data["scenes"][0]["edges"]} >= {"removed"}
    assert main(["render", str(new), "-o", str(tmp_path / "new.svg"), "--diff", str(chain)]) == 0
    assert "Compared" in (tmp_path / "new.svg").read_text(encoding="utf-8")


# -- in a browser --------------------------------------------------------------------------------------------------


def shown(text: str, tmp_path: Path, address: str = ""):
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8", errors="backslashreplace")
    return show(path, tmp_path / "profile", address)


@needs_browser
def test_a_browser_draws_the_graph_and_shows_facts(small, tmp_path):
    first = shown(page(small.model()), tmp_path)
    assert first.console == []
    assert first.canvas("painted") > 0
    assert "m.onnx" in first.facts
    conv = next(node for node in small.model().graph.nodes if node.op_type == "Conv")
    found = shown(page(small.model()), tmp_path, f"#value={conv.outputs[0].name}")
    assert "Computed by" in found.facts
    assert found.console == []


@needs_browser
def test_a_browser_finds_what_is_inside_a_closed_body(tmp_path):
    found = shown(page(builders.model(builders.BRANCHES)), tmp_path, "#node=inner")
    assert "then_branch" in found.facts
    assert found.canvas("scene") > 0
    assert found.console == []


@needs_browser
def test_a_browser_takes_hostile_names_for_text(tmp_path):
    found = shown(page(hostile_model()), tmp_path, "#node=" + "%3C%2Fscript%3E%3Cimg%20src%3Dx%20onerror%3D%22document"
                  ".title%3D%27broken%27%22%3E")  # fmt: skip
    assert "<title>m.onnx</title>" in found.document
    assert "<img" not in found.document
    assert ATTACKS[0].replace("\n", " ") in found.facts
    assert found.console == []


@needs_browser
def test_a_browser_paints_only_what_is_in_view(tmp_path):
    found = shown(page(long_chain(3000).model(), groups=False), tmp_path)
    assert 0 < found.canvas("painted") < 60
    assert found.console == []


@needs_browser
def test_a_browser_first_shows_the_readable_width_of_a_graph(tmp_path):
    found = shown(page(chains(11), groups=False), tmp_path)
    assert 60 <= found.canvas("zoom") < 100
    # the beginning of each chain, not of those alone that are near the input
    assert found.canvas("painted") >= 11 * 3
    found = shown(page(chains(40), groups=False), tmp_path)
    assert found.canvas("zoom") == 80
    assert found.console == []


def chains(count: int):
    g = Graphs()
    g.input("x", 2)
    for chain in range(count):
        last = "x"
        for number in range(20):
            g.node("Relu", [last], [f"value{chain}_{number}"], name=f"n{chain}_{number}")
            last = f"value{chain}_{number}"
    g.node("Concat", [f"value{chain}_19" for chain in range(count)], ["y"], axis=0)
    g.outputs("y")
    return g.model()


@needs_browser
def test_a_browser_shows_the_page_in_the_language_it_was_saved(small, tmp_path, monkeypatch):
    words = {"Inputs": "Eingänge", "Open all": "Alle öffnen", "# found": "# gefunden"}
    monkeypatch.setattr(pages, "WORDS", {text: words.get(text, text) for text in pages.WORDS})
    found = shown(page(small.model()), tmp_path)
    assert "Eingänge" in found.facts
    assert "Outputs" in found.facts
    assert "Alle öffnen" in found.document
    assert found.console == []
