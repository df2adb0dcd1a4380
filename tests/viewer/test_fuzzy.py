from hypothesis import given
from hypothesis import strategies as st

from viewer.widgets.fuzzy import fuzzy_match


def best(query, *titles):
    rated = [(fuzzy_match(query, title), title) for title in titles]
    return max((found[0], title) for found, title in rated if found is not None)[1]


def test_letters_must_occur_in_order():
    assert fuzzy_match("ztf", "Zoom to Fit") is not None
    assert fuzzy_match("ftz", "Zoom to Fit") is None
    assert fuzzy_match("", "Zoom to Fit") is not None


def test_positions_are_those_of_the_letters():
    assert fuzzy_match("ztf", "Zoom to Fit")[1] == (0, 5, 8)
    assert fuzzy_match("fit", "Zoom to Fit")[1] == (8, 9, 10)


def test_words_stand_in_any_order():
    assert fuzzy_match("fit zoom", "Zoom to Fit") is not None


def test_starts_of_words_and_whole_words_win():
    assert best("find", "Refind a node", "Find") == "Find"
    assert best("zi", "Resize item", "Zoom In") == "Zoom In"
    assert best("open", "Open…", "Recent file 1 opened before") == "Open…"


@given(st.text(max_size=6), st.text(max_size=30))
def test_any_text_is_taken_and_positions_lie_in_it(query, text):
    found = fuzzy_match(query, text)
    if found is not None:
        assert all(0 <= at < len(text) for at in found[1])
        assert len(found[1]) <= len("".join(query.split()))


@given(st.text(st.characters(categories=("Ll",), max_codepoint=127), min_size=1, max_size=20), st.data())
def test_every_subsequence_of_a_title_finds_it(title, data):
    letters = "".join(c for c in title if data.draw(st.booleans()))
    found = fuzzy_match(letters, title)
    assert found is not None
    assert "".join(title[at] for at in found[1]) == letters
