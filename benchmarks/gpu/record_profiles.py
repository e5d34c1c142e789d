"""Records real profiles for the tests of joins and sums: the recording, and the facts that it is joined to.

    PYTHONPATH=compiler python -m benchmarks.gpu.record_profiles [--device cpu] [--cases CASE,CASE] [--out FOLDER]

on a machine with a GPU, with torch, Triton and the models' libraries; a case is MODEL/CONFIGURATION/WORK, as
`gpt2/reduce-overhead/inference`. Each runs in a process of its own with empty caches, and is written to
tests/recordings/profiles/, where tests/unit/measure/test_measure_recordings.py finds it. On a machine without a GPU,
`--device cpu` records what the CPU's profiler tells. Invariant: nothing is kept but what was recorded, with versions,
device and command.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.kept_profiles import FOLDER, KeptProfile, bare, short, write
from fuselight.capture.calls.present_device import present_device
from fuselight.capture.dynamo.recorder import Recorder
from fuselight.capture.inductor.compilation import Compilation
from fuselight.measure.machine import processor
from fuselight.measure.profile.join import read_profile
from fuselight.measure.profile.profiler import read_calls, record_lines, trace_calls
from fuselight.shared.devices import find
from fuselight.shared.report import Device, Profile

CASES = (
    "broken/eager/train",
    "broken/default/inference",
    "broken/default/train",
    "broken/reduce-overhead/inference",
    "gpt2/eager/inference",
    "gpt2/default/inference",
    "gpt2/reduce-overhead/inference",
    "gpt2/default/train",
    "resnet50/default/inference",
    "resnet50/reduce-overhead/inference",
    "resnet50/max-autotune-no-cudagraphs/inference",
)
ON_CPU = CASES[:3]
CALLS = 5
WARM_UP = 4
"""Calls before the profile: CUDA graphs are recorded in the first three."""
SECONDS = 900
ROOT = Path(__file__).resolve().parents[2]


class Broken(torch.nn.Module):
    """Layers around a value that is read and a branch on it: a graph break, with eager work on its line."""

    def __init__(self, width: int = 256) -> None:
        super().__init__()
        self.first = torch.nn.Linear(width, width)
        self.last = torch.nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One call."""
        x = torch.nn.functional.gelu(self.first(x))
        scale = 0.5 if x.abs().max().item() > 1 else 2.0
        return torch.softmax(self.last(x * scale), -1)


def main() -> int:
    """Record each case; the exit code is 0 if all could be."""
    asked = _asked()
    if asked.one:
        _record(asked.one, asked.device, asked.out)
        return 0
    failed = []
    for case in asked.cases or (ON_CPU if asked.device == "cpu" else CASES):
        print(case, flush=True)
        if not _apart(case, asked):
            failed.append(case)
    if failed:
        print("not recorded:", ", ".join(failed))
    return 1 if failed else 0


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--cases", type=lambda text: text.split(","))
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser.parse_args()


def _apart(case: str, asked: argparse.Namespace) -> bool:
    """Record a case in a process of its own."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, "TRITON_CACHE_DIR": f"{cache}/triton"}
        command = [sys.executable, "-m", "benchmarks.gpu.record_profiles", "--one", case]
        command += ["--device", asked.device, "--out", str(asked.out)]
        try:
            done = subprocess.run(command, env=environment, cwd=ROOT, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            print(f"  {case} took more than {SECONDS} s")
            return False
        return done.returncode == 0


def _record(case: str, asked_device: str, out: Path) -> None:
    name, configuration, work = case.split("/")
    device = torch.device(asked_device)
    new_device = _device(device)
    model, args, named = _model(name, device, train=work == "train")
    eager = configuration == "eager"
    compilation = Compilation(new_device, None if configuration in {"eager", "default"} else configuration)
    function = model if eager else torch.compile(model, backend=compilation)
    call = _call(function, model, args, named, train=work == "train")
    with Recorder(roots=(str(ROOT),)) as recorder:
        for _ in range(WARM_UP):
            call()
    recording = read_calls(trace_calls(call, CALLS, device))
    if eager:
        recording = replace(recording, operators=record_lines(call, device, compiled=False))
    parts = recorder.parts()
    kept = KeptProfile(
        replace(recording, made=_provenance(case, device)),
        bare(compilation.graphs),
        short(parts.breaks),
        parts.not_compiled,
    )
    folder = torch.__version__.partition("+")[0]
    path = out / f"{new_device.key}-torch-{folder}-{case.replace('/', '-')}.json.gz"
    write(path, kept, Path(torch.__file__).parent)
    _tell(
        path, read_profile(kept.recording, kept.generated, breaks=kept.breaks, not_compiled=kept.not_compiled)
    )


def _device(device: torch.device) -> Device:
    new_device = present_device(device.index) if device.type == "cuda" else find("cpu")
    if new_device is None:
        raise SystemExit(f"there is no device {device}")
    return new_device


def _model(name: str, device: torch.device, *, train: bool) -> tuple[torch.nn.Module, Any, Any]:
    if name == "broken":
        torch.manual_seed(0)
        return Broken().to(device).train(train), (torch.randn(256, 256, device=device),), {}
    from benchmarks.gpu import models  # noqa: PLC0415 - needs Triton, which its own models have a kernel in

    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    return models.make(name, dtype, str(device), train=train)


def _call(function: Any, model: torch.nn.Module, args: Any, named: Any, *, train: bool) -> Callable[[], None]:
    def infer() -> None:
        with torch.no_grad():
            function(*args, **named)

    gradients: list[torch.Tensor] = []

    def step() -> None:
        model.zero_grad(set_to_none=True)
        value = function(*args, **named)
        outputs = value if isinstance(value, torch.Tensor) else value.logits
        if not gradients:  # made once: what a loss does is no part of the model
            gradients.append(torch.ones_like(outputs))
        torch.autograd.backward(outputs, gradients[0])

    return step if train else infer


def _provenance(case: str, device: torch.device) -> dict[str, str]:
    return {
        "case": case,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else processor.name(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": _version("triton"),
        "cuda": torch.version.cuda or "",
        "transformers": _version("transformers") if case.startswith("gpt2") else "",
        "torchvision": _version("torchvision") if case.startswith("resnet") else "",
        "threads": str(torch.get_num_threads()),
        "command": shlex.join(
            ["python", "-m", "benchmarks.gpu.record_profiles", "--device", str(device), "--cases", case]
        ),
    }


def _version(library: str) -> str:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _tell(path: Path, profile: Profile) -> None:
    part = profile.joined_us / profile.device_us if profile.device_us else 1.0
    print(
        f"  {path.name}: {path.stat().st_size / 1024:.0f} KiB, {profile.calls} calls of {profile.wall_us:.0f} us, "
        f"kernels {profile.kernel_us:.0f} us, joined {part:.1%}",
        flush=True,
    )
    for row in profile.launches:
        if row.graph is None and not row.stack:
            print(
                f"    not joined: {row.us:.1f} us {row.count:g} x {row.name[:80]} {row.operator}", flush=True
            )


if __name__ == "__main__":
    sys.exit(main())
