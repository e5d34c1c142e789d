"""On a GPU: what Inductor chose by timing kernels is replayed in fresh processes that time none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from fuselight.capture.calls.present_device import present_device
from fuselight.measure.compile_configuration import configured
from fuselight.replay.machine_key import machine_key
from fuselight.shared import tuned_file
from fuselight.shared.configurations import parse_configuration
from fuselight.shared.report import Numerics, TunedResult, Work

pytestmark = [pytest.mark.torch, pytest.mark.gpu]
ROOT = Path(__file__).parents[2]
MODEL = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(511, 1024), torch.nn.GELU(), torch.nn.LayerNorm(1024),
    torch.nn.Linear(1024, 509), torch.nn.Softmax(-1),
).cuda().half()
x = torch.randn(2048, 511, device="cuda", dtype=torch.float16)
"""


@pytest.mark.parametrize(
    "name",
    [
        "default",
        "default+coordinate_descent_tuning=True",
        "default+max_autotune=True+triton.cudagraphs=True",
        "default+max_autotune_gemm=True+longest=1",
        "default+triton.multi_kernel=1",
        "default+benchmark_fusion=True",
        "default+combo_kernels=True+benchmark_combo_kernel=True",
    ],
)
def test_fresh_processes_time_no_kernel(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "first"))
    torch._dynamo.reset()
    namespace: dict[str, object] = {}
    exec(MODEL, namespace)  # noqa: S102 - the source above
    model, x = namespace["model"], namespace["x"]
    assert isinstance(model, torch.nn.Module)
    configuration = parse_configuration(name)
    device = present_device(0)
    assert device is not None
    with configured(configuration, device) as backends, torch.no_grad():
        compiled = torch.compile(model)
        for _ in range(3):
            compiled(x)
    torch.cuda.synchronize()
    key = machine_key(torch.device("cuda", 0))
    result = TunedResult(
        file="model.py", target="model", work=Work.INFERENCE, numerics=Numerics.EXACT,
        device=key.device, capability=key.capability, torch=key.torch, triton=key.triton,
        graphs=tuple(backends.captured.values()), configuration=name, options=backends.options,
        kernels=backends.choices.by_family,
    )  # fmt: skip
    torch._dynamo.reset()
    if name != "default":
        assert result.kernels
    if "multi_kernel" in name:
        assert "multi_kernel" in result.kernels
    tuned_file.keep(tmp_path / tuned_file.NAME, [result])
    (tmp_path / "model.py").write_text(MODEL)
    program = textwrap.dedent("""
        import json
        from model import model, x
        import torch
        from fuselight.replay.backend import replay
        from tests.support.counted_timings import counting_timings
        with torch.no_grad(), counting_timings() as timed:
            expected = model(x)
            compiled = torch.compile(model, backend=replay)
            for _ in range(3):
                found = compiled(x)
            torch.cuda.synchronize()
        from torch._dynamo.utils import counters
        hits = counters["inductor"]["fxgraph_cache_hit"] + counters["aot_autograd"]["autograd_cache_hit"]
        close = torch.allclose(found, expected, atol=1e-3)
        print(json.dumps({"timed": timed, "close": close, "cached": hits > 0}))
    """)
    for cached in (False, True):  # with empty caches, and with those of the first
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path, env=_environment(tmp_path / "second"), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "fuselight:" not in done.stderr, done.stderr
        data = json.loads(done.stdout.splitlines()[-1])
        assert (data["timed"], data["close"]) == ([], True)
        if "multi_kernel" in name:
            assert data["cached"] is cached


def test_a_process_takes_the_launch_configurations_that_another_one_has_tuned(tmp_path: Path) -> None:
    even = MODEL.replace("511", "512").replace("509", "512")  # which Inductor does not time padded, too
    (tmp_path / "model.py").write_text(even)
    program = textwrap.dedent("""
        import sys
        from model import model, x
        import torch
        from fuselight.shared.configurations import parse_configuration
        from fuselight.measure.compile_configuration import configured
        from fuselight.capture.calls.present_device import present_device
        from fuselight.adapters.torch_api.choices.kernel_choices import ChoiceRecorder
        from tests.support.counted_timings import counting_timings
        choices = ChoiceRecorder(sys.argv[1])
        configuration = parse_configuration("default+coordinate_descent_tuning=True")
        with configured(configuration, present_device(0), choices), torch.no_grad(), counting_timings() as timed:
            torch.compile(model)(x)
        torch.cuda.synchronize()
        choices.share()
        print(len(timed), choices.by_family["triton"])
    """)
    printed = [
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "shared")],
            cwd=tmp_path, env=_environment(tmp_path / name), capture_output=True, text=True, check=True,
        ).stdout.splitlines()[-1].partition(" ")
        for name in ("first", "second")
    ]  # fmt: skip
    (first, _, tuned), (second, _, taken) = printed
    assert int(first) > 0
    assert int(second) == 0
    assert taken == tuned


def _environment(caches: Path) -> dict[str, str]:
    """Of a process with caches of its own."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(ROOT / "compiler"), str(ROOT))),
        "TORCHINDUCTOR_CACHE_DIR": str(caches),
        "TRITON_CACHE_DIR": str(caches / "triton"),
    }
