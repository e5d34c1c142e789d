"""What each call decomposes into, on its line, and what a backend with a given set of operators lacks."""

from __future__ import annotations

import pytest

from fuselight.shared.protocol import DecomposeRequest
from fuselight.shared.report import OperatorPath, Phase, Report
from tests.support.live_worker import LiveWorker

pytestmark = pytest.mark.torch
MODEL = """\
import torch
from torch import nn
from torch.nn import functional as F

# fuselight: Net()(f32[4, 8]{options})
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 8)
    def forward(self, x):
        h = self.up(x)
        h.add_(1)
        return F.softmax(h, -1)
"""
UP, ADD, SOFTMAX = 11, 12, 13


def report_of(live: LiveWorker, source: str, name: str = "f", *operator_set: str) -> Report:
    request = live.request(source, name)
    report = live.report(request.of_kind(DecomposeRequest, operator_set=operator_set))
    assert (report.failures, report.generated) == ((), ())
    return report


def paths(live: LiveWorker, source: str, name: str = "f", *operator_set: str) -> tuple[OperatorPath, ...]:
    report = report_of(live, source, name, *operator_set)
    assert report.problems == ()
    return report.operators


def lacking(live: LiveWorker, source: str, name: str, *operator_set: str) -> list[tuple[str, str]]:
    return [
        (path.call, operator)
        for path in paths(live, source, name, *operator_set)
        for operator in path.lacking
    ]


def test_each_call_has_its_path_on_its_line(live: LiveWorker) -> None:
    linear, add, softmax = paths(live, MODEL.format(options=""), "Net")
    assert [linear.call, add.call, softmax.call] == [
        "torch.nn.functional.linear",
        "torch.Tensor.add_",
        "torch.nn.functional.softmax",
    ]
    assert [path.stack[-1].line for path in (linear, add, softmax)] == [UP, ADD, SOFTMAX]
    assert {path.phase for path in (linear, add, softmax)} == {Phase.INFERENCE}
    assert linear.aten == ("aten.t.default", "aten.addmm.default")
    assert linear.core == ("aten.permute.default", "aten.addmm.default")
    assert {"prims.transpose.default", "aten.mm.default", "prims.add.default"} <= set(linear.prims)
    assert add.aten == ("aten.add.Tensor",)  # as a pure function: nothing in place is left
    assert add.prims == ("prims.add.default",)
    assert softmax.core == ("aten._softmax.default",)
    assert softmax.inductor[0] == "aten.amax.default"
    assert {"prims.exp.default", "prims.div.default"} <= set(softmax.prims)
    assert [path.fallback for path in (linear, add, softmax)] == [()] * 3
    assert [path.lacking for path in (linear, add, softmax)] == [()] * 3


def test_backward_operators_are_on_the_forward_lines(live: LiveWorker) -> None:
    operator_paths = paths(live, MODEL.format(options=", train=True"), "Net")
    assert {path.phase for path in operator_paths} == {Phase.FORWARD, Phase.BACKWARD}
    backward = {path.call: path for path in operator_paths if path.phase is Phase.BACKWARD}
    softmax = backward["torch.nn.functional.softmax"]
    assert softmax.stack[-1].line == SOFTMAX
    assert "aten._softmax_backward_data.default" in softmax.aten
    assert "aten.mul.Tensor" in softmax.core
    linear = backward["torch.nn.functional.linear"]
    assert linear.stack[-1].line == UP
    assert linear.aten.count("aten.mm.default") == 1  # the input needs no gradient


def test_equal_calls_are_one_path_with_a_count(live: LiveWorker) -> None:
    source = (
        "import torch\n# fuselight: f(f32[4])\n"
        "def f(x):\n    for _ in range(5):\n        x = x.sin()\n    return x\n"
    )
    (path,) = paths(live, source)
    assert (path.call, path.count, path.aten) == ("torch.Tensor.sin", 5, ("aten.sin.default",))


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ([], ("core-aten",)),
        ([("torch.nn.functional.linear", "aten.mm.default")], ("prims",)),
        ([], ("inductor",)),
        ([], ("prims", "aten.mm")),
        ([], ("aten.linear", "aten.t", "aten.addmm.default", "aten.add.Tensor", "aten._softmax")),
        # The transposition before it is made of a prim, the multiplication cannot be.
        (
            [("torch.nn.functional.linear", "aten.addmm.default")],
            ("aten.add", "aten._softmax", "prims.transpose"),
        ),
        # Of softmax, all parts but one are there: it can neither be called nor put together.
        (
            [("torch.nn.functional.softmax", "aten._softmax.default")],
            ("aten.permute", "aten.addmm", "aten.add", "prims.amax", "prims.sub", "prims.exp", "prims.sum"),
        ),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_an_operator_set_lacks_operators_that_it_cannot_compose(
    live: LiveWorker, wanted: list[tuple[str, str]], names: tuple[str, ...]
) -> None:
    assert lacking(live, MODEL.format(options=""), "Net", *names) == wanted


def test_operators_without_a_lowering_are_fallbacks_and_attention_is_not(live: LiveWorker) -> None:
    source = (
        "import torch\nfrom torch.nn import functional as F\n"
        "# fuselight: f(f32[2, 4, 8, 8])\n"
        "def f(x):\n"
        "    y = F.scaled_dot_product_attention(x, x, x)\n"
        "    return y + torch.linalg.qr(x[0, 0])[0].sum()\n"
    )
    operator_paths = {path.call: path for path in paths(live, source, "f", "inductor")}
    attention = operator_paths["torch.nn.functional.scaled_dot_product_attention"]
    assert any("scaled_dot_product" in text for text in attention.inductor)
    assert (attention.fallback, attention.lacking) == ((), ())
    qr = operator_paths["torch.linalg.qr"]
    assert qr.fallback == qr.lacking == ("aten.linalg_qr.default",)
    assert qr.stack[-1].line == 6


def test_a_name_unknown_to_torch_is_reported(live: LiveWorker) -> None:
    report = report_of(live, MODEL.format(options=""), "Net", "aten.addmn", "core-aten")
    (problem,) = report.problems
    assert problem.stage == "operator_set"
    assert "aten.addmn" in problem.what
    assert not any(path.lacking for path in report.operators)


def test_symbolic_sizes_stay_symbolic(live: LiveWorker) -> None:
    source = (
        "import torch\n# fuselight: f(f32[4, 8])\n# fuselight: f(f32[6, 8])\n# fuselight: f(f32[9, 8])\n"
        "def f(x):\n    return torch.nn.functional.layer_norm(x, (8,))\n"
    )
    report = report_of(live, source)
    assert {path.compile_id for path in report.operators} == {"0/0", "0/1"}
    assert all(path.prims for path in report.operators)


def test_a_custom_operator_does_not_decompose(live: LiveWorker) -> None:
    source = (
        "import torch\n"
        "@torch.library.custom_op('mine::odd', mutates_args=())\n"
        "def odd(x: torch.Tensor) -> torch.Tensor:\n"
        "    return x.clone()\n"
        "@odd.register_fake\n"
        "def _(x):\n"
        "    return torch.empty_like(x)\n"
        "# fuselight: f(f32[4])\n"
        "def f(x):\n"
        "    return odd(x).cos()\n"
    )
    custom, cos = paths(live, source, "f", "core-aten")
    assert custom.core == custom.prims == custom.fallback == custom.lacking == ("mine.odd.default",)
    assert cos.lacking == ()


def test_a_float_that_has_to_be_fixed_is_captured_again_as_torch_does(live: LiveWorker) -> None:
    source = (
        "import torch\n# fuselight: f(f32[4], 1.5)\n# fuselight: f(f32[4], 2.5)\n"
        "def f(x, scale):\n    return torch.nn.functional.dropout(x, scale / 10) * scale\n"
    )
    operator_paths = paths(live, source)
    assert [path.call for path in operator_paths].count("torch.nn.functional.dropout") == 2
