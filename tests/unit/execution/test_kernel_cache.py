"""A report of kernels is answered from the cache while nothing that ran has changed, and only then."""

from __future__ import annotations

import dataclasses
import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared import version
from fuselight.shared.devices import find
from fuselight.shared.protocol import GenerateRequest, InputsPlan, Limits, RunRequest, Target
from fuselight.shared.report import (
    Culprit,
    Failure,
    Frame,
    FusedOperator,
    GeneratedGraph,
    Kernel,
    KernelKind,
    Location,
    Phase,
    Report,
    Tier,
    data_key,
)
from fuselight_server.base.store import Store
from fuselight_server.execution.runs import kernel_cache
from fuselight_server.execution.runs.kernel_cache import KernelCache
from tests.support.reports import VERSIONS, report

TEXT = "import torch\n"


def asked(path: Path, **changes: Any) -> RunRequest:
    base = GenerateRequest(
        id=1,
        generation=1,
        target=Target(str(path), "f", "function", 3, compiled=False),
        inputs=InputsPlan(),
        roots=(str(path.parent),),
        device=find("h100"),
    )
    return dataclasses.replace(base, **changes)


def answered(path: Path) -> Report:
    return report(tier=Tier.KERNELS, files={str(path): data_key(TEXT.encode())})


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(TEXT)
    return path


@pytest.fixture
def cache(tmp_path: Path, model: Path) -> KernelCache:
    cache = KernelCache(Store(tmp_path / "kept"))
    assert cache.find(asked(model), VERSIONS).report is None
    assert cache.keep_report(asked(model), answered(model)) is None
    return cache


def test_an_equal_request_is_answered_with_its_own_generation(cache: KernelCache, model: Path) -> None:
    again = asked(model, id=9, generation=7, limits=Limits(seconds=1), overlays={"/other.py": "x"})
    lookup = cache.find(again, VERSIONS)
    assert lookup.report == dataclasses.replace(answered(model), generation=7)


@pytest.mark.parametrize(
    "change",
    [{"device": find("a100")}, {"inputs": InputsPlan(provider="inputs")}, {"dynamo_config": {"x": 1}}],
)
def test_another_request_is_not(cache: KernelCache, model: Path, change: dict[str, Any]) -> None:
    assert cache.find(asked(model, **change), VERSIONS).report is None


def test_another_torch_is_not(cache: KernelCache, model: Path) -> None:
    assert cache.find(asked(model), dataclasses.replace(VERSIONS, torch="2.14")).report is None


def test_a_report_is_not_reused_after_a_library_was_reinstalled(
    cache: KernelCache, model: Path, tmp_path: Path
) -> None:
    frame, operator = tmp_path / "layers.py", tmp_path / "functions.py"
    for path in (frame, operator):
        path.write_text("def f(): ...\n")
    kernel = Kernel(
        "triton_0", KernelKind.TRITON, 0,
        operators=(FusedOperator("aten.add", stack=(Location(str(model), 1), Location(str(operator), 1))),),
    )  # fmt: skip
    inlined = dataclasses.replace(
        answered(model),
        frames=(Frame("f", Location(str(frame), 1)), Frame("g", Location("<string>", 1))),
        generated=(GeneratedGraph("0/0", Phase.INFERENCE, kernels=(kernel,)),),
    )
    for path in (frame, operator):
        assert cache.keep_report(asked(model), inlined) is None
        assert cache.find(asked(model), VERSIONS).report == inlined
        path.write_text("def f(): return 1\n")
        assert cache.find(asked(model), VERSIONS).why == f"{path.name} has changed"
    assert cache.keep_report(asked(model), inlined) is None
    frame.unlink()
    assert cache.find(asked(model), VERSIONS).why == "layers.py has changed"


@pytest.mark.parametrize("name", ["TORCHINDUCTOR_MAX_AUTOTUNE", "TORCH_COMPILE_DISABLE"])
def test_another_variable_that_the_compiler_reads_is_not(
    cache: KernelCache, model: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(model.parent))
    assert cache.find(asked(model), VERSIONS).report is not None, "where torch keeps things"
    monkeypatch.setenv(name, "1")
    assert cache.find(asked(model), VERSIONS).report is None


def test_other_code_of_fuselight_makes_other_numbers(
    cache: KernelCache, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_cache, "code_key", lambda: "0" * 32)
    lookup = cache.find(asked(model), VERSIONS)
    assert (lookup.report, lookup.why) == (
        None,
        "not generated before with these inputs, device and versions",
    )


def test_the_code_is_identified_by_all_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert version.code_key() == version.code_key()
    (tmp_path / "devices").mkdir()
    place, estimate = tmp_path / "version.py", tmp_path / "devices" / "estimate.py"
    table = tmp_path / "table.json"
    monkeypatch.setattr(version, "PACKAGE", str(tmp_path))
    keys = set()
    for names, text in (
        (place, ""),
        (estimate, "rate = 0.8\n"),
        (estimate, "rate = 0.7\n"),
        (place, "rate"),
        (table, "1"),
        (table, "2"),
    ):
        names.write_text(text)
        version.code_key.cache_clear()
        keys.add(version.code_key())
    estimate.rename(tmp_path / "estimate.py")
    version.code_key.cache_clear()
    assert len(keys | {version.code_key()}) == 7
    version.code_key.cache_clear()


def test_changed_text_on_disk_or_in_a_buffer_is_a_miss_that_names_the_file(
    cache: KernelCache, model: Path
) -> None:
    lookup = cache.find(asked(model, overlays={str(model): "import torch  # edited\n"}), VERSIONS)
    assert (lookup.report, lookup.why) == (None, "model.py has changed")
    model.write_text("pass\n")
    assert cache.find(asked(model), VERSIONS).why == "model.py has changed"
    model.unlink()
    assert cache.find(asked(model), VERSIONS).report is None


@pytest.mark.parametrize("damage", ["no archive", "cut off", "a byte in the middle", "other data"])
def test_a_damaged_file_is_a_miss_and_is_deleted(cache: KernelCache, model: Path, damage: str) -> None:
    (kept,) = cache.folder.iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(
        {
            "no archive": b"\x1f\x8bnothing",
            "cut off": whole[: len(whole) // 2],
            "a byte in the middle": whole[:10] + bytes([whole[10] ^ 0xFF]) + whole[11:],
            "other data": gzip.compress(b"[" * 100_000),
        }[damage]
    )
    assert "cannot be read" in cache.find(asked(model), VERSIONS).why
    assert not kept.exists()


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path, model: Path) -> None:
    (tmp_path / "file").write_text("")
    message = KernelCache(Store(tmp_path / "file" / "kept")).keep_report(asked(model), answered(model))
    assert message is not None
    assert "cannot be kept" in message


def test_a_failed_run_is_not_cached(tmp_path: Path, model: Path) -> None:
    failed = dataclasses.replace(answered(model), failures=(Failure(Culprit.USER, "exception", "no", "fix"),))
    cache = KernelCache(Store(tmp_path / "none"))
    assert cache.keep_report(asked(model), failed) is None
    assert not cache.folder.exists()


def test_the_oldest_entries_are_deleted(
    cache: KernelCache, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_cache, "_KEPT", 2)
    os.utime(next(cache.folder.iterdir()), (1, 1))
    for number in range(3):
        cache.keep_report(asked(model, argv=(str(number),)), answered(model))
    assert len(list(cache.folder.iterdir())) == 2
    assert cache.find(asked(model), VERSIONS).report is None


def test_clearing_leaves_nothing(cache: KernelCache) -> None:
    cache.clear()
    assert not cache.folder.exists()
