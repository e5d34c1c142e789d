"""Modules of the project that a file imports: found as Python would find them, without running anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuselight_server.source.local_imports import LocalImports, import_folders


def modules(root: Path, file: str, files: dict[str, str]) -> set[str]:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return set(LocalImports().digests(str(root / file), import_folders([str(root)])))


CASES: dict[str, tuple[str, dict[str, str], set[str]]] = {
    "beside it, and what that imports": (
        "net.py",
        {
            "net.py": "import torch\nfrom models.layers import Layer\n",
            "models/layers.py": "def f():\n    from . import sizes\n",
            "models/sizes.py": "import net\n",
            "models/unused.py": "",
        },
        {"models.layers", "models.sizes"},
    ),
    "packages around it": (
        "a/b/net.py",
        {
            "a/__init__.py": "from .c import *\n",
            "a/b/__init__.py": "",
            "a/b/net.py": "from ..d import (\n    one as two,\n)\n",
            "a/c.py": "",
            "a/d/__init__.py": "",
            "a/d/one.py": "",
        },
        {"a", "a.b", "a.c", "a.d", "a.d.one"},
    ),
    "the project's folder and src, after the file's": (
        "models/net.py",
        {
            "models/net.py": "import helper, lib.part as part, json, torch\n",
            "helper.py": "",
            "src/lib/__init__.py": "",
            "src/lib/part.py": "",
            "json.py": "",
            "torch.py": "",
        },
        {"helper", "lib", "lib.part"},
    ),
    "an import that this Python could not parse, and too many dots": (
        "net.py",
        {
            "net.py": "type A[T: int = 3] = (\nimport helper\nfrom .... import up\n",
            "helper.py": "",
            "up.py": "",
        },
        {"helper", "up"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_modules_of_the_project(case: str, tmp_path: Path) -> None:
    file, files, texts = CASES[case]
    assert modules(tmp_path, file, files) == texts


def test_folders_of_pythonpath_in_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'lib'}:/elsewhere")
    files = {"net.py": "import helper\n", "lib/helper.py": ""}
    assert modules(tmp_path, "net.py", files) == {"helper"}


def test_a_digest_changes_with_the_text_alone(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("import helper\n", encoding="utf-8")
    (tmp_path / "helper.py").write_text("x = 1\n", encoding="utf-8")
    path = str(tmp_path / "net.py")
    before = LocalImports().digests(path, [])
    (tmp_path / "helper.py").touch()
    assert LocalImports().digests(path, []) == before
    (tmp_path / "helper.py").write_text("x = 2\n", encoding="utf-8")
    assert LocalImports().digests(path, []) != before
