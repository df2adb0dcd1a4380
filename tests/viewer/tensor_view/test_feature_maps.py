"""Feature maps side by side, and images: coarse as a whole, as fine as their elements where one looks closely."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QPoint, Qt

from onnx_workbench.viewer.plots.matrix_view import MatrixView
from onnx_workbench.viewer.tensor_view.feature_maps import Tiles, mosaic, page_count
from onnx_workbench.viewer.tensor_view.pictures import PictureRequest, image
from onnx_workbench.viewer.tensor_view.readers import ArrayReader, TensorSlice
from tests.examples import examples

WHICH = TensorSlice((0, 0, 0, 0), 2, 3)


@cache
def maps():
    return np.random.default_rng(0).standard_normal((1, 16, 1300, 1250), dtype=np.float32)


@pytest.mark.long
def test_a_part_is_seen_element_by_element():
    whole = mosaic(ArrayReader(maps()), WHICH, PictureRequest())
    assert whole.step > 1
    assert whole.detail is not None
    fine = whole.detail((0.3, 0.6, 0.34, 0.64))
    left, top, right, bottom = fine.part
    assert (left, top) <= (0.3, 0.6)
    assert (right, bottom) >= (0.34, 0.64)
    found = {fine.index(row, column) for row in (40, 41, 42) for column in (30, 31, 32)} - {None}
    rows, columns = {i[2] for i in found}, {i[3] for i in found}
    assert max(rows) - min(rows) == 2
    assert max(columns) - min(columns) == 2
    index = fine.index(40, 30)
    assert fine.about(40, 30).startswith(f"{list(index)} = ")
    assert float(fine.about(40, 30).split(" = ")[1]) == pytest.approx(float(maps()[index]), rel=1e-4)
    assert fine.pixels[40, 30].tolist() == whole.scale.colors(maps()[index][None])[0].tolist()


@pytest.mark.long
@given(st.tuples(*[st.floats(0, 1)] * 4), st.booleans())
@settings(max_examples=examples(25), deadline=None)
def test_every_cell_of_a_part_is_the_element_it_says(corners, same_range):
    x0, x1, y0, y1 = corners
    part = min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)
    whole = mosaic(ArrayReader(maps()), WHICH, PictureRequest(same_range=same_range))
    fine = whole.detail(part)
    if not fine.pixels.size:
        return
    height, width = fine.pixels.shape[:2]
    for row in {0, height // 2, height - 1}:
        for column in {0, width // 3, width - 1}:
            index = fine.index(row, column)
            assert (index is None) == (fine.pixels[row, column, 3] == 0)
            if index is not None:
                assert float(fine.text(row, column, 9)) == pytest.approx(float(maps()[index]), abs=0.01, rel=0.1)
                # The place in the whole that lies above this one belongs to the same plane.
                x = fine.part[0] + (column + 0.5) / width * (fine.part[2] - fine.part[0])
                y = fine.part[1] + (row + 0.5) / height * (fine.part[3] - fine.part[1])
                above = whole.index(int(y * whole.pixels.shape[0]), int(x * whole.pixels.shape[1]))
                assert above[1] == index[1]
                assert 0 <= index[2] - above[2] < whole.step
                assert 0 <= index[3] - above[3] < whole.step


def test_small_maps_need_no_detail():
    picture = mosaic(ArrayReader(maps()[:, :4, :20, :30]), WHICH, PictureRequest())
    assert (picture.detail, picture.step) == (None, 1)


def test_heads_say_who_attends_to_whom():
    picture = mosaic(ArrayReader(maps()[:, :2, :8, :8]), WHICH, PictureRequest(), attention=True)
    assert picture.about(3, 5).startswith("head 0: query 3, key 5 = ")
    assert [text for _, _, text in picture.labels] == ["head 0", "head 1"]
    assert "query ↓, key →" in picture.note


def test_many_maps_take_pages_and_are_numbered():
    maps = np.arange(200, dtype=np.float32).reshape(1, 200, 1, 1) * np.ones((1, 1, 4, 4), np.float32)
    assert page_count(maps.shape, 1) == 2
    second = mosaic(ArrayReader(maps), WHICH, PictureRequest(page=1))
    assert [text for _, _, text in second.labels] == [str(number) for number in range(144, 200)]
    row, column, _ = second.labels[3]
    assert second.index(row, column) == (0, 147, 0, 0)
    assert second.about(row, column).endswith("= 147")
    assert second.note.startswith("144 to 199 of 200")
    beyond = mosaic(ArrayReader(maps), WHICH, PictureRequest(page=9))
    assert beyond.labels == second.labels


@pytest.mark.long
@pytest.mark.parametrize("order", ["RGB", "BGR", "second"])
def test_parts_of_a_large_image_keep_the_colours_of_the_whole(order):
    array = np.random.default_rng(1).uniform(-3, 5, (1500, 2100, 3)).astype(np.float32)
    array[:100] *= 0.1  # a part whose own range is another
    whole = image(ArrayReader(array), TensorSlice((0, 0, 0), 0, 1), PictureRequest(order=order))
    assert whole.step == 3
    assert whole.detail is not None
    fine = whole.detail((0.5, 0.02, 0.6, 0.06))
    left, top, right, bottom = fine.part
    height, width = fine.pixels.shape[:2]
    assert (width, height) == pytest.approx(((right - left) * 2100, (bottom - top) * 1500))
    for row, column in ((0, 0), (height // 2, 5), (height - 1, width - 1)):
        y, x = round(top * 1500) + row, round(left * 2100) + column
        assert fine.about(row, column).startswith(f"row {y}, column {x}: ")
        low, high = array.min(), array.max()
        shown = np.clip((array[y, x] - low) / (high - low) * 255, 0, 255)
        expected = {"RGB": shown[::-1], "BGR": shown, "second": np.repeat(shown[1], 3)}[order]
        assert fine.pixels[row, column, :3] == pytest.approx(expected, abs=3)


def test_a_small_image_needs_no_detail():
    picture = image(ArrayReader(maps()[0, :3, :20, :30]), TensorSlice((0, 0, 0), 1, 2), PictureRequest())
    assert (picture.detail, picture.step) == (None, 1)


def test_less_attention_is_distinguished_from_more():
    change = np.zeros((1, 4, 8, 8), np.float32)
    change[0, 1, 2, 3], change[0, 2, 2, 3] = -0.9, 0.4
    seen = mosaic(ArrayReader(change), WHICH, PictureRequest(differences=True), attention=True)
    assert (seen.scale.name, seen.scale.low, seen.scale.high) == ("difference", pytest.approx(-0.9), pytest.approx(0.9))
    places = {seen.index(r, c): (r, c) for r in range(seen.pixels.shape[0]) for c in range(seen.pixels.shape[1])}
    colors = [seen.pixels[places[0, head, 2, 3]].tolist() for head in (0, 1, 2)]
    assert colors[0] != colors[1] != colors[2] != colors[0]
    assert seen.about(*places[0, 1, 2, 3]) == "[0, 1, 2, 3] = -0.9"


def test_an_infinite_attention_weight_keeps_the_others_apart():
    weights = np.full((1, 4, 8, 8), 0.1, np.float32)
    weights[0, 0, 0, 0], weights[0, 0, 0, 1] = np.inf, 0.8
    seen = mosaic(ArrayReader(weights), WHICH, PictureRequest(), attention=True)
    assert (seen.scale.low, seen.scale.high) == (0, pytest.approx(0.8))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 12, 16, 64, 144])
def test_rows_of_planes_are_as_full_as_they_can_be(count):
    tiles = Tiles(count, 24, 24)
    assert tiles.columns * tiles.rows >= count
    assert (tiles.columns - 1) * tiles.rows < count
    assert tiles.columns * (tiles.rows - 1) < count


@pytest.mark.parametrize("aspect", [0.5, 1.0, 2.0, 4.0])
def test_planes_are_as_large_as_the_view_has_room_for(aspect):
    """In a view as wide as 16 planes and as high by its aspect, no other number of rows shows them larger."""
    sizes = []
    for rows in range(1, 17):
        columns = -(-16 // rows)
        sizes.append(min(aspect / columns, 1 / rows))
    tiles = Tiles(16, 24, 24, aspect)
    assert min(aspect / tiles.columns, 1 / tiles.rows) == pytest.approx(max(sizes))


def test_a_double_click_enlarges_a_plane_and_another_one_shows_all(qtbot):
    view = MatrixView()
    qtbot.addWidget(view)
    view.resize(600, 400)
    view.show_picture(mosaic(ArrayReader(maps()), WHICH, PictureRequest()))
    view.show()
    top, left, _ = view.picture.labels[-1]
    height, width = view.picture.pixels.shape[:2]
    place = view.layer_rect()
    x, y = (left + 1) / width * place.width(), (top + 1) / height * place.height()
    at = QPoint(round(place.left() + x), round(place.top() + y))
    small = place.width()
    qtbot.mouseDClick(view, Qt.MouseButton.LeftButton, pos=at)
    place = view.layer_rect()
    assert place.width() > 1.5 * small
    seen = view.rect().center()
    assert (seen.x() - place.left()) / place.width() * width > left
    qtbot.mouseDClick(view, Qt.MouseButton.LeftButton, pos=seen)
    assert view.layer_rect().width() == pytest.approx(small)
