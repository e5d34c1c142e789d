"""Steps of graph breaks, followed: torch breaks without the step and compiles the whole function with it.

Invariant: both programs return the same values, except where the step says that they differ.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from textwrap import indent
from types import ModuleType
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounter
from torch._dynamo.utils import counters
from torch.export import Dim, export

from fuselight.adapters.torch_api.dynamo.errors import GuardOnData
from fuselight.capture.dynamo import failure_of
from fuselight.shared.report import Culprit

IMPORTS = """\
import contextlib, contextvars, copy, threading, torch
from torch import nn
variable = contextvars.ContextVar("variable")
variable.set(2)
"""
OPERATOR = """\
@torch.library.custom_op("{}::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2
@twice.register_fake
def _(x):
    return torch.empty_like(x)
"""
BYTES = "def run(x, data):\n    return x + data.shape[0]\n"
BRANCHES = "def run(x):\n    return torch.cond(x.sum() > 0, branch, branch, (x,))\n"
GROUP = """\
import torch.distributed as dist
if not dist.is_initialized():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
def run(x):
    y = x.detach() * 2
    {}
    return y
"""
STEPS = {
    "GB0170 change in place": (
        "def run(x):\n    y = x * 1\n    if y.sum() > 0:\n        y.mul_(2)\n    return y\n",
        "def run(x):\n    y = x * 1\n    y.mul_(torch.where(y.sum() > 0, 2, 1))\n    return y\n",
    ),
    "GB0170 another change": (
        "def run(x):\n    y = x * 1\n    if y.sum() > 0:\n        y[0] = 7\n    return y\n",
        (
            "def run(x):\n    y = x * 1\n    changed = y.clone()\n    changed[0] = 7\n"
            "    y.copy_(torch.where(y.sum() > 0, changed, y))\n    return y\n"
        ),
    ),
    "GB0003 list": (
        "def run(x):\n    for factor in range(3):\n        yield x * factor\n",
        "def run(x):\n    return [x * factor for factor in range(3)]\n",
    ),
    "GB0003 caller": (
        "def run(x):\n    for factor in range(3):\n        yield x * factor\n",
        (
            "def parts(x):\n    for factor in range(3):\n        yield x * factor\n"
            "def run(x):\n    return list(parts(x))\n"
        ),
    ),
    "GB0036 bincount": (
        "def run(x):\n    return torch.bincount(x.int() + 1)\n",
        """\
def run(x):
    index = x.int() + 1
    weights = torch.ones_like(index, dtype=torch.long)
    return weights.new_zeros(3).scatter_add_(0, index.long(), weights)
""",
    ),
    "GB0036 bincount with weights": (
        "def run(x):\n    return torch.bincount(x.int() + 1, x.detach())\n",
        "def run(x):\n    w = x.detach()\n    return w.new_zeros(3).scatter_add_(0, x.long() + 1, w)\n",
    ),
    "GB0036 repeat_interleave": (
        "def run(x):\n    return x.repeat_interleave(x.long() + 1)\n",
        "def run(x):\n    return x.repeat_interleave(x.long() + 1, output_size=4)\n",
    ),
    "GB0036 nonzero": (
        "def run(x):\n    return torch.nonzero(x)\n",
        "def run(x):\n    return torch.nonzero_static(x, size=2)\n",
    ),
    "GB0036 positions counted": (
        "def run(x):\n    return x / (x > 0).nonzero().size(0)\n",
        "def run(x):\n    return x / torch.count_nonzero(x > 0)\n",
    ),
    "GB0036 mask counted": (
        "def run(x):\n    chosen = x[x > 0]\n    return chosen.sum() / chosen.shape[0]\n",
        "def run(x):\n    mask = x > 0\n    return torch.where(mask, x, 0).sum() / torch.count_nonzero(mask)\n",
    ),
    "GB0036 distinct": (
        "def run(x):\n    return x / x.unique().numel()\n",
        (
            "def run(x):\n    s = x.flatten().sort().values\n"
            "    return x / (1 + torch.count_nonzero(s[1:] != s[:-1]))\n"
        ),
    ),
    "GB0036 distinct neighbors": (
        "def run(x):\n    return x / len(torch.unique_consecutive(x))\n",
        "def run(x):\n    s = x.flatten()\n    return x / (1 + torch.count_nonzero(s[1:] != s[:-1]))\n",
    ),
    "GB0109": (
        "def run(x):\n    return x * x.tolist()[0]\n",
        "def run(x):\n    return x * x[0]\n",
    ),
    "GB0207": (
        "def run(x):\n    return sorted([x, -x], key=lambda part: part.sum())[0] * 2\n",
        ("def run(x):\n    parts = torch.stack([x, -x])\n    return parts[parts.sum(1).argsort()][0] * 2\n"),
    ),
    "GB0124 table": (
        "def run(x):\n    i = (x > 100).sum()\n    return x * (0.5, 2.0)[i.item()]\n",
        (
            "def run(x):\n    i = (x > 100).sum()\n"
            "    return x * torch.tensor([0.5, 2.0], device=i.device)[i.view(1)].squeeze(0)\n"
        ),
    ),
    "GB0124 attribute": (
        "class Seen:\n    pass\nseen = Seen()\ndef run(x):\n    seen.last = x.sum().item()\n    return x * 2\n",
        "class Seen:\n    pass\nseen = Seen()\ndef run(x):\n    seen.last = x.sum().detach()\n    return x * 2\n",
    ),
    "GB0124 condition": (
        "def run(x):\n    if x.sum().item() > 100:\n        raise ValueError('large')\n    return x * 2\n",
        "def run(x):\n    torch._assert_async(~(x.sum() > 100), 'large')\n    return x * 2\n",
    ),
    "GB0066": (
        """\
@contextlib.contextmanager
def block():
    yield
def inner(x):
    with block():
        print(end="")
        return x * 2
def run(x):
    return inner(x)
""",
        "def inner(x):\n    with contextlib.nullcontext():\n        return x * 2\ndef run(x):\n    return inner(x)\n",
    ),
    "GB0067": (
        f"calls = []\ndef branch(x):\n    calls.append(1)\n    return x * 2\n{BRANCHES}",
        f"def branch(x):\n    return x * 2\ncalls = []\n{BRANCHES}    calls.append(1)\n",
    ),
    "GB0100": (
        """\
handle = None
def keep(x):
    global handle
    handle = x.register_hook(lambda gradient: gradient)
    return x
def run(x):
    return keep(x * 2)
""",
        """\
def keep(x):
    handle = x.register_hook(lambda gradient: gradient)
    return x
def run(x):
    return keep(x * 2)
""",
    ),
    "GB0107": (
        "def run(x):\n    return x.detach().clone().random_(1)\n",
        "def run(x):\n    return torch.randint(1, (2,)).float()\n",
    ),
    "GB0108": (
        "def run(x):\n    y = x * 2\n    y.retain_grad()\n    return y, y + 1\n",
        "def run(x):\n    y = x * 2\n    return y, y + 1\n",
    ),
    "GB0126": (
        "def run(x):\n    y = x.detach() * 2\n    y.resize_(1)\n    return y\n",
        "def run(x):\n    y = x.detach() * 2\n    return y[:1].clone()\n",
    ),
    "GB0128": (
        "def run(x):\n    y = torch.empty(0)\n    y.set_(x.untyped_storage(), 0, (1,), (1,))\n    return y * 2\n",
        "def run(x):\n    y = x.detach()[:1].clone()\n    return y * 2\n",
    ),
    "GB0142": (
        "lock = threading.Lock()\ndef run(x):\n    with lock:\n        return x * 2\n",
        "def before(x):\n    threading.Lock().acquire()\n    return (x,)\ndef run(x):\n    return x * 2\n",
    ),
    "GB0172": (GROUP.format("dist.all_reduce(y, async_op=True).wait()"), GROUP.format("dist.all_reduce(y)")),
    "GB0225": (
        "def run(x):\n    return x * torch.ones(2, requires_grad=True)\n",
        "def before(x):\n    return x, torch.ones(2, requires_grad=True)\ndef run(x, y):\n    return x * y\n",
    ),
    "GB0264": (
        "def run(x):\n    return x * nn.Parameter(torch.ones(2))\n",
        "def before(x):\n    return x, nn.Parameter(torch.ones(2))\ndef run(x, y):\n    return x * y\n",
    ),
    "GB3069": (
        f"def run(x):\n{indent(OPERATOR.format('inside'), '    ')}    return twice(x.detach())\n",
        f"{OPERATOR.format('outside')}def run(x):\n    return twice(x.detach())\n",
    ),
    "GB3837": (
        "def run(x):\n    return x + len(bytearray(x.detach().numpy().astype('uint8')))\n",
        f"def before(x):\n    return x, torch.tensor(list(bytearray(2)), dtype=torch.uint8)\n{BYTES}",
    ),
    "GB4198": (
        "def run(x):\n    return copy.deepcopy(x) * x\n",
        "def run(x):\n    return x.detach().clone() * x\n",
    ),
    "GB5821": (
        """\
def run(x):
    y = x.detach() * 2
    y.requires_grad_().register_post_accumulate_grad_hook(print)
    return x * 2
""",
        (
            "def before(x):\n    x.register_post_accumulate_grad_hook(print)\n    return (x,)\n"
            "def run(x):\n    return x * 2\n"
        ),
    ),
    "GB6815": (
        "def run(x):\n    variable.set(2)\n    return x * variable.get()\n",
        "def before(x):\n    variable.set(2)\n    return (x,)\ndef run(x):\n    return x * variable.get()\n",
    ),
    "GB7000": (
        "def run(x):\n    for _ in range(2):\n        x = x * 2\n        print(end='')\n    return x\n",
        (
            "def before(x):\n    print(end='')\n    return (x,)\n"
            "def run(x):\n    for _ in range(2):\n        x = x * 2\n    return x\n"
        ),
    ),
    "GB8977": (
        "def run(x):\n    class Scale(list):\n        factor = 2\n    return x * Scale.factor\n",
        "class Scale(list):\n    factor = 2\ndef run(x):\n    return x * Scale.factor\n",
    ),
    "GB9890": (
        "def run(x):\n    return x + len(bytes((x.detach() * 2).sum().long()))\n",
        f"def before(x):\n    return x, torch.tensor(list(bytes(4)), dtype=torch.uint8)\n{BYTES}",
    ),
}
"""By the id of the break: a program without the step, and with it. What `before` returns is passed to `run`."""


def result_of(text: str) -> tuple[set[str], int, Any]:
    """The ids of the breaks of a program, how many graphs it has, and what it returns."""
    module: Any = ModuleType("followed")
    sys.modules["followed"] = module
    exec(compile(IMPORTS + text, "followed.py", "exec"), module.__dict__)  # noqa: S102 - the programs of this file
    torch.compiler.reset()
    counters.clear()
    backend: Any = CompileCounter()
    x = torch.tensor([1.0, 1.0], requires_grad=True)
    arguments = module.before(x) if hasattr(module, "before") else (x,)
    try:
        result = torch.compile(module.run, backend=backend)(*arguments)  # type: ignore[no-untyped-call]
    except torch._dynamo.exc.TorchDynamoException as error:  # as of a function that is captured whole
        counters["graph_break"][str(error)] += 1
        result = None
    texts = " ".join((*counters["graph_break"], *counters["unimplemented"]))
    return {f"GB{digits}" for digits in re.findall(r"/gb(\d{4})", texts)}, backend.frame_count, result


@pytest.mark.skipif(torch.__version__ < "2.13", reason="torch 2.11 counts no ids")
@pytest.mark.filterwarnings("ignore:The .grad attribute")
@pytest.mark.contract
@pytest.mark.parametrize("name", STEPS)
def test_a_step_removes_its_break(name: str) -> None:
    code = name.partition(" ")[0]
    registry = Path(torch._dynamo.__file__).with_name("graph_break_registry.json")
    if not registry.is_file() or code not in json.loads(registry.read_text("utf-8")):
        pytest.skip("this torch has no such break")
    (broken, _, expected), (ids, graphs, result) = map(result_of, STEPS[name])
    assert code in broken
    assert (ids, graphs) == (set(), 1)
    if expected is not None:
        torch.testing.assert_close(result, list(expected) if isinstance(result, list) else expected)


def test_torch_loses_what_a_traced_function_is_to_print_after_the_graph(
    capsys: pytest.CaptureFixture[str],
) -> None:
    inner = "def inner(x):\n    print('inner')\n    return x * 2\n"
    program = f"{inner}def run(x):\n    print('outer')\n    return inner(x)\n"
    with torch._dynamo.config.patch(reorderable_logging_functions={print}):
        ids, graphs, _ = result_of(program)
    assert (ids, graphs, capsys.readouterr().out) == (set(), 1, "outer\n")


def test_a_dimension_that_the_exported_code_fixes_has_its_size_and_may_be_automatic() -> None:
    class Cut(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:12] * 2 if x.shape[0] == 12 else x

    x = (torch.ones(12),)
    with pytest.raises(torch._dynamo.exc.UserError) as raised:
        export(Cut(), x, dynamic_shapes={"x": {0: Dim("length", min=2, max=64)}})
    failure = failure_of(raised.value, roots=())
    assert failure.culprit is Culprit.USER
    assert failure.message.endswith("your code specialized it to be a constant (12)")
    assert "pass Dim.AUTO in the place of the dimension" in failure.next_step
    export(Cut(), x, dynamic_shapes={"x": {0: Dim.AUTO}})


class _Branch(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 0.5 if x.mean() > 0 else x.clone()


class _Select(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(x.mean() > 0, x * 0.5, x)


class _Condition(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen: torch.Tensor = torch.cond(x.mean() > 0, lambda y: y * 0.5, lambda y: y.clone(), (x,))
        return chosen


class _Number(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = x.sum().item()
        return x * 2 if count >= 2 else x * 3


class _Stated(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = x.sum().item()
        torch._check(count >= 2)  # type: ignore[no-untyped-call]
        return x * 2 if count >= 2 else x * 3


@pytest.mark.parametrize(("refused", "changes"), [(_Branch, (_Select, _Condition)), (_Number, (_Stated,))])
def test_an_export_that_ends_at_a_condition_on_data_is_for_the_code_to_change(
    refused: type[torch.nn.Module], changes: tuple[type[torch.nn.Module], ...]
) -> None:
    x = (torch.ones(3) if refused is _Branch else torch.ones(3, dtype=torch.int64),)
    with pytest.raises(GuardOnData) as raised:
        export(refused(), x)
    failure = failure_of(raised.value, roots=(str(Path(__file__).parent),))
    assert failure.culprit is Culprit.USER
    assert failure.message == "torch.export cannot decide a condition that depends on the data of a tensor"
    for module in changes:
        torch.testing.assert_close(export(module(), x).module()(*x), refused()(*x))
