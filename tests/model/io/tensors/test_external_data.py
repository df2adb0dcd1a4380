import os
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_workbench.model.io.tensors import external_data
from onnx_workbench.model.io.tensors.external_data import (
    ExternalData,
    ExternalDataRefused,
    check_location,
    check_range,
    open_external,
    parse_entries,
)

WAYS = ("openat2", "without openat2")


@pytest.fixture(params=WAYS)
def folder(request, tmp_path, monkeypatch):
    """A model's folder with a data file, a secret beside it, and both ways of opening."""
    if request.param != "openat2":
        monkeypatch.setattr(external_data, "_openat2", lambda base, location: None)
    home = tmp_path / "model"
    (home / "sub").mkdir(parents=True)
    (home / "w.bin").write_bytes(b"weights")
    (home / "sub" / "w.bin").write_bytes(b"inner")
    (tmp_path / "secret").write_bytes(b"secret")
    return home


@pytest.mark.parametrize("location", ["w.bin", "sub/w.bin"])
def test_a_file_in_the_folder_is_read(folder, location):
    assert open_external(folder, location).read(0, 5) in (b"weigh", b"inner")


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("", "is empty"),
        ("../secret", "'..'"),
        ("sub/../../secret", "'..'"),
        ("..", "'..'"),
        (".", "'.'"),
        ("./w.bin", "'.'"),
        ("/etc/passwd", "relative"),
        ("~/w.bin", "relative"),
        ("sub//w.bin", "component ''"),
        ("sub/", "component ''"),
        ("..\\secret", "backslash"),
        ("sub\\w.bin", "backslash"),
        ("C:/secret", "colon"),
        ("w.bin:stream", "colon"),
        ("http://host/w.bin", "colon"),
        ("file:///etc/passwd", "colon"),
        ("w.bin\0.txt", "control"),
        ("w\n.bin", "control"),
        ("w.bin ", "space or dot"),
        ("w.bin.", "space or dot"),
        ("CON", "devices"),
        ("sub/nul.bin", "devices"),
        ("COM1.txt", "devices"),
        ("lpt¹", "devices"),
        ("x" * 4097, "longer"),
    ],
)
def test_locations_that_are_refused_unseen(location, reason):
    with pytest.raises(ExternalDataRefused, match=re.escape(reason)):
        check_location(location)


@pytest.mark.parametrize(
    "location", ["a", "a.b", "a b/c", "…/ü", "...a", "console", "com", "a..b", "-x", "$HOME", "%2e%2e/x"]
)
def test_locations_that_are_only_odd(location):
    assert check_location(location) == location


@given(st.text(max_size=40))
def test_no_accepted_location_leaves_its_folder(location):
    try:
        check_location(location)
    except ExternalDataRefused:
        return
    path = os.path.normpath(f"/base/folder/{location}")
    assert path.startswith("/base/folder/")


def test_a_link_out_of_the_folder_is_refused(folder):
    (folder / "link").symlink_to(folder.parent / "secret")
    with pytest.raises(ExternalDataRefused, match="points outside"):
        open_external(folder, "link")


def test_a_relative_link_out_of_the_folder_is_refused(folder):
    (folder / "sub" / "link").symlink_to("../../secret")
    with pytest.raises(ExternalDataRefused, match="points outside"):
        open_external(folder, "sub/link")


def test_a_linked_parent_folder_out_of_the_folder_is_refused(folder):
    (folder / "up").symlink_to("..")
    with pytest.raises(ExternalDataRefused, match="points outside"):
        open_external(folder, "up/secret")


def test_a_link_within_the_folder_is_followed(folder):
    (folder / "link").symlink_to("sub/w.bin")
    assert open_external(folder, "link").read(0, 5) == b"inner"


def test_a_folder_reached_through_a_link_is_the_real_one(folder):
    (folder.parent / "alias").symlink_to(folder)
    assert open_external(folder.parent / "alias", "w.bin").size == 7


def test_a_linked_model_and_its_linked_data_belong_together(folder):
    """As a download cache lays them out: names in one folder, blobs in another."""
    blobs, names = folder.parent / "blobs", folder / "snapshot"
    blobs.mkdir()
    names.mkdir()
    (blobs / "0a").write_bytes(b"weights")
    (names / "w.bin").symlink_to("../../blobs/0a")
    (names / "out").symlink_to("../../secret")
    with pytest.raises(ExternalDataRefused, match="points outside"):
        open_external(names, "w.bin")
    assert open_external(names, "w.bin", blobs).read(0, 7) == b"weights"
    with pytest.raises(ExternalDataRefused, match="points outside"):
        open_external(names, "out", blobs)
    with pytest.raises(ExternalDataRefused, match=r"'..'"):
        open_external(names, "../blobs/0a", blobs)
    os.link(blobs / "0a", blobs / "0b")
    with pytest.raises(ExternalDataRefused, match="hard links"):
        open_external(names, "w.bin", blobs)


def test_links_that_go_round_are_refused(folder):
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    with pytest.raises(ExternalDataRefused):
        open_external(folder, "a")


def test_a_hard_link_is_refused(folder):
    os.link(folder.parent / "secret", folder / "hard")
    with pytest.raises(ExternalDataRefused, match="2 hard links"):
        open_external(folder, "hard")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_is_refused_without_waiting(folder):
    os.mkfifo(folder / "pipe")
    with pytest.raises(ExternalDataRefused, match="not a regular file"):
        open_external(folder, "pipe")


def test_a_folder_is_refused(folder):
    with pytest.raises(ExternalDataRefused, match=r"not a regular file|cannot be opened"):
        open_external(folder, "sub")


def test_a_link_to_a_device_is_refused(folder):
    (folder / "zero").symlink_to("/dev/zero")
    with pytest.raises(ExternalDataRefused):
        open_external(folder, "zero")


def test_magic_links_of_proc_are_refused(folder):
    (folder / "fd").symlink_to("/proc/self/cwd/../../etc/passwd")
    with pytest.raises(ExternalDataRefused):
        open_external(folder, "fd")


def test_a_missing_file_is_named(folder):
    with pytest.raises(ExternalDataRefused, match=r"'nothing\.bin' is missing"):
        open_external(folder, "nothing.bin")


def test_an_empty_folder_name_means_the_working_folder(folder):
    """Containment against an empty base let everything through in a widely used reader."""
    program = (
        "from onnx_workbench.model.io.tensors.external_data import *\n"
        "for location in ('w.bin', '../secret', 'link'):\n"
        "    try: print(open_external('', location).size)\n"
        "    except ExternalDataRefused: print('refused')\n"
    )
    (folder / "link").symlink_to(folder.parent / "secret")
    found = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == ["7", "refused", "refused"]


def test_a_model_may_have_more_data_files_than_may_be_open(tmp_path):
    resource = pytest.importorskip("resource")
    program = (
        "import resource, sys\n"
        "_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))\n"
        "from onnx_workbench.model.io.tensors.external_data import open_external\n"
        "files = [open_external(sys.argv[1], str(number)) for number in range(100)]\n"
        "print(sum(file.size for file in files))\n"
    )
    if 0 <= resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 200:
        pytest.skip("no more files are allowed here")
    for number in range(100):
        (tmp_path / str(number)).write_bytes(b"x")
    command = [sys.executable, "-c", program, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, check=True).stdout.split() == [b"100"]


@pytest.mark.parametrize("number", ["1_6", "٣", " 1", "1 ", "+1", "-1", "0x10", "1e3", "", "1.0", "9" * 20, "１"])
@pytest.mark.parametrize("key", ["offset", "length"])
def test_numbers_that_are_no_plain_decimals(key, number):
    with pytest.raises(ExternalDataRefused, match="plain decimal"):
        parse_entries([("location", "w.bin"), (key, number)])


@pytest.mark.parametrize("key", ["location", "offset", "length", "checksum", "anything"])
def test_a_key_given_twice_is_refused(key):
    with pytest.raises(ExternalDataRefused, match="twice"):
        parse_entries([("location", "w.bin"), (key, "1"), (key, "1")])


def test_unknown_keys_mean_nothing():
    found = parse_entries([("location", "w.bin"), ("__class__", "x"), ("prepacked_0", "1|2|3")])
    assert found == ExternalData("w.bin", 0, None)


def test_a_location_must_be_given():
    with pytest.raises(ExternalDataRefused, match="no location"):
        parse_entries([("offset", "0")])


def test_ranges_must_fit_the_file_and_the_tensor():
    check_range(ExternalData("w", 4, 12), 12, 16)
    check_range(ExternalData("w", 16, None), 0, 16)
    with pytest.raises(ExternalDataRefused, match="need 12"):
        check_range(ExternalData("w", 0, 16), 12, 16)
    with pytest.raises(ExternalDataRefused, match="beyond its end"):
        check_range(ExternalData("w", 5, None), 12, 16)
    with pytest.raises(ExternalDataRefused, match="beyond its end"):
        check_range(ExternalData("w", 10**18, 2**64), 2**64, 16)


def test_very_many_entries_are_refused_without_reading_them_all():
    entries = iter([("location", "w.bin"), *((f"key{number}", "") for number in range(500_000))])
    with pytest.raises(ExternalDataRefused, match=re.escape("more than 1,000 entries")):
        parse_entries(entries)
    assert len(list(entries)) > 490_000
