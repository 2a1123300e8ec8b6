"""What a model can see of a workspace: its files within bounds, and nothing outside of it."""

import os
from pathlib import Path

import pytest

from assay import State
from assay.models.callable_tool import CallableTool
from assay.tools import Workspace


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with some files and traps, and a secret beside it."""
    (tmp_path / "secret.txt").write_text("the secret")
    (tmp_path / "work-other").mkdir()
    (tmp_path / "work-other" / "secret.txt").write_text("the secret")
    root = tmp_path / "work"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "src" / "a.py").write_text("import os\n# TODO Größe\nx = 1\n", encoding="utf-8")
    (root / "src" / "deep" / "b.txt").write_text("nothing todo here")
    (root / "binary").write_bytes(b"\x7fELF\0\0todo")
    (root / "latin").write_bytes(b"caf\xe9 todo\n")
    (root / "inside").symlink_to("src/a.py")
    (root / "outside").symlink_to(tmp_path / "secret.txt")
    (root / "up").symlink_to("..")
    (root / "loop").symlink_to("loop")
    (root / "zero").symlink_to("/dev/zero")
    os.mkfifo(root / "pipe")
    with (root / "huge").open("wb") as huge:
        huge.write(b"first line\n")
        huge.truncate(1 << 40)
    (root / "long").write_text("todo " * 1_000_000)
    return root


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("../secret.txt", "outside"),
        ("src/../../secret.txt", "outside"),
        ("../work-other/secret.txt", "outside"),
        ("/etc/passwd", "outside"),
        ("outside", "outside"),
        ("up/secret.txt", "outside"),
        ("zero", "outside"),
        ("loop", "there is no 'loop'"),
        ("nowhere", "there is no 'nowhere'"),
        ("a\0b", "there is no"),
        ("x" * 5000, "there is no"),
        ("pipe", "not a regular file"),
        ("src", "not a regular file"),
        ("binary", "not text"),
        ("huge", "1,099,511,627,776 bytes of another kind"),
    ],
)
def test_what_may_not_be_read_is_refused_at_once(folder, path, said):
    """Whatever leads out of the workspace, blocks, or is no text."""
    with pytest.raises(ValueError, match=said):
        Workspace(folder).read_file(path)


@pytest.mark.parametrize("path", ["..", "up", "/", "outside", "loop", "src/../.."])
def test_no_folder_outside_is_listed_or_searched(folder, path):
    """By no name, and through no link."""
    for tool in (
        Workspace(folder).list_files,
        lambda path: Workspace(folder).search_files("secret", path),
    ):
        with pytest.raises(ValueError, match=r"outside|there is no"):
            tool(path)


def test_files_are_listed_with_their_sizes_and_links_are_not(folder):
    """Neither are pipes."""
    listed = Workspace(folder).list_files().split("\n")
    assert listed == [
        "binary (10 bytes)",
        "huge (1,099,511,627,776 bytes)",
        "latin (10 bytes)",
        "long (5,000,000 bytes)",
        "src/a.py (31 bytes)",
        "src/deep/b.txt (17 bytes)",
    ]
    assert Workspace(folder).list_files("src/deep") == "src/deep/b.txt (17 bytes)"
    (folder / "empty").mkdir()
    assert Workspace(folder).list_files("empty") == "(there are no files)"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("src/a.py",), "1\timport os\n2\t# TODO Größe\n3\tx = 1\n4\t"),
        (("inside", 2, 3), "2\t# TODO Größe\n3\tx = 1"),
        (("src/a.py", 9), "(none of these lines is there: the file has 4 lines)"),
        (("latin",), "1\tcaf\ufffd todo\n2\t"),
    ],
)
def test_lines_are_read_with_their_numbers(folder, arguments, text):
    """Also through a link that stays inside."""
    assert Workspace(folder).read_file(*arguments) == text


def test_a_long_file_is_cut_and_the_reply_says_so(folder):
    """It says where to read on, and how much of a huge file can be read at all."""
    read = Workspace(folder).read_file("long")
    assert read.endswith(
        "in line 1: read on there)\n(of 5,000,000 bytes the first 4,000,000 can be read)"
    )
    assert len(read) < 20_300


def test_a_search_finds_lines_in_whatever_case(folder):
    """With their place; what is no text is passed over."""
    found = Workspace(folder).search_files("TODO").split("\n")
    assert [line[:24] for line in found] == [
        "latin:1: caf\ufffd todo",
        "long:1: todo todo todo t",
        "src/a.py:2: # TODO Größe",
        "src/deep/b.txt:1: nothin",
    ]
    assert Workspace(folder).search_files("GRÖSSE", "src") == "src/a.py:2: # TODO Größe"
    assert Workspace(folder).search_files("nowhere to be seen") == "(no line holds it)"


def test_replies_about_very_many_files_are_bounded(tmp_path):
    """And say that there is more."""
    for number in range(700):
        (tmp_path / f"{number:04}").write_text("todo\n")
    workspace = Workspace(tmp_path)
    more = "(there is more: ask for less, or about a folder below)"
    assert workspace.list_files().endswith(f"0499 (5 bytes)\n{more}")
    found = workspace.search_files("todo").split("\n")
    assert (len(found), found[-1]) == (101, more)
    (tmp_path / "0000").write_text(("todo " * 200 + "\n") * 1000)
    assert workspace.search_files("todo", "0000").endswith(more)
    assert len(workspace.search_files("todo", "0000")) < 20_100


def test_a_folder_that_is_a_link_is_refused(tmp_path):
    """What works in the folder could have put the link there. Links before it are followed."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "a").write_text("the secret")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "7").symlink_to(tmp_path / "secret")
    for root in (tmp_path / "runs" / "7", tmp_path / "runs" / "{task_id}"):
        with pytest.raises(ValueError, match="no link"):
            Workspace(root).read_file("a", state=State(task_id=7))
    (tmp_path / "link").symlink_to("runs")
    (tmp_path / "runs" / "8").mkdir()
    (tmp_path / "runs" / "8" / "a").write_text("eight")
    for root in (tmp_path / "link" / "8", tmp_path / "link" / "{task_id}"):
        assert Workspace(root).read_file("a", state=State(task_id=8)) == "1\teight"
    (tmp_path / "runs" / "9").symlink_to("8")
    with pytest.raises(ValueError, match="no link"):
        Workspace(tmp_path / "runs" / "{task_id}" / "..").list_files(state=State(task_id=9))


def test_a_folder_that_is_swapped_for_a_link_leads_nowhere(tmp_path, monkeypatch):
    """It is swapped after the path was looked at, and before the file is opened."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "a").write_text("the secret")
    root = tmp_path / "work"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a").write_text("public")
    workspace = Workspace(root)
    assert workspace.read_file("src/a") == "1\tpublic"
    open_file = os.open

    def swap_and_open(path, flags, *args, **options):
        if not (root / "src").is_symlink():
            (root / "src").rename(root / "old")
            (root / "src").symlink_to(tmp_path / "secret")
        return open_file(path, flags, *args, **options)

    for read in (workspace.read_file, lambda path: workspace.search_files("e", path)):
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", swap_and_open)
            with pytest.raises(ValueError, match="outside"):
                read("src/a")
        (root / "src").unlink()
        (root / "old").rename(root / "src")


def test_links_that_stay_inside_are_followed(folder):
    """Also absolute ones, and those that go up and down again."""
    (folder / "src" / "absolute").symlink_to(folder / "src" / "deep")
    (folder / "src" / "deep" / "back").symlink_to("../../src/a.py")
    assert Workspace(folder).read_file("src/absolute/b.txt") == "1\tnothing todo here"
    assert Workspace(folder).read_file("src/absolute/back", 3, 3) == "3\tx = 1"
    assert Workspace(folder).list_files("src/absolute") == "src/deep/b.txt (17 bytes)"
    assert Workspace(folder).read_file(str(folder / "inside"), 3, 3) == "3\tx = 1"


def test_a_folder_may_be_named_by_columns_of_the_rollout(tmp_path):
    """By a name alone: no row can choose a folder elsewhere."""
    (tmp_path / "runs" / "7").mkdir(parents=True)
    (tmp_path / "runs" / "7" / "a").write_text("seven")
    workspace = Workspace(tmp_path / "runs" / "{task_id}")
    assert workspace.read_file("a", state=State(task_id=7)) == "1\tseven"
    for value in ("..", ".", "", "7/../..", "/etc", "8"):
        with pytest.raises(ValueError, match=r"give a name there|is not a folder"):
            workspace.read_file("a", state=State(task_id=value))


def test_a_workspace_that_is_not_there_is_refused_when_it_is_made(tmp_path):
    """A file is none either."""
    (tmp_path / "a").write_text("")
    for path in ("nowhere", "a"):
        with pytest.raises(ValueError, match="is not a folder: name one that is there"):
            Workspace(tmp_path / path)


def test_its_tools_are_told_to_a_model_without_the_state(folder):
    """What is checked is what they declare."""
    declared = {
        tool.name: tool.declared.parameters for tool in map(CallableTool, Workspace(folder).tools)
    }
    assert list(declared) == ["list_files", "read_file", "search_files", "show_file"]
    assert "state" not in "".join(declared.values())
