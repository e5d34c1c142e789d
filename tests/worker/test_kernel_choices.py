"""What Inductor chose by timing kernels is recorded, and taken again without timing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor.runtime import autotune_cache

from fuselight.report.tuned import Preparation
from fuselight.runtime.preparation import prepared_inductor
from fuselight.torch_api import kernel_choices
from fuselight.torch_api.kernel_choices import ChoiceRecorder, counting_timings, kernel_key, replaying

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:TypedStorage")]  # torch times with it
OPTIONS = {"max_autotune_gemm": True}
SOURCE = """
@triton_heuristics.pointwise(size_hints={'x': 16}, filename=__file__,
    triton_meta={'device': DeviceProperties(type='cuda', index=0, cc=90)},
    inductor_meta={'kernel_name': 'triton_poi_fused_add_0'})
@triton.jit
def triton_poi_fused_add_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    pass
"""


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    torch._dynamo.reset()
    with torch._inductor.config.patch(fx_graph_cache=False):
        yield
    torch._dynamo.reset()


def run(compiling: Any) -> tuple[torch.Tensor, list[str]]:
    torch.manual_seed(0)
    one, other = torch.randn(4, 64, 64), torch.randn(4, 64, 64)
    backend = prepared_inductor(Preparation(), None, OPTIONS, compiling=compiling)
    with counting_timings() as timed, torch.no_grad():
        found = torch.compile(torch.bmm, backend=backend)(one, other)
    torch._dynamo.reset()
    return found, timed


def test_a_recorded_implementation_is_taken_without_timing(monkeypatch: pytest.MonkeyPatch) -> None:
    offered: list[list[str]] = []
    real = kernel_choices._identities

    def identities(every: list[Any]) -> list[str]:
        offered.append(real(every))
        return offered[-1]

    monkeypatch.setattr(kernel_choices, "_identities", identities)
    recorder = ChoiceRecorder()
    expected, timed = run(recorder.recording)
    assert timed  # Inductor timed its template against the library
    ((key, chosen),) = json.loads(json.dumps(recorder.found))["algorithms"].items()
    assert chosen in offered[0]
    other = next(one for one in offered[0] if one != chosen)
    taken: list[str] = []
    found_real = kernel_choices._recorded

    def recorded(every: list[Any], identity: object) -> Any:
        found = found_real(every, identity)
        taken.append(real([found])[0])
        return found

    monkeypatch.setattr(kernel_choices, "_recorded", recorded)
    found, timed = run(lambda: replaying({"algorithms": {key: other}}))
    assert timed == []
    assert taken == [other]
    torch.testing.assert_close(found, expected)


def test_a_kernels_key_ignores_its_name_and_the_index_of_the_gpu() -> None:
    other = SOURCE.replace("triton_poi_fused_add_0", "triton_poi_fused_add_17").replace("index=0", "index=3")
    assert kernel_key(SOURCE) == kernel_key(other)
    assert kernel_key(SOURCE) != kernel_key(SOURCE.replace("'x': 16", "'x': 32"))
    assert kernel_key(SOURCE) != kernel_key(SOURCE.replace("cc=90", "cc=80"))


def test_a_kernels_configuration_is_found_by_inductors_runtime() -> None:
    """Recorded from the cache of one process, stored in that of another, under another name."""
    config = {"XBLOCK": 64, "num_warps": 2, "num_stages": 1, "configs_hash": "h", "found_by_coordesc": False}
    kernel_choices._seed(SOURCE, config)
    recorded = ChoiceRecorder().found["triton"]
    assert recorded == {kernel_key(SOURCE): config}
    other = SOURCE.replace("add_0", "add_1")
    kernel_choices._seed(other, recorded[kernel_key(other)])
    _, path = torch._inductor.codecache.PyCodeCache.write(other)
    meta: dict[str, object] = {
        "autotune_local_cache": True,
        "autotune_remote_cache": False,
        "coordinate_descent_tuning": False,
    }
    cache = autotune_cache.AutotuneCache.create(meta, path, "h")
    assert cache is not None
    stored = cache._read()
    assert stored == config
