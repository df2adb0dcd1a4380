"""A graph as a web page: one self-contained HTML file, without network access.

The page holds one or several *scenes*, laid out here as in the window: the initial view of the graph, one for
each group, subgraph or function that can be opened in it, and one with all of them open. A script draws them on a
canvas, shows facts of selected objects, and searches.

Content of the model is only text in the page: it is in a JSON block in which ``<`` is escaped, the script makes
only text nodes of it, and a content security policy allows no script but that one, by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from PySide6.QtGui import QColor, QGuiApplication

from onnx_workbench import resources
from onnx_workbench.model import schemas
from onnx_workbench.model.analysis.groups import groups_of
from onnx_workbench.model.analysis.name_scopes import Scope, ScopeTree
from onnx_workbench.model.analysis.value_types import TypeOf, declared_type
from onnx_workbench.model.errors import ModelError
from onnx_workbench.model.io.writer.atomic_file import replacing
from onnx_workbench.model.io.writer.targets import check_target
from onnx_workbench.model.ir.graph import Graph, Node, Value
from onnx_workbench.model.progress import SILENT, Progress
from onnx_workbench.model.text.formatting import display
from onnx_workbench.viewer.canvas.layout import Direction, layout
from onnx_workbench.viewer.canvas.paint.fonts import Fonts
from onnx_workbench.viewer.canvas.paint.painter import frame_colors
from onnx_workbench.viewer.canvas.scene.box_factory import BoxFactory
from onnx_workbench.viewer.canvas.scene.builder import DrawingBuilder, Ids, initial_expansion
from onnx_workbench.viewer.canvas.scene.coloring import Coloring, by_data
from onnx_workbench.viewer.canvas.scene.drawing import Box, Drawing, DrawingOptions
from onnx_workbench.viewer.canvas.scene.edge_labels import EdgeLabels
from onnx_workbench.viewer.canvas.scene.scene import Scene, request
from onnx_workbench.viewer.document.edge_notes import EdgeNote
from onnx_workbench.viewer.pictures.export import Exported
from onnx_workbench.viewer.pictures.web_facts import Facts, PageNotes
from onnx_workbench.viewer.pictures.web_words import WORDS
from onnx_workbench.viewer.program import language
from onnx_workbench.viewer.style.theme import categories, load_theme

#: Limits: boxes of the scene with everything open, boxes of all scenes with one open part, and number of these.
MOST_OPEN = 40_000
MOST_INNER = 12_000
MOST_SCENES = 150
#: Limit for nested open parts, as functions of a broken file may call each other recursively.
DEEPEST = 10

#: The height of the frame in a notebook, px.
MOST_FRAME = 640

_ROLES = (
    "window", "panel", "border", "canvas", "node", "node_border", "endpoint", "text", "muted", "edge", "label",
    "accent", "hover", "match", "error", "added", "removed", "edited", "moved", "group_border",
)  # fmt: skip

_PAGE = """\
<!DOCTYPE html>
<html lang="{language}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src '{script_hash}'; \
style-src '{style_hash}'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript>This page draws a graph with JavaScript, which is switched off.</noscript>
<script type="application/json" id="graph">{data}</script>
<script>{script}</script>
</body>
</html>
"""


@dataclass(frozen=True, slots=True)
class WebPage:
    """The text of a page, and the size of its first scene in px at 100 %. A notebook shows it in a frame."""

    html: str = field(repr=False)
    width: int
    height: int

    def save(self, path: str | os.PathLike[str]) -> Exported:
        """Write the page; the file is replaced when writing is complete.

        ModelError if that fails, or if the existing file is of another kind, such as a model.
        """
        target = Path(path)
        check_target(target, "page")
        with replacing(target) as file:
            file.write(self.html.encode("utf-8", "backslashreplace"))
        return Exported(target, self.width, self.height, 1.0)

    def _repr_html_(self) -> str:
        """Return the page in a frame that isolates it from the notebook."""
        height = min(max(self.height + 120, 300), MOST_FRAME)
        return (
            f'<iframe sandbox="allow-scripts" width="100%" height="{height}" frameborder="0" '
            f'srcdoc="{html.escape(self.html)}"></iframe>'
        )


@dataclass(slots=True)
class _Scenes:
    """The scenes of a page. `opens`: by key of a closed part, the scene in which it is open; `closes`: the reverse."""

    scenes: list[Scene] = field(default_factory=list)
    opens: dict[Hashable, int] = field(default_factory=dict)
    closes: dict[Hashable, int] = field(default_factory=dict)
    all_open: int = -1


def web_page(
    graph: Graph,
    *,
    title: str,
    direction: Direction = "down",
    groups: bool | None = None,
    type_of: TypeOf = declared_type,
    notes: PageNotes | None = None,
    progress: Progress = SILENT,
) -> WebPage:
    """Make the page of a graph. `title` is the title of the browser tab.

    Drawn as initially in a window: with groups if it is large (`groups` None) or always (True). `notes`: facts of a run
    or a comparison. Creates a QGuiApplication, for fonts, if there is none. Reads the model and statistics of small
    weights; about a second for 2,000 nodes, and 1 kB of text per node. ModelError if there is nothing to draw.
    """
    application = QGuiApplication.instance() or QGuiApplication(["onnx-workbench"])
    schemas.preload()
    notes = notes or PageNotes()
    fonts = Fonts()  # not the shared ones: exports run in threads
    options = DrawingOptions(
        direction=direction, groups=groups, fold_nodes=False, data=notes.data
    )  # no tag opens in a page
    drawn = _make_scenes(graph, options, fonts, type_of, progress)
    if not drawn.scenes[0].boxes:
        raise ModelError("There is nothing to draw", "The graph has no nodes, inputs or outputs.")
    facts = Facts(type_of, notes, progress)
    for scene in drawn.scenes:
        for shown in scene.drawing.graphs:
            facts.add_graph(shown)
    written = [_scene(index, drawn, facts, fonts, notes, progress) for index in range(len(drawn.scenes))]
    data = {
        "title": display(title, 200),
        "words": {text: shown for text, shown in WORDS.items() if shown != text},
        "model": facts.of_model(graph),
        "direction": direction,
        "categories": [category.title for category in categories().values()],
        "headerSize": fonts.size,
        "scenes": written,
        "allOpen": drawn.all_open,
        "nodes": facts.nodes,
        "values": facts.values,
        "groups": facts.groups,
        "graphs": facts.graphs,
        "hasRun": bool(notes.summaries),
        "hasDifferences": bool(notes.kinds),
    }
    del application  # kept until here
    first = drawn.scenes[0]
    return WebPage(_text(display(title, 200), data), round(first.width), round(first.height))


def _text(title: str, data: object) -> str:
    """Return the HTML of the page with its data."""
    style = _theme_rules() + resources.path("web_page/page.css").read_text(encoding="utf-8")
    script = resources.path("web_page/page.js").read_text(encoding="utf-8")
    return _PAGE.format(
        language=language.current().replace("_", "-"),
        title=html.escape(title),
        script=script,
        style=style,
        script_hash=_hash(script),
        style_hash=_hash(style),
        data=embedded_json(data),
    )


def embedded_json(data: object) -> str:
    """Return data as JSON for a script element: without the characters that end or open elements."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _hash(text: str) -> str:
    """Return the hash of a text in the format of content security policies."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _theme_rules() -> str:
    """Return the colours of both themes as CSS variables."""
    rules = []
    for name in ("light", "dark"):
        theme = load_theme(name)
        colors: dict[str, QColor] = {role: getattr(theme, role) for role in _ROLES}
        colors["frame0"], colors["frame1"] = frame_colors(theme)
        colors["header_text"] = theme.header_text
        colors |= {f"category{index}": category.color for index, category in enumerate(categories().values())}
        variables = "".join(f"--{role.replace('_', '-')}:{color.name()};" for role, color in colors.items())
        rules.append(f":root{{{variables}}}\n")
    return rules[0] + f"@media (prefers-color-scheme: dark){{{rules[1].strip()}}}\n"


# -- scenes --------------------------------------------------------------------------------------------------------


def _make_scenes(graph: Graph, options: DrawingOptions, fonts: Fonts, type_of: TypeOf, progress: Progress) -> _Scenes:
    """Lay out the graph closed, with each closed part open in turn, and with all open, within the limits."""
    trees: dict[Graph, ScopeTree] = {}
    cards, ids = BoxFactory(fonts, options), Ids()
    expanded: set[Hashable] = set()
    if options.are_grouped(graph):
        trees[graph] = groups_of(graph, progress, asked=options.groups is True)
        expanded = initial_expansion(trees[graph])

    def tree_of(shown: Graph) -> ScopeTree:
        if shown not in trees:
            trees[shown] = groups_of(shown, progress)
        return trees[shown]

    def draw(opened: Iterable[Hashable]) -> Drawing:
        builder = DrawingBuilder(graph, options, frozenset(opened), ids, cards, type_of, tree_of)
        for _ in builder.steps():
            progress.check()
        return builder.drawing

    drawn = _Scenes()
    drawing = draw(expanded)
    drawn.scenes.append(_laid_out(drawing, progress))
    pending = [(0, frozenset(expanded), key) for key in _closed(drawing)]
    left = MOST_INNER
    for parent, opened, key in pending:  # grows: outer ones before those inside them
        if len(drawn.scenes) > MOST_SCENES:
            break
        if key in drawn.opens or len(opened) >= len(expanded) + DEEPEST:
            continue
        inner = draw(opened | {key})
        left -= len(inner.boxes)
        if left < 0:
            break
        progress.report(len(drawn.scenes), len(pending) + 1, "Laying out groups")
        drawn.opens[key], drawn.closes[key] = len(drawn.scenes), parent
        pending += [(len(drawn.scenes), opened | {key}, one) for one in _closed(inner)]
        drawn.scenes.append(_laid_out(inner, progress))
    whole = _all_open(drawing, expanded, draw)
    if whole is not None:
        drawn.all_open = len(drawn.scenes)
        drawn.scenes.append(_laid_out(whole, progress))
    return drawn


def _laid_out(drawing: Drawing, progress: Progress) -> Scene:
    return Scene(drawing, layout(request(drawing), progress))


def _closed(drawing: Drawing) -> list[Hashable]:
    """Return the keys of the parts that can be opened in a drawing."""
    return [box.key for box in drawing.boxes if "+" in box.buttons]


def _all_open(drawing: Drawing, expanded: set[Hashable], draw: Callable[..., Drawing]) -> Drawing | None:
    """Draw everything open; None if nothing is closed, or if there would be too many boxes."""
    opened = set(expanded)
    whole: Drawing | None = None
    for _ in range(DEEPEST):
        closed = _closed(drawing)
        if not closed:
            break
        opened.update(closed)
        drawing = draw(opened)
        if len(drawing.boxes) > MOST_OPEN:
            return None
        whole = drawing
    return whole


# -- as data -------------------------------------------------------------------------------------------------------


def _scene(
    index: int, found: _Scenes, facts: Facts, fonts: Fonts, notes: PageNotes, progress: Progress
) -> dict[str, Any]:
    """Return a scene as plain data; see page.js for the format of the lists."""
    scene = found.scenes[index]
    progress.report(index, len(found.scenes), "Writing the page")
    left, top, right, bottom = scene.bounds
    labels = EdgeLabels(scene, fonts, facts.type_of, notes.note_of)
    depths = scene.depths.tolist()
    rects = scene.rects.round().astype(int).tolist()
    data = notes.data
    colors = None if data is None else by_data(scene, load_theme("light"), data.values, data.title)
    return {
        "bounds": [round(left), round(top), round(right), round(bottom)],
        "boxes": [
            _box(number, index, rects[number], depths[number], found, facts, colors)
            for number in range(len(scene.boxes))
        ],
        "edges": _edges(scene, facts, notes),
        "labels": [
            [label.edge, *map(round, label.rect), label.text, *_note(label.note, stacked=label.stacked)]
            for label in labels.in_rect(left - 200, top, right + 200, bottom)
        ],
    }


def _box(
    number: int, index: int, rect: Sequence[int], depth: int, found: _Scenes, facts: Facts, colors: Coloring | None
) -> list[Any]:
    """Return a box of the scene with this index as plain data."""
    scene = found.scenes[index]
    box = scene.boxes[number]
    names = list(categories())
    target = -1
    if "+" in box.buttons:
        target = found.opens.get(box.key, found.all_open)
    elif "−" in box.buttons:
        target = found.closes.get(box.key, -1)
    if target == index:
        target = -1
    subject, place = _subject(box, facts)
    return [
        int(box.kind), subject, place, *rect, depth, names.index(box.category) if box.category in names else -1,
        target, int(scene.drawing.box_ids[number]), facts.kind_of(box), box.title, box.note, round(box.names_width),
        [[row.name, row.text] for row in box.rows], *_colors(colors, number),
    ]  # fmt: skip


def _colors(colors: Coloring | None, number: int) -> list[str]:
    """Return the colours of a box's header and of its text by the data of its nodes; nothing without such data."""
    if colors is None or not colors.indices[number]:
        return []
    index = int(colors.indices[number])
    return [colors.palette[index].name(), colors.text[index].name()]


def _subject(box: Box, facts: Facts) -> tuple[Literal["n", "v", "s", "g"], int]:
    """Return the object of a box as the key of its list of facts and its index there."""
    match box.subject:
        case Node():
            return "n", facts.node(box.subject)
        case Value():
            return "v", facts.value(box.subject)
        case Scope():
            return "s", facts.scope(box.subject)
        case Graph():
            return "g", facts.graph(box.subject)


def _edges(scene: Scene, facts: Facts, notes: PageNotes) -> list[list[Any]]:
    drawing = scene.drawing
    points = scene.pieces.round(1).reshape(-1, 8).tolist()
    curved = scene.curved.tolist()
    edges = []
    for edge, (source, target) in enumerate(drawing.edges.tolist()):
        pieces, path = scene.pieces_of(edge), list[float]()
        for piece in range(pieces.start, pieces.stop):
            x0, y0, *rest = points[piece]
            if not path:
                path += (x0, y0)
            if not curved[piece]:  # controls on the line, so that short ones are enough
                rest = [x0, y0, *rest[4:], *rest[4:]]
            path += rest
        value = drawing.values[edge]
        subject = scene.boxes[target].subject
        kind = notes.edge_kind(value, subject) if notes.kinds else ""
        edges.append(
            [source, target, facts.value(value), int(drawing.multiplicity[edge]), int(drawing.dashed[edge]), kind,
             [int(p) if p == int(p) else p for p in path]]
        )  # fmt: skip
    return edges


def _note(note: EdgeNote | None, *, stacked: bool) -> list[Any]:
    return [] if note is None else [int(stacked), note.warning, list(note.bars), note.text, int(note.stale)]
