import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_workbench.viewer.actions import actions
from onnx_workbench.viewer.popups.fuzzy_match import rate


def best(query, *titles):
    """Of titles, or of tuples of a title, names and what is said of it."""
    things = [(title,) if isinstance(title, str) else title for title in titles]
    rated = [(rate(query, *thing), thing[0]) for thing in things]
    return max((found[0], title) for found, title in rated if found is not None)[1]


def test_letters_must_occur_in_order():
    assert rate("ztf", "Zoom to Fit") is not None
    assert rate("ftz", "Zoom to Fit") is None
    assert rate("", "Zoom to Fit") is not None


def test_positions_are_those_of_the_letters():
    assert rate("ztf", "Zoom to Fit")[1] == (0, 5, 8)
    assert rate("fit", "Zoom to Fit")[1] == (8, 9, 10)


def test_words_stand_in_any_order():
    assert rate("fit zoom", "Zoom to Fit") is not None


def test_starts_of_words_and_whole_words_win():
    assert best("find", "Refind a node", "Find") == "Find"
    assert best("zi", "Resize item", "Zoom In") == "Zoom In"
    assert best("open", "Open…", "Recent file 1 opened before") == "Open…"


def test_whole_words_win_over_scattered_letters():
    tensor = ("Tensor", "values numbers", "Open or close the panel")
    assert best("open tensor", "Stop when a shape differs from the declared", tensor) == "Tensor"
    assert best("settings", "Open Log Folder says things", ("Preferences…", "options settings")) == "Preferences…"
    assert best("help", "Remove the Last Output", ("Command Palette…", "", "Help")) == "Command Palette…"


def test_each_word_may_fit_in_another_place():
    add = ("Add Operator…", "insert node new")
    assert best("add node", ("Name Unnamed Nodes", "additional"), add) == "Add Operator…"
    assert rate("add edge", *add) is None


def test_words_that_stand_together_among_the_names_are_a_name():
    add, output = ("Add Operator…", "add node insert node"), ("Add an Output to the Node", "split more")
    assert best("add node", output, add) == "Add Operator…"
    assert best("add output", output, add) == "Add an Output to the Node"
    assert best("node add", output, add) == "Add an Output to the Node"
    assert best("dd nod", output, add) == "Add an Output to the Node"


def test_titles_win_over_names_and_names_over_what_is_said():
    assert best("undo", ("History", "undo redo"), "Undo") == "Undo"
    assert best("batch", ("Convert…", "batch"), "Set Batch Dimension…") == "Set Batch Dimension…"
    assert best("optimize", ("Run", "", "Optimize nothing"), ("Simplify…", "optimize")) == "Simplify…"
    assert best("find", "Find and Replace…", "Find…") == "Find…"
    assert (
        best("mac", ("Replay Edit Script…", "macro"), ("Colour by Multiply-adds", "macs")) == "Colour by Multiply-adds"
    )


def test_the_title_itself_comes_first_with_any_dots():
    other = ("Compare Values With…", "compare with model compare with file")
    for query in ("compare with…", "Compare With...", "compare with"):
        assert best(query, other, "Compare With…") == "Compare With…"


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("mac", "Statistics"),
        ("macs", "Colour by Multiply-adds"),
        ("params", "Statistics"),
        ("seed", "Run"),
        ("relative tolerance", "Compare"),
        ("logarithmic", "Tensor"),
        ("simplify", "Simplify…"),
    ],
)
def test_words_that_users_type_find_the_command(query, title):
    found = [(rate(query, one.plain_title, one.words, one.tip), one.title.replace("&", "")) for one in actions()]
    assert title in [name for rated, name in sorted(found, key=lambda one: -one[0][0] if one[0] else 0)[:5] if rated]


def test_words_begin_at_capitals_too():
    assert best("norm", "Enormous", "BatchNormalization") == "BatchNormalization"
    assert best("qlc", "Quantile calls", "QLinearConv") == "QLinearConv"
    assert best("gelu", "GatherBlockQuantized", "BiasGelu") == "BiasGelu"


@given(st.text(max_size=6), st.text(max_size=30))
def test_any_text_is_taken_and_positions_lie_in_it(query, text):
    found = rate(query, text)
    if found is not None:
        assert all(0 <= at < len(text) for at in found[1])
        assert len(found[1]) <= len("".join(query.split()))


@given(st.text(st.characters(categories=("Ll",), max_codepoint=127), min_size=1, max_size=20), st.data())
def test_every_subsequence_of_a_title_finds_it(title, data):
    letters = "".join(c for c in title if data.draw(st.booleans()))
    found = rate(letters, title)
    assert found is not None
    assert "".join(title[at] for at in found[1]) == letters
