"""The files that a fix may change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fuselight_server.fixes.verification.file_texts import FileText


def test_a_fix_writes_through_no_link_out_of_the_project(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").touch()
    (project / "net.py").write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "outside.py").write_text("x = 1\n", encoding="utf-8")
    (project / "inside.py").symlink_to("net.py")
    (project / "out.py").symlink_to(tmp_path / "outside.py")
    for name in ("net.py", "inside.py"):
        text = FileText.read(str(project / name))
        assert not text.obstacle("x = 2\n")
    text = FileText.read(str(project / "out.py"))
    assert text.obstacle("x = 2\n") == (
        f"the file is a link to {tmp_path / 'outside.py'}, outside of its project: name that file"
    )


@pytest.mark.parametrize("marked", ["pyproject.toml", ".git", ""])
@pytest.mark.parametrize("outside", ["pyproject.toml", ".git", ""])
@pytest.mark.parametrize("linked", ["pkg", "src/pkg", "src"])
def test_a_fix_writes_through_no_linked_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marked: str, outside: str, linked: str
) -> None:
    project, other = tmp_path / "project", tmp_path / "ext"
    (other / "pkg").mkdir(parents=True)
    (project / linked).parent.mkdir(parents=True)
    for folder, mark in ((project, marked), (other, outside)):
        if mark:
            (folder / mark).mkdir()
    for place in (other / "net.py", other / "pkg" / "net.py"):
        place.write_text("x = 1\n", encoding="utf-8")
    (project / linked).symlink_to(os.path.relpath(other, (project / linked).parent))
    monkeypatch.chdir(project)
    for name in (f"{linked}/net.py", f"{linked}/pkg/net.py"):
        for path in (name, str(project / name)):
            text = FileText.read(path)
            assert "outside of its project" in text.obstacle("x = 2\n")


def test_links_inside_of_a_project_and_above_it_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "data" / "project"
    (project / "real").mkdir(parents=True)
    (project / "pyproject.toml").touch()
    (project / "real" / "net.py").write_text("x = 1\n", encoding="utf-8")
    (project / "pkg").symlink_to("real")
    (tmp_path / "work").symlink_to("data")
    monkeypatch.chdir(tmp_path / "work" / "project")
    for path in ("pkg/net.py", "real/net.py", str(tmp_path / "work" / "project" / "pkg" / "net.py")):
        text = FileText.read(path)
        assert not text.obstacle("x = 2\n")
        text.write("x = 1\n")
    assert (project / "pkg").is_symlink()
