"""A tuned result of a small model, and what stands for Inductor where a replay compiles it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fuselight.measure.compile_configuration import configured
from fuselight.replay import backend
from fuselight.replay.machine_key import machine_key
from fuselight.shared import tuned_file
from fuselight.shared.configurations import parse_configuration
from fuselight.shared.devices import find
from fuselight.shared.report import Numerics, Preparation, TunedResult, Work

MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.line(x).relu() * 2

def made():
    torch.manual_seed(0)
    return Net(), torch.ones(4, 8)
"""
NAME = "default+epilogue_fusion=False+max_fusion_size=7"
OPTIONS = {"epilogue_fusion": False, "max_fusion_size": 7}


def model_and_input(source: str = MODEL) -> tuple[torch.nn.Module, torch.Tensor]:
    namespace: dict[str, Any] = {"__name__": "model"}
    exec(source, namespace)  # noqa: S102 - the source above
    model_and_input: tuple[torch.nn.Module, torch.Tensor] = namespace["made"]()
    return model_and_input


def tuned_result() -> TunedResult:
    """As a search makes it: by running the target in the winner's configuration."""
    torch._dynamo.reset()
    model, x = model_and_input()
    configuration = parse_configuration(NAME)
    with configured(configuration, find("cpu")) as backends, torch.no_grad():
        torch.compile(model)(x)
    torch._dynamo.reset()
    result = result_of(backends, "model.py", "Net", NAME)
    return replace(result, us=10.0, default_us=12.0, gain=1.2, when="2026-01-31T12:00:00Z")


def result_of(value: Any, file: str, target: str, configuration: str) -> TunedResult:
    """The result of an inference that was compiled on this CPU, `value` of `configured`."""
    key = machine_key(torch.device("cpu"))
    return TunedResult(
        file=file, target=target, work=Work.INFERENCE, numerics=Numerics.EXACT,
        device=key.device, capability=key.capability, torch=key.torch, triton=key.triton,
        graphs=tuple(value.captured.values()), configuration=configuration, options=value.options,
        kernels=value.choices.by_family,
    )  # fmt: skip


class Chosen:
    """Stands for Inductor: keeps what a graph would be compiled with, and runs it as it is."""

    def __init__(self) -> None:
        self.calls: list[tuple[Preparation, str | None, dict[str, Any]]] = []

    def __call__(
        self, preparation: Preparation, mode: str | None, options: Any, **_: Any
    ) -> Callable[..., Any]:
        if "b2b_gemm_pass" in options:  # as a torch without it
            raise RuntimeError("Unexpected optimization option b2b_gemm_pass, known options are []")
        self.calls.append((preparation, mode, dict(options)))
        return lambda gm, _inputs: gm.forward


def choosing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Chosen]:
    chosen_backend = Chosen()
    monkeypatch.setattr(backend, "prepared_inductor", chosen_backend)
    monkeypatch.setattr(backend, "_state", backend.ReplayState())
    monkeypatch.delenv("FUSELIGHT_TUNED", raising=False)
    monkeypatch.chdir(tmp_path)
    torch._dynamo.reset()
    yield chosen_backend
    torch._dynamo.reset()


def run(
    options: dict[str, Any] | None = None, *, grad: bool = False, times: int = 1, mode: str | None = None
) -> None:
    model, x = model_and_input()
    for _ in range(times):
        torch._dynamo.reset()
        with torch.set_grad_enabled(grad):
            torch.compile(model, backend=backend.replay, options=options, mode=mode)(x)


def kept(folder: Path, *results: TunedResult) -> Path:
    path = folder / tuned_file.NAME
    tuned_file.keep(path, results)
    return path
