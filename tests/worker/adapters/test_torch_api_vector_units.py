"""Inductor's tests of vector units are kept in the user's own caches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from torch._inductor.cpu_vec_isa import VecAVX2, VecISA

from fuselight.adapters.torch_api.inductor import vector_units

pytestmark = pytest.mark.torch
CACHES = "TORCHINDUCTOR_CACHE_DIR"


@pytest.fixture
def tested(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str | None]:
    """The folders in which tests were made; none can be made in `read-only`."""
    folders: list[str | None] = []

    def check_build(_unit: VecISA, _code: str) -> bool:
        folders.append(os.environ.get(CACHES))
        if folders[-1] == "read-only":
            raise PermissionError("read-only")
        return folders[-1] != "unusable"

    monkeypatch.setattr(VecISA, "check_build", check_build)
    monkeypatch.setenv(CACHES, str(tmp_path))
    return folders


def test_a_unit_is_tested_in_the_users_caches_and_nothing_else_is_there(
    tested: list[str | None], tmp_path: Path
) -> None:
    with vector_units.tested_in("own"):
        assert VecAVX2().check_build("code")
        assert os.environ[CACHES] == str(tmp_path)
    assert VecAVX2().check_build("code")
    assert tested == ["own", str(tmp_path)]


def test_a_unit_that_does_not_work_does_not(tested: list[str | None]) -> None:
    with vector_units.tested_in("unusable"):
        assert not VecAVX2().check_build("code")
    assert tested == ["unusable"]


def test_a_folder_that_cannot_be_written_is_not_needed(tested: list[str | None], tmp_path: Path) -> None:
    with vector_units.tested_in("read-only"):
        assert VecAVX2().check_build("code")
    assert tested == ["read-only", str(tmp_path)]


def test_without_a_folder_in_force_there_is_none_afterwards(
    tested: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(CACHES)
    with vector_units.tested_in("own"):
        assert VecAVX2().check_build("code")
    assert CACHES not in os.environ
    assert tested == ["own"]


def test_the_users_caches_are_those_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHES, "mine")
    assert vector_units.own_caches() == "mine"
    monkeypatch.delenv(CACHES)
    assert Path(vector_units.own_caches()).name.startswith("torchinductor_")
    assert CACHES not in os.environ
