"""`triton.multi_kernel` where the caches of torch are warm: the next process must compile the same graph, too."""

from __future__ import annotations

import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch._inductor.runtime.triton_helpers
from torch._inductor import config
from torch._inductor.codecache import PyCodeCache, StaticAutotunerFuture
from torch._inductor.codegen.multi_kernel import MultiKernelCall
from torch._inductor.runtime.triton_heuristics import CachingAutotuner, StaticTritonCompileResult
from torch._inductor.triton_bundler import TritonBundle, TritonBundler

from fuselight.replay.preparation import prepared_inductor
from fuselight.shared.report.tuned import Preparation
from fuselight.shared.tuned_code import STATIC_LAUNCHER

pytestmark = pytest.mark.torch
REDUCTION = Path(__file__).parents[2] / "recordings" / "kernels" / "reduction.txt"
MULTI = {"triton.multi_kernel": 1}


def test_torch_cannot_restore_one_of_several_kernels_for_its_static_launcher(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Why `restartable` is needed. Once this fails, torch has repaired it."""
    monkeypatch.setattr(torch._inductor.runtime.triton_helpers, "set_driver_to_gpu", lambda: None)
    module: Any = PyCodeCache.load(REDUCTION.read_text(encoding="utf-8"))
    kernel = next(variable for variable in vars(module).values() if isinstance(variable, CachingAutotuner))
    old = kernel.prepare_for_pickle()  # as torch keeps it in its cache of graphs
    stored = copy.deepcopy(kernel)
    kernel.restore_after_unpickle(old)
    monkeypatch.setattr(CachingAutotuner, "recheck_autotune_cache", lambda *_, **__: None)
    monkeypatch.setattr(CachingAutotuner, "precompile", lambda *_, **__: None)  # it needs a GPU
    restored = StaticAutotunerFuture(stored)
    restored.reload_kernel_from_src = lambda: kernel
    make: Any = MultiKernelCall
    with pytest.raises((TypeError, AttributeError)):  # Python 3.10 raises the second for `with None`
        make("multi_kernel_0", [restored], {0: [slice(0, 0)]})
    make("multi_kernel_0", [kernel], {0: [slice(0, 0)]})  # compiled from its source


def test_without_the_static_launcher_no_kernel_is_kept_or_restored_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    restored: list[object] = []

    def load(kernels: object) -> list[str]:
        restored.append(kernels)
        return []

    monkeypatch.setattr(TritonBundler, "load_autotuners", load)
    bundle = TritonBundle([], [SimpleNamespace()])  # type: ignore[list-item]
    monkeypatch.setattr(TritonBundler, "is_enabled", lambda: True)
    with config.patch(prepared_inductor(Preparation(), None, MULTI).config):  # type: ignore[attr-defined]
        assert StaticTritonCompileResult.can_statically_launch(None, {}, {}, None) is None  # type: ignore[arg-type]
        TritonBundler.read_and_emit(bundle)
    assert restored == []
    with config.patch({STATIC_LAUNCHER: True}):
        TritonBundler.read_and_emit(bundle)
    assert restored == [bundle.static_autotuners]


def test_a_search_and_a_replay_launch_several_kernels_without_the_static_launcher() -> None:
    def options(given: dict[str, Any], **named: Any) -> object:
        backend: Any = prepared_inductor(Preparation(), None, given, **named)
        return backend.config

    assert options(MULTI) == {**MULTI, STATIC_LAUNCHER: False}
    assert options({**MULTI, "freezing": True})[STATIC_LAUNCHER] is False  # type: ignore[index]
    assert options(MULTI, freezes=False) == MULTI, "as the program has it"
    assert options({"triton.cudagraphs": True}) == {"triton.cudagraphs": True}
