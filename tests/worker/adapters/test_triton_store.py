"""Compiled kernels are stored completely and bounded, and a failed store costs nothing."""

from __future__ import annotations

import dataclasses
import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from fuselight.shared.report import Assembled
from tests.support.kernels import A100, H100, NO_TRITON, source

pytest.importorskip("triton", reason=NO_TRITON)

from fuselight.adapters.triton_api import assemble, compiler, names, store

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_memory", type(store._memory)())


def refuse(*_: object) -> compiler.CompiledKernel:
    raise AssertionError("it was compiled again")


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.kernel"))


@pytest.fixture
def forgetting() -> Callable[[], None]:
    """Makes the memory forget, as the next process would have."""
    return lambda: store._memory.clear()  # noqa: PLW0108 - the memory of the test, which is another


def test_the_same_question_is_answered_from_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgetting: Callable[[], None]
) -> None:
    text, folder = source("pointwise"), str(tmp_path / "kept")
    first = assemble(text, H100, cache=folder)
    forgetting()
    monkeypatch.setattr("fuselight.adapters.triton_api.assembler.compile_request", refuse)
    assert assemble(text, H100, cache=folder) == first
    assert assemble(text, H100) == first  # and now from memory
    for other, device, config in ((text + "\n", H100, None), (text, A100, None), (text, H100, 1)):
        failure = assemble(other, device, config=config, cache=folder).failure
        assert failure is not None
        assert "it was compiled again" in failure


def test_sass_is_a_separate_request_with_all_other_listings(
    monkeypatch: pytest.MonkeyPatch, forgetting: Callable[[], None]
) -> None:
    forgetting()
    text = source("pointwise")
    plain = assemble(text, H100)
    assert "ptx" in plain.listings
    assert "sass" not in plain.listings
    whole = assemble(text, H100, disassemble=True)
    assert (plain.disassembled, whole.disassembled) == (False, True)
    assert set(whole.listings) == {*plain.listings, "sass"}
    forgetting()
    assert assemble(text, H100, disassemble=True) == whole
    monkeypatch.setattr("fuselight.adapters.triton_api.assembler.compile_request", refuse)
    assert assemble(text, H100) == whole


@pytest.mark.parametrize("damage", ["", "not zlib", "half", "shape"])
def test_a_damaged_entry_is_compiled_again_and_reported(
    tmp_path: Path, forgetting: Callable[[], None], damage: str
) -> None:
    first = assemble(source("pointwise"), H100, cache=str(tmp_path))
    (entry,) = entries(tmp_path)
    whole = entry.read_bytes()
    if damage == "shape":
        entry.write_bytes(zlib.compress(b'{"registers": "many"}'))
    else:
        entry.write_bytes(whole[: len(whole) // 2] if damage == "half" else damage.encode())
    forgetting()
    again = assemble(source("pointwise"), H100, cache=str(tmp_path))
    assert "was damaged" in again.problems[0]
    assert dataclasses.replace(again, problems=()) == first
    assert entry.read_bytes() == whole
    forgetting()
    assert assemble(source("pointwise"), H100, cache=str(tmp_path)).problems == ()


def test_an_unavailable_folder_is_a_sentence_in_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    folder = str(tmp_path / "file" / "kept")
    first = assemble(source("pointwise"), H100, cache=folder)
    assert first.failure is None
    assert f"the cache in {folder} cannot be" in first.problems[0]
    assert (tmp_path / "file").read_text() == "in the way"
    monkeypatch.setattr("fuselight.adapters.triton_api.assembler.compile_request", refuse)
    assert assemble(source("pointwise"), H100, cache=folder).failure is None


def test_the_folder_is_bounded_and_the_longest_unused_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = [Assembled(failure=f"{index}" * 64) for index in range(6)]
    for index, value in enumerate(values[:5]):
        assert store.keep(f"{index}", value, str(tmp_path)) is None
        os.utime(tmp_path / f"{index}.kernel", ns=(index, index))
    size = sum(path.stat().st_size for path in entries(tmp_path))
    store._memory.clear()
    assert store.find("0", str(tmp_path)) == (values[0], None)  # used: it is young again
    monkeypatch.setattr(store, "BYTES_ON_DISK", size * 3 // 5)
    assert store.keep("5", values[5], str(tmp_path)) is None
    assert [path.stem for path in entries(tmp_path)] == ["0", "4", "5"]
    assert sorted(tmp_path.iterdir()) == entries(tmp_path)


def test_the_memory_is_bounded() -> None:
    for index in range(store.ENTRIES_IN_MEMORY + 9):
        store.keep(f"{index}", Assembled(failure=f"{index}"), None)
    assert store.find("8", None) == (None, None)
    assert store.find("9", None) == (Assembled(failure="9"), None)


def test_results_of_a_full_disk_are_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(names, "compile_", full)
        failed = assemble(source("pointwise"), H100, cache=str(tmp_path))
    assert failed.failure is not None
    assert "No space left on device" in failed.failure
    assert assemble(source("pointwise"), H100, cache=str(tmp_path)).failure is None
