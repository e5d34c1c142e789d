"""Skipped guards on modules: what is still noticed, and what is not any more."""

from __future__ import annotations

import pytest
import torch

from fuselight.measure.compile_configuration import configured
from fuselight.shared.configurations import parse_configuration
from fuselight.shared.devices import find

pytestmark = pytest.mark.torch


class Scaled(torch.nn.Module):
    """A layer whose attribute is a constant of the compiled code."""

    def __init__(self) -> None:
        super().__init__()
        self.line = torch.nn.Linear(4, 4)
        self.scale = 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tensor: torch.Tensor = self.line(x) * self.scale
        return tensor + 1 if self.training else tensor


@pytest.mark.parametrize("name", ["backend:eager", "backend:eager+fixed_modules"])
def test_inputs_and_weights_are_noticed_and_modules_only_with_their_guards(name: str) -> None:
    torch._dynamo.reset()
    model, x = Scaled().eval(), torch.randn(2, 4)
    with torch.no_grad(), configured(parse_configuration(name), find("cpu")) as backends:
        run = torch.compile(model)
        torch.testing.assert_close(run(x), model(x))
        model.line.weight.mul_(3)
        torch.testing.assert_close(run(x), model(x))
        other = torch.randn(5, 4)
        torch.testing.assert_close(run(other), model(other))
        torch.testing.assert_close(run(x.double().float()), model(x))
        before = model(x)
        model.scale = 5.0
        if backends.configuration.fixed_modules:
            torch.testing.assert_close(run(x), before)
            torch._dynamo.reset()
        torch.testing.assert_close(run(x), before / 2 * 5)


def test_a_filter_of_the_source_stays_where_the_configuration_has_none() -> None:
    torch._dynamo.reset()
    model, x = Scaled().eval(), torch.randn(2, 4)
    skip = torch.compiler.skip_guard_on_all_nn_modules_unsafe
    with torch.no_grad(), configured(parse_configuration("backend:eager"), find("cpu")):
        run = torch.compile(model, options={"guard_filter_fn": skip})
        before = run(x)
        model.scale = 5.0
        torch.testing.assert_close(run(x), before)
