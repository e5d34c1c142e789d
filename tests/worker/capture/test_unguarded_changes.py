"""Changes that compiled code does not follow: what is reported agrees with what a run of the program shows."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from fuselight.shared.report import UnseenKind
from tests.support.recording import record

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

HOOKS = {
    "forward": "inner.register_forward_hook(seen)",
    "forward_pre": "inner.register_forward_pre_hook(seen)",
    "full_backward": "inner.register_full_backward_hook(seen)",
    "full_backward_pre": "inner.register_full_backward_pre_hook(seen)",
    "backward": "inner.register_backward_hook(seen)",
    "outer": "net.register_forward_hook(seen)",
    "every_forward": "M.register_module_forward_hook(seen)",
    "every_forward_pre": "M.register_module_forward_pre_hook(seen)",
    "every_full_backward": "M.register_module_full_backward_hook(seen)",
    "every_full_backward_pre": "M.register_module_full_backward_pre_hook(seen)",
    "tensor": "inner.weight.register_hook(lambda gradient: seen())",
    "accumulated": "inner.weight.register_post_accumulate_grad_hook(seen)",
    "several": "torch.autograd.graph.register_multi_grad_hook([inner.weight], seen)",
    "state": "inner.register_state_dict_pre_hook(seen)",
    "step_before": "optimizer.register_step_pre_hook(seen)",
    "step_after": "optimizer.register_step_post_hook(seen)",
    "every_step": "register_optimizer_step_pre_hook(seen)",
}


WAYS = {
    "with_block": "with attach(inner, net, optimizer): step(x)",
    "kept": "hooks.append(attach(inner, net, optimizer)); step(x)",
}
EACH = """
import warnings
import torch.nn.modules.module as M
from torch.optim.optimizer import register_optimizer_step_pre_hook

ran, eager, hooks, ignored, current = {}, {}, [], [], [None, None]

def seen(*args, **named):
    current[0][current[1]] = current[0].get(current[1], 0) + 1

def build(name):
    torch._dynamo.reset()
    inner = nn.Linear(3, 3)
    net = nn.Sequential(inner, nn.ReLU())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def forward(x):
        return net(x).sum()

    forward.__code__ = forward.__code__.replace(co_name=name, co_qualname=name)
    compiled = torch.compile(forward)
    update = torch.compile(optimizer.step) if "step" in name else optimizer.step

    def step(x):
        for kind, call, finish in ((ran, compiled, update), (eager, forward, optimizer.step)):
            current[:] = [kind, name]
            call(x).backward()
            finish()

    current[:] = [{}, name]
    compiled(x).backward()
    update()
    return inner, net, optimizer, step

x = torch.ones(2, 3, requires_grad=True)
ATTACH = {
    ATTACHED
}

def main():
    warnings.simplefilter("ignore")  # an old kind of hook
    for name, attach in ATTACH.items():
        inner, net, optimizer, step = build(name)
        WAY
        for hook in hooks:
            hook.remove()
        hooks.clear()
    print(sorted(name for name in eager if ran.get(name, 0) < eager[name]))
"""


@pytest.mark.parametrize("way", WAYS)
def test_each_kind_of_hook_is_reported_if_compiled_code_ignores_it(tmp_path: Path, way: str) -> None:
    attached = "\n    ".join(
        f"{name!r}: lambda inner, net, optimizer: {hook},  # {name}." for name, hook in HOOKS.items()
    )
    got = record(tmp_path, EACH.replace("ATTACHED", attached).replace("WAY", WAYS[way]))
    assert got.failure is None
    assert not got.parts.problems
    ignored = ast.literal_eval(got.printed.strip())
    assert len(ignored) == 10
    reported = {change.function: change.stack[-1].line for change in got.parts.unseen}
    assert reported == {name: got.line(f",  # {name}.") for name in ignored}


UNDONE = """
import os
from unittest import mock

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return self.layer(x)

def scaled(x):
    return x * float(os.getenv("FUSELIGHT_SCALE", "1"))  # read

def asked(x):
    return x * float(os.environ.get("FUSELIGHT_ASKED", 1))  # asked

def given(x):
    return x * float(os.environ.get("FUSELIGHT_GIVEN", 1))

def keep(*args):
    pass

def main():
    x = torch.ones(2, 3)
    net = Net()
    compiled = torch.compile(net)
    compiled(x)
    with net.layer.register_forward_hook(keep):  # nothing is called
        pass
    with net.layer.register_forward_hook(keep):  # compiled again, with the hook
        compiled(torch.ones(5, 3))
    with net.layer.register_forward_hook(keep):  # runs in the code that was compiled with a hook
        compiled(torch.ones(5, 3))
    with net.layer.register_forward_pre_hook(keep):  # missed
        compiled(x)
    compiled(torch.ones(1, 3))
    hook = net.layer.register_forward_hook(keep)
    hook.remove()
    compiled(x)
    again = torch.compile(scaled)
    again(x)
    with mock.patch.dict(os.environ, FUSELIGHT_GIVEN="1"):
        other = torch.compile(given)
        other(x)
    other(x)  # torch has a guard on a variable that is set
    other = torch.compile(asked)
    other(x)
    with mock.patch.dict(os.environ, FUSELIGHT_ASKED="2"):
        other(x)
    with mock.patch.dict(os.environ, FUSELIGHT_SCALE="2"):
        pass
    again(x)
    {change}
"""


@pytest.mark.parametrize(
    ("change", "is_missed"),
    [
        ("with mock.patch.dict(os.environ, FUSELIGHT_SCALE='2'): again(x)", True),
        ("with mock.patch.dict(os.environ, FUSELIGHT_SCALE='2'): again(torch.ones(5, 3))", False),
        ("with mock.patch.dict(os.environ, FUSELIGHT_OTHER='2'): again(x)", False),
    ],
    ids=["value", "compiled again", "other variable"],
)
def test_what_was_undone_counts_only_if_compiled_code_was_called(
    tmp_path: Path, change: str, *, is_missed: bool
) -> None:
    got = record(tmp_path, UNDONE.replace("{change}", change))
    assert got.failure is None
    entries = {
        (
            unseen_change.kind,
            unseen_change.what,
            unseen_change.function,
            max(place.line for place in unseen_change.stack if place.path == got.path),
        )
        for unseen_change in got.parts.unseen
    }
    expected = {
        (UnseenKind.HOOK, "Linear", "Net.forward", got.line("# missed")),
        (UnseenKind.VARIABLE, "FUSELIGHT_ASKED", "asked", got.line("# asked")),
    }
    if is_missed:
        expected.add((UnseenKind.VARIABLE, "FUSELIGHT_SCALE", "scaled", got.line("# read")))
    assert entries == expected
    assert [change.is_removed for change in got.parts.unseen if change.kind is UnseenKind.HOOK] == [True]
