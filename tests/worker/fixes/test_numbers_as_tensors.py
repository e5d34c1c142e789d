"""A number of a module that a fix makes a tensor stays that number, whatever happens to the module."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from fuselight.shared.report import (
    Compile,
    Frame,
    GuardCause,
    GuardFailure,
    Location,
    Mismatch,
    Outcome,
    Recompile,
    Report,
    TargetRef,
    Tier,
    Versions,
)
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.explain.findings.recompilations.recompilations import subject_of
from fuselight_server.fixes.rewrites.families import rewrites
from tests.support.offered_remedies import traced

pytestmark = pytest.mark.torch

TEXT = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.{name} = {first}

    def forward(self, x):
        x = self.layer(x)
        y = x * self.{name}
        {step}
        return y
"""
COUNTER = {"name": "calls", "first": "0", "step": "self.calls += 1"}
RATE = {"name": "rate", "first": "1.0", "step": "self.rate = self.rate * 0.9"}


def fixed_class(name: str, first: str, step: str) -> Any:
    """The class after the fix."""
    text = TEXT.format(name=name, first=first, step=step)
    at = Location("m.py", text[: text.index("def forward")].count("\n") + 1)
    was, now = ("0", "1") if first == "0" else ("1.0", "0.9")
    words = f"self.{name} was {was}, now {now}"
    code = f"L['self'].{name} == {was}"
    failure = GuardFailure("EQUALS_MATCH", f"self.{name}", code, words, was, now, cause=GuardCause.NUMBER)
    report = Report(
        *(
            Versions("3.11", "2.13.0", None, "0", "linux", "python"),
            TargetRef("m.py", "forward", at.line, "function"),
        ),
        *(Tier.CAPTURE, 1),
        recompiles=(Recompile("Net.forward", at, (Mismatch("0/0", (failure,)),), compile_id="0/1"),),
        frames=(Frame("Net.forward", at, parameters=("self", "x")),),
        compiles=(Compile("0/1", 0, Outcome.COMPILED),),
        files={"m.py": ""},
        facts=traced(text),
    )
    finding = Finding(
        *("FL201", Severity.WARNING, f"recompiled: {words}", "", Span("m.py", at.line), Tier.CAPTURE),
        *("Net", "", "2.13.0"),
        subject=subject_of(failure),
    )
    (text,) = (
        remedy.texts["m.py"]
        for remedy in rewrites(finding, report, {"m.py": text}.get).remedies
        if remedy.kind == "buffer"
    )
    names: dict[str, Any] = {}
    exec(text, names)  # noqa: S102 - the text of a fix
    return names["Net"]


@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_gradients_are_those_of_the_number(backend: str | None) -> None:
    net, number = fixed_class(**RATE)(), 1.0
    call = net if backend is None else torch.compile(net, backend=backend)
    for _ in range(3):
        net.zero_grad()
        call(torch.ones(2, 4)).sum().backward()
        assert torch.allclose(net.layer.bias.grad, torch.full((4,), 2 * number))
        number *= 0.9


def test_it_survives_the_meta_device() -> None:
    with torch.device("meta"):
        net = fixed_class(**RATE)()
    net.to_empty(device="cpu")
    assert net.rate.item() == 1.0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_no_conversion_of_the_module_rounds_it(dtype: torch.dtype) -> None:
    net, number = fixed_class(**RATE)().to(dtype), 1.0
    for _ in range(20):
        net(torch.ones(2, 4, dtype=dtype))
        number *= 0.9
    assert net.rate.item() == number
    counter = fixed_class(**COUNTER)().to(dtype)
    counter.calls += 4099
    counter(torch.ones(2, 4, dtype=dtype))
    assert counter.calls.item() == 4100


def test_copies_and_checkpoints_are_those_of_a_number() -> None:
    net = fixed_class(**COUNTER)()
    other = copy.deepcopy(net)
    net(torch.ones(2, 4))
    assert (net.calls.item(), other.calls.item()) == (1, 0)
    assert set(net.state_dict()) == {"layer.weight", "layer.bias"}
    assert list(net.buffers()) == []
