"""A selection makes a new tensor, so that a later change in place no longer reaches the tensor that it was before."""

from __future__ import annotations

import pytest

from fuselight_server.fixes.rewrites import families
from tests.support.offered_remedies import CONFIGURATION, finding_at, offered, refused, rewrites

BRANCH = "if x.sum() > 0:\n    x = x * 2\n"
TEST = "x.sum() > 0"


@pytest.mark.parametrize(
    "change",
    [
        "h = x.view(-1)\nh.sub_(1)",
        "h = x[0]\nh += 1",
        "h = x.T\nh[0] = 1",
        "a, b = x.chunk(2)\nb.mul_(2)",
        "for part in x.split(2):\n    part.zero_()",
        "h = {'x': x}\nh['x'].add_(1)",
        "h = [y, x]\nh[1] *= 2",
        "h = []\nh.append(x)\nh[0].exp_()",
        "torch.add(x, 1, out=x)",
        "torch.sigmoid_(x)",
        "torch.nn.functional.relu(x, inplace=True)",
        "h = x.detach()\nh.clamp_(0)",
        "h = x.to(y.dtype)\nh.add_(1)",
        "h = x if y is None else y\nh.add_(1)",
        "(h := x.flatten()).sub_(1)",
        "x.data = y",
        "unknown(x)",
        "def inner(t):\n    t.add_(1)\ninner(x)",
    ],
)
def test_a_change_of_what_shares_the_memory_refuses_a_selection(change: str) -> None:
    body = f"{BRANCH}{change}\nreturn x\n"
    assert rewrites(body, TEST) == []
    assert any("in place on line" in refusal.reason for refusal in refused(body, TEST))


def test_a_view_that_was_made_before_the_branch_shares_the_memory() -> None:
    body = f"h = x.view(-1)\n{BRANCH}h.sub_(1)\nreturn x\n"
    assert rewrites(body, TEST) == []


@pytest.mark.parametrize(
    "use",
    [
        "h = x * 1\nh.sub_(1)",
        "h = x.clone()\nh += 1",
        "h = torch.cat([x, y])\nh[0] = 1",
        "h = x.relu().view(-1)\nh.sub_(1)",
        "y.add_(x)",
        "print(x)",
        "n = len(x)\nn += 1",
        "self.layer(x)",
        "h = x.sum()\nh += 1",
        "n = x.shape[0]\nn += 1",
        "h, n = x, 0\nn += 1",
    ],
)
def test_a_change_of_a_new_tensor_refuses_nothing(use: str) -> None:
    assert [kind for kind, _ in rewrites(f"{BRANCH}{use}\nreturn x\n", TEST)] == ["where"]


FUNCTION = """\
import torch


def shift(t, by):
    view = t.view(-1)
    view.sub_(by)


def look(t, by):
    return t.sum() + by


def f(x):
    if x.sum() > 0:
        x = x * 2
    {use}
    return x.sum()
"""
METHOD = """\
import torch
from torch import nn


class Shift(nn.Module):
    def forward(self, t):
        t.sub_(1)
        return t


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = Shift()
        self.act = nn.ReLU(inplace=True)
        self.layers = nn.ModuleList([Shift()])
        self.linear = nn.Linear(4, 4)

    def moved(self, t):
        t += 1

    def late(self):
        self.kept.sub_(1)

    def f(self, x):
        if x.sum() > 0:
            x = x * 2
        {use}
        return x.sum()
"""
RESULT = """\
import torch


def f(x):
    if x.sum() > 0:
        return x * 2
    return x


def user(x):
    y = f(x)
    {use}
    return y
"""


PAIR = """\
import torch


def f(x):
    if x.sum() > 0:
        out = x
    else:
        out = x * 2
    return out, x.shape[0]


def user(x):
    y, n = f(x)
    {use}
    return y
"""


@pytest.mark.parametrize(
    ("text", "use", "is_refused"),
    [
        (FUNCTION, "shift(x, 1)", True),
        (FUNCTION, "shift(by=1, t=x)", True),
        (FUNCTION, "shift(x * 1, 1)", False),
        (FUNCTION, "look(x, 1)", False),
        (METHOD, "self.shift(x)", True),
        (METHOD, "self.act(x)", True),
        (METHOD, "self.layers[0](x)", True),
        (METHOD, "for layer in self.layers: layer(x)", True),
        (METHOD, "self.moved(x)", True),
        (METHOD, "self.linear(x)", False),
        (METHOD, "self.kept = x", True),
        (METHOD, "self.other = x", False),
        (RESULT, "y.add_(1)", True),
        (RESULT, "y.view(-1)[0] = 1", True),
        (RESULT, "y = y + 1", False),
        (PAIR, "n += 1", False),
        (PAIR, "y.add_(n)", True),
        (PAIR, "n = y\n    n += 1", True),
    ],
)
def test_called_functions_methods_modules_and_callers_are_followed(
    text: str, use: str, *, is_refused: bool
) -> None:
    text = text.format(use=use)
    kinds = [remedy.kind for remedy in offered(text, TEST) if remedy.kind not in CONFIGURATION]
    assert kinds == ([] if is_refused else ["where"])
    finding, report = finding_at(text, TEST)
    reasons = [refusal.reason for refusal in families.rewrites(finding, report, {"m.py": text}.get).refused]
    assert any("in place on line" in reason for reason in reasons) is is_refused


@pytest.mark.parametrize(
    ("value", "change"),
    [
        ("x[x > 0] * 2", "h = x.view(-1)\nh.sub_(1)"),
        ("x[x > 0] * 2", "h = x[0]\nh += 1"),
        ("x[x > 0] * 2", "h = [x]\nh[0].add_(1)"),
        ("x[x > 0] * self.scale", "s = self.scale\ns.mul_(2)"),
        ("x[x > 0] * self.scale", "self.scale[0] = 2"),
    ],
)
def test_a_masked_value_of_what_changes_in_place_is_refused(value: str, change: str) -> None:
    """Also through a view, a subscript, a container, or another name of an attribute."""
    body = f"y = torch.zeros_like(x)\ny[x > 0] = {value}\n{change}\nreturn y\n"
    (refusal,) = refused(body, "y[x > 0]", "GB0036")
    assert "may change in place, so that backward could fail" in refusal.reason


@pytest.mark.parametrize("change", ["h = x * 1\nh += 1", "self.other.mul_(2)"])
def test_a_masked_value_of_what_stays_is_selected(change: str) -> None:
    body = f"y = torch.zeros_like(x)\ny[x > 0] = x[x > 0] * 2\n{change}\nreturn y\n"
    ((kind, _),) = rewrites(body, "y[x > 0]", "GB0036")
    assert kind == "where"
