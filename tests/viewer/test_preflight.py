from pathlib import Path

from onnx_workbench.viewer.preflight import _ALWAYS, _WAYLAND, _X11, find_problem, missing_packages

X11 = {"DISPLAY": ":0"}


def loads_all_but(*missing):
    return lambda library: library not in missing


def test_nothing_is_wrong_where_everything_loads():
    for environment in (X11, {"WAYLAND_DISPLAY": "wayland-0"}, {"QT_QPA_PLATFORM": "offscreen"}):
        assert find_problem(environment, "linux", loads_all_but()) is None


def test_a_missing_library_is_named_with_the_line_that_installs_it():
    text = find_problem(X11, "linux", loads_all_but("libEGL.so.1", "libxcb-cursor.so.0"))
    assert "libEGL.so.1, libxcb-cursor.so.0" in text
    assert "sudo apt-get install -y libegl1 libxcb-cursor0\n" in text


def test_only_the_libraries_of_the_platform_in_use_are_needed():
    without_x11 = loads_all_but("libxcb-cursor.so.0")
    assert find_problem({"QT_QPA_PLATFORM": "offscreen"}, "linux", without_x11) is None
    assert find_problem({"WAYLAND_DISPLAY": "wayland-0"}, "linux", without_x11) is None
    assert "libxcb-cursor0" in find_problem({"QT_QPA_PLATFORM": "xcb"}, "linux", without_x11)
    without_wayland = loads_all_but("libwayland-cursor.so.0")
    assert find_problem(X11, "linux", without_wayland) is None
    assert "libwayland-cursor0" in find_problem({"QT_QPA_PLATFORM": "wayland-egl"}, "linux", without_wayland)


def test_missing_libraries_are_named_before_a_missing_display():
    assert "neither DISPLAY nor WAYLAND_DISPLAY is set" in find_problem({}, "linux", loads_all_but())
    assert "libgl1" in find_problem({}, "linux", loads_all_but("libGL.so.1"))


def test_other_systems_bring_everything():
    for platform in ("darwin", "win32"):
        assert find_problem({}, platform, loads_all_but("libGL.so.1")) is None


def test_this_machine_can_be_looked_at_for_real():
    problem = find_problem({"QT_QPA_PLATFORM": "offscreen"})
    missing = missing_packages()
    assert (problem is None) == (missing == [])
    assert all(package in (problem or "") for package in missing)


def test_readme_names_every_package():
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    line = next(line for line in readme.splitlines() if line.startswith("sudo apt-get install"))
    assert set(line.split()) >= {*_ALWAYS.values(), *_X11.values(), *_WAYLAND.values()}
