import pytest
from PySide6.QtGui import QKeySequence

from onnx_workbench import resources
from onnx_workbench.viewer.actions import Action, Menu, action, actions

KINDS = {"canvas", "node", "value", "graph", "function", "model", "tensor"}


def test_ids_are_unique_and_found():
    ids = [one.id for one in actions()]
    assert len(set(ids)) == len(ids)
    assert all(action(one) is actions()[index] for index, one in enumerate(ids))
    with pytest.raises(KeyError):
        action("no.such")


def test_no_two_actions_share_a_key(qapp):
    keys = [QKeySequence(text).toString() for one in actions() for text in one.keys]
    assert all(keys), "every shortcut is one Qt understands"
    assert sorted(key for key in set(keys) if keys.count(key) > 1) == []


@pytest.mark.long
@pytest.mark.parametrize("one", actions(), ids=lambda one: one.id)
def test_an_action_is_described_well(one: Action):
    assert one.plain_title
    assert set(one.on) <= KINDS
    assert not one.icon or resources.path(f"icons/{one.icon}.svg").exists()
    assert one.place is not None or one.words or one.tip, "what stands in no menu must be found by words"
    assert one.toolbar == 0 or one.icon, "the tool bar shows icons"
    assert one.title.count("&") - 2 * one.title.count("&&") <= 1


def test_mnemonics_within_a_menu_differ():
    menus: dict[tuple[Menu, str], set[str]] = {}
    for one in actions():
        if one.place is not None:
            menus.setdefault((one.place.menu, one.place.submenu), set()).add(one.title)
            if one.place.submenu:
                menus.setdefault((one.place.menu, ""), set()).add(one.place.submenu)
    for place, titles in menus.items():
        plain = [title.replace("&&", "") for title in titles]
        letters = [title[title.index("&") + 1].lower() for title in plain if "&" in title]
        assert sorted(letter for letter in set(letters) if letters.count(letter) > 1) == [], place


def test_no_menu_is_longer_than_the_screen_is_high():
    for menu in Menu:
        placed = [(one.place, one) for one in actions() if one.place is not None and one.place.menu is menu]
        rows = {place.submenu or one.id for place, one in placed if not one.id.startswith("file.recent.")}
        assert len(rows) <= 25, (menu, len(rows))
        submenus = [place for place, _ in placed if place.submenu]
        assert all(submenus.count(place) > 1 for place in submenus)


def test_netrons_keys_keep_their_meaning():
    keys = {text: one.id for one in actions() for text in one.keys}
    expected = {
        "Ctrl+O": "file.open", "Ctrl+D": "view.attributes", "Ctrl+I": "view.initializers", "Ctrl+U": "view.names",
        "Ctrl+K": "view.direction", "Ctrl+M": "view.wheel", "F5": "file.reload", "Backspace": "go.up",
        "Ctrl+Shift+E": "file.export", "Ctrl+Return": "go.properties", "Shift+Backspace": "view.actual_size",
        "Shift+Up": "view.zoom_in", "Shift+Down": "view.zoom_out", "Ctrl+1": "file.recent.1", "Ctrl+9": "file.recent.9",
        "F11": "view.full_screen", "Ctrl+W": "file.close", "Ctrl+Q": "file.quit", "Ctrl+Shift+P": "help.palette",
        "Space": "view.fit",
    }  # fmt: skip
    assert {key: keys.get(key) for key in expected} == expected
