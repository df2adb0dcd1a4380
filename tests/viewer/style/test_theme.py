import re

import pytest
from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QIcon, QPalette, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QApplication, QTreeWidget, QTreeWidgetItem

from onnx_workbench import resources
from onnx_workbench.model.schemas.traits import TABLES
from onnx_workbench.viewer.style.icons import icon
from onnx_workbench.viewer.style.theme import (
    Themes,
    as_mode,
    categories,
    load_theme,
    operator_category,
    palette,
    themes,
)
from onnx_workbench.viewer.tables.row_table import RowTable

TEXT_ON_BACKGROUND = [
    ("text", "window"), ("text", "panel"), ("text", "alternate"), ("text", "canvas"), ("text", "node"),
    ("text", "endpoint"), ("text", "label"), ("text", "hover"), ("text", "match"), ("text", "group"),
    ("muted", "window"), ("muted", "panel"), ("muted", "alternate"), ("muted", "canvas"), ("muted", "node"),
    ("muted", "endpoint"), ("muted", "group"), ("muted", "label"), ("muted", "hover"),
    ("accent_text", "accent"), ("accent", "panel"), ("accent", "window"), ("accent", "canvas"), ("changed", "node"),
    ("warning", "panel"), ("warning", "window"), ("added", "panel"), ("removed", "panel"), ("edited", "panel"),
    ("moved", "panel"), ("error", "panel"), ("error", "window"), ("error", "canvas"),
]  # fmt: skip
#: Lines and marks that say something have to stand out, if less than text.
DRAWN_ON_BACKGROUND = [
    ("edge", "canvas"), ("edge", "group"), ("accent", "canvas"), ("accent", "node"), ("accent", "window"),
    ("error", "canvas"), ("changed", "canvas"), ("added", "canvas"), ("removed", "canvas"),
]  # fmt: skip
#: What widgets write with which colour of the palette on which.
PALETTE_TEXT = [
    ("WindowText", "Window"), ("Text", "Base"), ("Text", "AlternateBase"), ("ButtonText", "Button"),
    ("ToolTipText", "ToolTipBase"), ("PlaceholderText", "Base"), ("PlaceholderText", "Window"),
    ("HighlightedText", "Highlight"), ("Link", "Base"), ("Link", "Window"), ("LinkVisited", "Base"),
]  # fmt: skip


def contrast(a: QColor, b: QColor) -> float:
    """The contrast ratio of WCAG 2."""

    def luminance(color: QColor) -> float:
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color.getRgbF()[:3]]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.long
@pytest.mark.parametrize("name", ["light", "dark", "contrast"])
@pytest.mark.parametrize(("text", "background"), TEXT_ON_BACKGROUND)
def test_text_can_be_read(name, text, background):
    colors = load_theme(name)
    assert contrast(getattr(colors, text), getattr(colors, background)) >= (7.0 if name == "contrast" else 4.5)


@pytest.mark.parametrize("name", ["light", "dark", "contrast"])
@pytest.mark.parametrize(("drawn", "background"), DRAWN_ON_BACKGROUND)
def test_lines_and_marks_stand_out(name, drawn, background):
    colors = load_theme(name)
    assert contrast(getattr(colors, drawn), getattr(colors, background)) >= 3.0


@pytest.mark.parametrize("name", ["light", "dark", "contrast"])
@pytest.mark.parametrize("group", [QPalette.ColorGroup.Active, QPalette.ColorGroup.Inactive])
def test_text_of_widgets_can_be_read(name, group):
    made = palette(load_theme(name))
    ratios = {pair: contrast(*(made.color(group, QPalette.ColorRole[role]) for role in pair)) for pair in PALETTE_TEXT}
    assert {pair: ratio for pair, ratio in ratios.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("name", ["light", "dark", "contrast"])
def test_header_text_can_be_read_on_every_category(name):
    colors = load_theme(name)
    poor = {name: contrast(colors.header(name), colors.header_text) for name in categories()}
    assert {name: ratio for name, ratio in poor.items() if ratio < 4.5} == {}


def test_categories_differ_in_colour():
    colors = [category.color.name() for category in categories().values()]
    assert len(set(colors)) == len(colors)


def test_every_category_of_an_operator_has_a_colour():
    used = {traits.category for table in TABLES.values() for traits in table.values()}
    assert used <= set(categories())


@pytest.mark.parametrize(
    ("domain", "op_type", "category"),
    [
        ("", "Conv", "layer"),
        ("com.microsoft", "FusedConv", "layer"),
        ("", "Brandnew", "math"),
        ("ai.onnx.ml", "Brandnew", "ml"),
        ("my.domain", "Brandnew", "custom"),
    ],
)
def test_operators_fall_to_their_domain_and_then_to_custom(domain, op_type, category):
    assert operator_category(domain, op_type) == category
    assert load_theme("dark").header(category) == categories()[category].color


def test_the_theme_follows_what_was_chosen_and_says_so(qapp, received):
    switcher = Themes()
    report = received(switcher.themeChanged)
    start = switcher.current.name
    other = "dark" if start == "light" else "light"
    switcher.set_mode(other)
    assert switcher.current is load_theme(other)
    assert len(report) == 1
    switcher.set_mode(other)
    assert len(report) == 1
    assert QApplication.palette().color(QPalette.ColorRole.Base) == switcher.current.panel
    switcher.set_mode(start)
    assert len(report) == 2
    switcher.set_mode("system")


def test_the_palette_uses_the_themes_colours():
    colors = load_theme("dark")
    made = palette(colors)
    assert made.color(QPalette.ColorRole.Window) == colors.window
    for role in (QPalette.ColorRole.Text, QPalette.ColorRole.PlaceholderText):
        assert made.color(QPalette.ColorGroup.Disabled, role) == colors.stale


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_an_empty_check_box_in_a_tree_is_seen(qtbot, mode):
    """In the dark its outline was as dark as the ground."""
    themes().set_mode(mode)
    try:
        tree = QTreeWidget()
        qtbot.addWidget(tree)
        tree.setHeaderHidden(True)
        item = QTreeWidgetItem(tree, [""])
        item.setCheckState(0, Qt.CheckState.Unchecked)
        tree.show()
        picture = tree.viewport().grab(tree.visualItemRect(item)).toImage()
        points = ((x, y) for x in range(picture.width()) for y in range(picture.height()))
        assert max(contrast(picture.pixelColor(*at), themes().current.panel) for at in points) > 1.4
    finally:
        themes().set_mode("system")


def test_dark_headers_stay_dark_and_boxes_stay_visible(qtbot):
    themes().set_mode("dark")
    try:
        model = QStandardItemModel(1, 1)
        box = QStandardItem("")
        box.setCheckable(True)
        model.setItem(0, 0, box)
        table = RowTable(model, "Boxes")
        qtbot.addWidget(table)
        table.resize(600, 200)
        table.show()
        header = table.horizontalHeader()
        picture = header.grab().toImage()
        assert contrast(picture.pixelColor(500, picture.height() // 2), themes().current.window) < 1.1
        cell = table.viewport().grab(table.visualRect(model.index(0, 0))).toImage()
        points = ((x, y) for x in range(cell.width()) for y in range(cell.height()))
        assert max(contrast(cell.pixelColor(*at), themes().current.panel) for at in points) > 1.4
    finally:
        themes().set_mode("system")


def test_a_remembered_mode_that_is_none_means_the_systems():
    assert [as_mode(text) for text in ("light", "dark", "system", "", "pink")] == [
        "light", "dark", "system", "system", "system",
    ]  # fmt: skip
    assert themes() is themes()


def test_icons_of_selected_rows_have_the_colour_of_their_text(qapp):
    chosen = themes().current
    for color in (None, chosen.error, chosen.muted):
        image = icon("error", color).pixmap(QSize(32, 32), QIcon.Mode.Selected).toImage()
        pixels = [image.pixelColor(x, y) for x in range(image.width()) for y in range(image.height())]
        assert {pixel.name() for pixel in pixels if pixel.alpha() == 255} == {chosen.accent_text.name()}


@pytest.mark.long
@pytest.mark.parametrize("file", sorted(resources.path("icons").glob("*.svg")), ids=lambda path: path.stem)
def test_every_icon_draws_something(qapp, file):
    if file.stem == "app":
        assert 'viewBox="0 0 64 64"' in file.read_text()
        return
    text = file.read_text()
    assert not re.search(r"#[0-9a-f]{3,6}", text), "icons take the theme's colour"
    image = icon(file.stem, QColor("#ff0000")).pixmap(32, 32).toImage()
    inked = [image.pixelColor(x, y) for x in range(image.width()) for y in range(image.height())]
    assert any(color.alpha() > 128 and color.red() > 200 for color in inked)
