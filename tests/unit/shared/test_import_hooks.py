"""A function that runs after a module is imported, whatever a program asks about the module before."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

from fuselight.shared.import_hooks import AfterImport


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "late_module.py").write_text("VALUE = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.delitem(sys.modules, "late_module", raising=False)
    return "late_module"


@pytest.mark.parametrize("questions", [0, 2])
def test_the_function_runs_once_after_the_import(module: str, questions: int) -> None:
    values: list[int] = []
    finder = AfterImport(module, lambda: values.append(sys.modules[module].VALUE))
    sys.meta_path.insert(0, finder)
    for _ in range(questions):  # as libraries do to find out whether torch is installed
        spec = importlib.util.find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        assert spec.origin.endswith("late_module.py")
        assert values == []
    importlib.import_module(module)
    assert values == [3]
    assert finder not in sys.meta_path


def test_a_finder_that_was_removed_does_nothing(module: str) -> None:
    values: list[int] = []
    finder = AfterImport(module, lambda: values.append(1))
    sys.meta_path.insert(0, finder)
    spec = importlib.util.find_spec(module)
    sys.meta_path.remove(finder)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    importlib.import_module(module)
    assert values == []
