"""Calls to compare: eager, with a backend, in float64, and a model with every feature that a partition keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fuselight.capture.calls.calls import Prepared
from fuselight.measure.accuracy import reference, rules
from fuselight.measure.accuracy.results import CallResults, of_call
from fuselight.shared.inputs import Options
from fuselight.shared.report import Accuracy, Work

Build = Callable[[], Prepared]


def builder(function: Callable[[], Any], *inputs: Any, train: bool = False) -> Build:
    """`function` creates the called object; input tensors are copied for each build."""

    def build() -> Prepared:
        torch.manual_seed(0)
        copies = tuple(
            argument.clone() if isinstance(argument, torch.Tensor) else argument for argument in inputs
        )
        return Prepared(function(), copies, {}, Options(train=train))

    return build


def eager(build: Build, work: Work | None = None) -> CallResults:
    prepared = build()
    return of_call(prepared, prepared.function, work)


def compiled(build: Build, backend: Any, work: Work | None = None) -> CallResults:
    prepared = build()
    return of_call(prepared, torch.compile(prepared.function, backend=backend), work)


def accuracy_of(build: Build, backend: Any, work: Work | None = None) -> Accuracy:
    """The verdict on a backend, with a float64 reference if available."""
    torch.compiler.reset()
    double, why = reference.float64_results(build, work)
    training = build().options.train or work is not None
    return rules.compare_results(
        compiled(build, backend, work), eager(build, work), double, training=training, no_float64=why
    )


def returned(value: Any) -> CallResults:
    """The results of a function that returns `value`."""
    prepared = Prepared(lambda: value, (), {})
    return of_call(prepared, prepared.function)


def verdict(ours: Any, theirs: Any, double: Any = None) -> Accuracy:
    exact = None if double is None else returned(double)
    return rules.compare_results(returned(ours), returned(theirs), exact, training=False)


class Net(torch.nn.Module):
    """Two graphs, a loop, a region without gradients and a region under autocast."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 16)
        self.norm = torch.nn.BatchNorm1d(16)
        self.last = torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.norm(self.first(x)))
        torch._dynamo.graph_break()
        for _ in range(3):
            hidden = torch.relu(torch.cat([hidden, hidden]) - 0.1)  # relu in a loop
        left, right = (hidden * 1).chunk(2, 1)
        with torch.no_grad():
            left = left * 2
        with torch.autocast("cpu"):
            out = self.last(hidden)
        out = torch.relu(out.float().sin() + 1.5)
        return out + left.sum() + right.sum()


X = torch.linspace(-2, 2, 40).reshape(5, 8)
INFERENCE, TRAINING = builder(Net, X), builder(Net, X, train=True)
