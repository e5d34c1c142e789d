"""What a sweep sends to other machines: tracked files, named files and what they import, and nothing through links."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from fuselight_server.sweep.uploads import upload_of

SECRETS = ("id_rsa", "credentials.json", "data.csv", "settings_local.py", "models/notes.txt")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name, text in {
        "pyproject.toml": "",
        "models/__init__.py": "",
        "models/net.py": "from models.layers import Layer\nimport helper\nimport json\n",
        "models/layers.py": "class Layer: ...\n",
        "helper.py": "",
        "unused.py": "",
        ".env": "TOKEN=1",
        "venv/lib.py": "",
        **dict.fromkeys(SECRETS, "secret"),
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def git(root: Path, *command: str) -> None:
    subprocess.run(["git", *command], cwd=root, check=True, capture_output=True)


def sent(root: Path) -> set[str]:
    return {name for name, _ in upload_of(str(root), [str(root / "models" / "net.py")]).files}


NAMED = {"models/net.py", "models/__init__.py", "models/layers.py", "helper.py"}


def test_without_version_control_what_the_suite_names_is_sent_with_its_imports(project: Path) -> None:
    assert sent(project) == NAMED


def test_a_suite_may_be_named_by_way_of_a_link(project: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(project)
    upload = upload_of(str(project), [str(tmp_path / "link" / "models" / "net.py")])
    assert {name for name, _ in upload.files} == NAMED


def test_what_version_control_tracks_is_sent(project: Path) -> None:
    git(project, "init", "-q")
    git(project, "add", "unused.py", "data.csv", "models", ".env", "venv")
    git(project, "rm", "-q", "--cached", "models/notes.txt")
    assert sent(project) == {*NAMED, "unused.py", "data.csv"}
    below = upload_of(str(project / "models"), [])
    assert {name for name, _ in below.files} == {"net.py", "layers.py", "__init__.py"}


def test_no_link_leads_out_of_what_is_sent(project: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text("secret", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inner.py").write_text("secret", encoding="utf-8")
    os.mkfifo(project / "pipe.py")
    links = {
        "out.py": "../outside.py", "absolute.py": str(tmp_path / "outside.py"), "secret.py": "id_rsa",
        "inside.py": "helper.py", "nowhere.py": "missing.py", "package": "../folder", "zero.py": "/dev/zero",
    }  # fmt: skip
    for name, target in links.items():
        (project / name).symlink_to(target)
    git(project, "init", "-q")
    git(project, "add", "helper.py", *links)
    (project / "models" / "net.py").write_text("import out\nimport package.inner\n", encoding="utf-8")
    upload = upload_of(str(project), [str(project / "models" / "net.py")])
    assert {name for name, _ in upload.files} == {
        "models/net.py",
        "models/__init__.py",
        "helper.py",
        "inside.py",
    }
    assert set(upload.left_out) == {"out.py", "absolute.py", "secret.py", "package/inner.py"}
    upload.copy_to(tmp_path / "stage")
    copied = [path for path in (tmp_path / "stage").rglob("*") if not path.is_dir()]
    assert not any(path.is_symlink() for path in copied)
    assert not any("secret" in path.read_text(encoding="utf-8") for path in copied)
    sentence = upload.sentence("the cluster")
    assert sentence.startswith("sending 4 files (")
    assert "helper.py" in sentence
    assert "out.py" in sentence.partition("stay here")[2]


def test_a_repository_runs_nothing_when_it_is_asked(project: Path, tmp_path: Path) -> None:
    git(project, "init", "-q")
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n", encoding="utf-8")
    program.chmod(0o755)
    git(project, "add", "unused.py")
    git(project, "config", "core.fsmonitor", str(program))
    hooks = project / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "post-index-change").write_bytes(program.read_bytes())
    (hooks / "post-index-change").chmod(0o755)
    assert "unused.py" in sent(project)
    assert not (tmp_path / "ran").exists()


def test_a_long_list_of_files_is_cut(project: Path) -> None:
    for number in range(20):
        (project / f"m{number:02}.py").touch()
    git(project, "init", "-q")
    git(project, "add", *(f"m{number:02}.py" for number in range(20)))
    sentence = upload_of(str(project), []).sentence("the cluster")
    assert sentence.startswith("sending 20 files (0.0 kB) of ")
    assert sentence.endswith("m11.py and 8 more")
