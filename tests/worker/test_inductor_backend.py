"""torch.compile's own backend as a search and a replay use it: the next process must compile the same graph, too."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch._inductor.runtime.triton_helpers
from torch._inductor.codecache import PyCodeCache, StaticAutotunerFuture
from torch._inductor.codegen.multi_kernel import MultiKernelCall
from torch._inductor.runtime.triton_heuristics import CachingAutotuner

from fuselight.torch_api.inductor_backend import InductorBackend, restartable

pytestmark = pytest.mark.torch
REDUCTION = Path(__file__).parents[1] / "recordings" / "kernels" / "reduction.txt"


def test_torch_cannot_restore_one_of_several_kernels_for_its_static_launcher(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Why `restartable` is needed. Once this fails, torch has repaired it."""
    monkeypatch.setattr(torch._inductor.runtime.triton_helpers, "set_driver_to_gpu", lambda: None)
    module: Any = PyCodeCache.load(REDUCTION.read_text(encoding="utf-8"))
    kernel = next(one for one in vars(module).values() if isinstance(one, CachingAutotuner))
    old = kernel.prepare_for_pickle()  # as torch keeps it in its cache of graphs
    stored = copy.deepcopy(kernel)
    kernel.restore_after_unpickle(old)
    monkeypatch.setattr(CachingAutotuner, "recheck_autotune_cache", lambda *_, **__: None)
    monkeypatch.setattr(CachingAutotuner, "precompile", lambda *_, **__: None)  # it needs a GPU
    restored = StaticAutotunerFuture(stored)
    restored.reload_kernel_from_src = lambda: kernel
    make: Any = MultiKernelCall
    with pytest.raises(TypeError, match="context manager"):
        make("multi_kernel_0", [restored], {0: [slice(0, 0)]})
    make("multi_kernel_0", [kernel], {0: [slice(0, 0)]})  # compiled from its source


def test_several_kernels_for_a_reduction_are_launched_without_the_static_launcher() -> None:
    backend = InductorBackend(options={"triton.multi_kernel": 1, "triton.cudagraphs": True})
    assert backend.config == {
        "triton.multi_kernel": 1, "triton.cudagraphs": True, "use_static_cuda_launcher": False
    }  # fmt: skip
    assert InductorBackend(options={"triton.multi-kernel": 1}).config["use_static_cuda_launcher"] is False


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"triton.cudagraphs": True},
        {"triton.multi_kernel": 0},
        {"triton.multi_kernel": 1, "use_static_triton_launcher": True},
        {"triton.multi_kernel": 1, "use_static_cuda_launcher": True},
    ],
)
def test_other_options_are_left_alone(options: dict[str, Any]) -> None:
    assert restartable(options) == options
