"""The project that the tests of the tools share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agent_project import TEXT


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the program of `agent_project`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "model.py").write_text(TEXT)
    return tmp_path
