"""Diffs as `git apply`, `patch -p1` and Fuselight apply them: each changes the bytes of a file as the change does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from fuselight_server.base.diff_text import TextChange, diff_folder, name_in
from fuselight_server.commands.changed_texts import diff_texts
from fuselight_server.commands.sources import SourceFiles

TOOLS = [["git", "apply"], *([["patch", "-p1", "-s", "-i"]] if shutil.which("patch") else [])]
OLD = "import torch\n\n\ndef f(x):\n    print(x)\n    return x\n"
NEW = OLD.replace("    print(x)\n", "    x = x + 1\n")


def changed(path: Path, old: str, new: str, encoding: str) -> TextChange:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(old.encode(encoding))
    return TextChange(str(path), old, new, encoding)


@pytest.mark.parametrize(
    ("name", "old", "new", "encoding"),
    [
        ("m.py", OLD, NEW, "utf-8"),
        ("my models/a net.py", OLD, NEW, "utf-8"),
        ('say "no".py', OLD, NEW, "utf-8"),
        ("back\\slash.py", OLD, NEW, "utf-8"),
        ("tab\there.py", OLD, NEW, "utf-8"),
        ("caf\u00e9.py", OLD, NEW, "utf-8"),
        ("crlf.py", OLD.replace("\n", "\r\n"), NEW.replace("\n", "\r\n"), "utf-8"),
        ("end.py", OLD.removesuffix("\n"), NEW.removesuffix("\n"), "utf-8"),
        ("end.py", "x = 1", "x = 2\n", "utf-8"),
        ("end.py", "x = 1\n", "x = 2", "utf-8"),
        ("feed.py", f"x = 1\f\n\f\n{OLD}\u2028\n", f"x = 1\f\n\f\n{NEW}\u2028\n", "utf-8"),
        ("return.py", f"# a\rb\n{OLD}", f"# a\rb\n{NEW}", "utf-8"),
        ("mark.py", "x = 1\ny = 2\n", "x = 1\ny = 3\n", "utf-8-sig"),
        ("mark.py", "x = 1\ny = 2\n", "x = 3\ny = 2\n", "utf-8-sig"),
        (
            "latin.py",
            "# -*- coding: latin-1 -*-\n# caf\u00e9\nx = 1\n",
            "# -*- coding: latin-1 -*-\n# caf\u00e9\nx = '\u00fc'\n",
            "iso-8859-1",
        ),
        ("new-lines.py", OLD, f"{OLD}\n\nx = 1\n", "utf-8"),
    ],
)
def test_a_diff_makes_the_change_byte_for_byte(
    tmp_path: Path, name: str, old: str, new: str, encoding: str
) -> None:
    path = tmp_path / name
    change = changed(path, old, new, encoding)
    (tmp_path / "f").write_bytes(change.encoded_diff(name_in(str(tmp_path), change.path)))
    assert diff_texts((tmp_path / "f").read_bytes(), tmp_path, SourceFiles()) == {str(path): new}
    for tool in TOOLS:
        path.write_bytes(old.encode(encoding))
        subprocess.run([*tool, "f"], cwd=tmp_path, check=True, capture_output=True, text=True)
        assert path.read_bytes() == new.encode(encoding), tool


@pytest.mark.parametrize(
    ("names", "folder", "shown"),
    [
        (["work/m.py"], "work", ["m.py"]),
        (["work/a/m.py"], "work", ["a/m.py"]),
        (["m.py"], "", ["m.py"]),
        (["other/m.py", "work/n.py"], "", ["other/m.py", "work/n.py"]),
    ],
)
def test_a_file_outside_of_the_working_folder_is_named_in_a_folder_that_has_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], folder: str, shown: list[str]
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    changes = [changed(tmp_path / name, OLD, NEW, "utf-8") for name in names]
    base = diff_folder(change.path for change in changes)
    assert base == str(tmp_path / folder)
    assert [name_in(base, change.path) for change in changes] == shown
    diff = "".join(change.diff(name_in(base, change.path)) for change in changes)
    texts = diff_texts(diff.encode(), tmp_path / "work", SourceFiles())
    assert texts == {change.path: NEW for change in changes}
    subprocess.run(["git", "apply"], input=diff, text=True, cwd=base, check=True)
    assert {Path(change.path).read_text() for change in changes} == {NEW}


def test_a_diff_of_git_names_files_from_the_root_of_the_repository(tmp_path: Path) -> None:
    path = tmp_path / "src" / "m.py"
    diff = b"diff --git a/src/m.py b/src/m.py\n" + changed(path, OLD, NEW, "utf-8").encoded_diff("src/m.py")
    assert diff_texts(diff, path.parent, SourceFiles()) == {str(path): NEW}
