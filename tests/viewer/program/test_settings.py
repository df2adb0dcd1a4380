import pytest

from onnx_workbench.viewer.program.settings import (
    LANGUAGE,
    PREFERENCES,
    RECENT_LIMIT,
    SHOW_NAMES,
    THEME,
    Option,
    Settings,
)
from onnx_workbench.viewer.style.choices import choice_title


def test_an_option_is_its_default_until_set_and_survives_a_restart(settings):
    assert settings.get(THEME) == "system"
    settings.set(THEME, "dark")
    settings.set(SHOW_NAMES, True)
    settings.sync()
    again = Settings()
    assert again.get(THEME) == "dark"
    assert again.get(SHOW_NAMES) is True


def test_only_a_change_is_reported(settings, received):
    keys = received(settings.changed)
    settings.set(THEME, "dark")
    settings.set(THEME, "dark")
    assert keys == [THEME.key]


def test_a_value_that_is_no_choice_is_refused(settings):
    with pytest.raises(ValueError, match="system, light, dark, contrast; got 'pink'"):
        settings.set(THEME, "pink")


@pytest.mark.parametrize("text", ["pink", "[1]", "", "{", "12", '"pink"'])
def test_nonsense_in_the_file_gives_the_default(settings, text):
    settings._store.setValue(THEME.key, text)
    assert settings.get(THEME) == "system"


@pytest.mark.parametrize(
    ("default", "value"), [(1.5, 2.0), (1, 7), ("a", "ü\n"), (False, True), (("a",), ("b", "c")), (2.0, -0.5)]
)
def test_every_type_of_option_comes_back_as_it_was(settings, default, value):
    option = Option("test/option", default)
    settings.set(option, value)
    settings.sync()
    found = Settings().get(option)
    assert found == value
    assert type(found) is type(default)


def test_recent_files_are_newest_first_unique_and_limited(settings, tmp_path):
    for number in range(RECENT_LIMIT + 5):
        settings.add_recent_file(tmp_path / f"{number}.onnx")
    settings.add_recent_file(tmp_path / "10.onnx")
    recent = settings.recent_files()
    assert recent[:2] == [tmp_path / "10.onnx", tmp_path / f"{RECENT_LIMIT + 4}.onnx"]
    assert len(recent) == len(set(recent)) == RECENT_LIMIT
    settings.remove_recent_file(tmp_path / "10.onnx")
    assert tmp_path / "10.onnx" not in settings.recent_files()


def test_preferences_have_titles_and_belong_to_one_key_each():
    assert all(option.title for option in PREFERENCES)
    assert len({option.key for option in PREFERENCES}) == len(PREFERENCES)


def test_the_state_folder_can_be_moved(monkeypatch, tmp_path, state_folder):
    from onnx_workbench.viewer.program import folders

    assert folders.state_folder() == state_folder
    monkeypatch.delenv("ONNX_WORKBENCH_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(folders.sys, "platform", "linux")
    assert folders.state_folder() == tmp_path / "onnx-workbench"


@pytest.mark.parametrize(
    "option", [one for one in PREFERENCES if one.choices and one is not LANGUAGE], ids=lambda option: option.key
)
def test_every_choice_in_the_preferences_has_a_title(option):
    assert [choice for choice in option.choices if choice.islower() and choice_title(choice) == choice] == []
