"""The files that a fix may change."""

from __future__ import annotations

from pathlib import Path

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
