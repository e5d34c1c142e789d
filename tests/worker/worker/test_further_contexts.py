"""Further calls in other contexts: constructor arguments, defaults, attributes, globals and modes of modules."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fuselight.capture.calls.calls import Prepared
from fuselight.shared.protocol import NameInUse
from fuselight.shared.report import Aspect, CaseFamily
from fuselight.worker.verify.case_caller import ModuleModes
from tests.support.further_calls import HEAD, HereAndNow, compared, differing, sides
from tests.support.live_worker import LiveWorker

pytestmark = pytest.mark.torch

ATTENTION = """\
class Attention(nn.Module):
    def __init__(self, dim=8, heads=1):
        super().__init__()
        self.dim, self.heads = dim, heads
        self.qkv = nn.Linear(dim, 3 * dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) * ({}) ** -0.5
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d)

# fuselight: Attention()(f32[2, 4, 8])
"""
BLOCK = """\
class Config:
    causal = False

class Block(nn.Module):
    def __init__(self, eps=0.0, residual=False, mode="sum", act=torch.relu, drop=0.0):
        super().__init__()
        self.eps, self.mode, self.act = eps, mode, act
        self.residual = residual
        self.scale = 1.0
        self.config = Config()
        self.drop = nn.Dropout(drop)

    def forward(self, x, mask=None, log=False, *, weight=1.0):
        y = <HERE>
        return y

# fuselight: Block()(f32[3, 4])
"""
CONTEXTS: dict[str, tuple[str, CaseFamily, str]] = {
    "a flag of the constructor": (
        "x * 2 + (x if self.residual else 0)<|x * 2>",
        CaseFamily.CONSTRUCTOR,
        "residual = True",
    ),
    "a number of the constructor": ("x / (x.abs().sum() + 1< + self.eps>)", CaseFamily.CONSTRUCTOR, "eps = "),
    "a mode that a comparison names": (
        "x.mean(0) if self.mode == 'mean' else x.sum(0)<|x.sum(0)>",
        CaseFamily.CONSTRUCTOR,
        "mode = 'mean'",
    ),
    "a function of the constructor": ("<self.act|torch.relu>(x)", CaseFamily.CONSTRUCTOR, "act = tanh"),
    "a rate that only training shows": ("<self.drop(x)|x>", CaseFamily.CONSTRUCTOR, "in training"),
    "a mask that no call passes": (
        "x if mask is None else x.masked_fill(mask, 0.0)<|x>",
        CaseFamily.OPTION,
        "mask = ",
    ),
    "a parameter with a default": ("x * <weight|1.0>", CaseFamily.OPTION, "weight = "),
    "a flag that prints": ("(print('x') if log else None, x)[1]<|x>", CaseFamily.OPTION, "log = True"),
    "a constant of the object": ("x * <self.scale|1.0>", CaseFamily.ATTRIBUTE, "scale = "),
    "a flag of a configuration": (
        "x.tril() if self.config.causal else x<|x>",
        CaseFamily.ATTRIBUTE,
        "causal = True",
    ),
}


def two_sides(template: str, place: str) -> tuple[str, str]:
    """The texts with `old<|new>`, `<old|new>` or `kept< deleted>` in the place."""
    old, new = sides(place)
    if place.endswith(">") and "<|" in place:
        old, _, new = place.partition("<|")
        new = new.removesuffix(">")
    return template.replace("<HERE>", old), template.replace("<HERE>", new)


@pytest.mark.parametrize("row", CONTEXTS)
def test_another_context_shows_what_no_input_does(row: str, here: HereAndNow) -> None:
    place, family, words = CONTEXTS[row]
    entries = differing(here.compared(*two_sides(BLOCK, place), {family}, "Block"))
    text = "".join(text for (shown, _), text in entries.items() if shown is family)
    assert words in text
    assert "cannot be built" not in text


def test_a_wrong_size_of_heads_is_found_and_the_right_one_is_the_same(here: HereAndNow) -> None:
    old = ATTENTION.format("d // self.heads")
    families = {CaseFamily.CONSTRUCTOR}
    wrong = differing(here.compared(old, ATTENTION.format("d"), families, "Attention"))
    assert any("heads = 2" in text for text in wrong.values()), wrong
    right = here.compared(old, ATTENTION.format("q.shape[-1]"), families, "Attention")
    assert differing(right) == {}
    assert "dim = 16 with inputs of that size" in {entry.values for entry in right.comparisons}


HELPED = """\
def helper(x, eps=0.0):
    return x / (x.abs().sum() + 1{})

class Part(nn.Module):
    def forward(self, x, shift=0.0, dtype=torch.float32):
        return x.to({}) + {}

class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()

    def forward(self, x):
        return helper(self.part(x))

# fuselight: Whole()(f32[3, 4])
"""


@pytest.mark.parametrize(
    ("parts", "name"), [(("", "dtype", "shift"), "eps"), ((" + eps", "dtype", "0.0"), "shift")]
)
def test_a_default_of_what_the_target_calls_is_varied(
    parts: tuple[str, ...], name: str, here: HereAndNow
) -> None:
    old = HELPED.format(" + eps", "dtype", "shift")
    entries = differing(here.compared(old, HELPED.format(*parts), {CaseFamily.ATTRIBUTE}, "Whole"))
    assert f"{name} = " in entries[CaseFamily.ATTRIBUTE, Aspect.OUTPUT]
    assert here.compared(old, old + "\n", {CaseFamily.ATTRIBUTE}, "Whole").comparisons == ()


LIMITED = """\
class Causal(nn.Module):
    def __init__(self, limit=128):
        super().__init__()
        self.register_buffer("mask", torch.ones(limit, limit).tril())

    def forward(self, x):
        n = x.shape[-1]
        return x * {}

# fuselight: Causal()(f32[16, 16])
"""


def test_inputs_exceed_a_buffer_and_numbers_of_changed_lines(here: HereAndNow) -> None:
    old, new = LIMITED.format("torch.ones(n, n).tril()"), LIMITED.format("self.mask[:n, :n]")
    entries = differing(here.compared(old, new, {CaseFamily.SIZE}, "Causal"))
    assert any("size 129 in place of 16" in text for text in entries.values()), entries


def test_a_name_that_no_accepted_call_varies_is_named(here: HereAndNow) -> None:
    text = BLOCK.replace("eps=0.0", "kind='flat', eps=0.0").replace(
        "self.residual = residual", "self.kind, self.residual = kind, residual"
    )
    old, new = two_sides(text, "x * (1 + len(self.kind) * 0)<|x>")
    assert "another `kind`" in here.compared(old, new, {CaseFamily.CONSTRUCTOR}, "Block").not_reached


def test_a_tensor_of_equal_elements_on_a_changed_line_is_named(here: HereAndNow) -> None:
    """Zeros times anything are zeros."""
    text = (
        "class Net(nn.Module):\n    momentum = 0.0\n\n    def __init__(self, dim=4):\n        super().__init__()\n"
        "        self.last, self.weight = torch.zeros(dim), nn.Parameter(torch.rand(dim))\n\n"
        "    def forward(self, x):\n        return x * self.weight + {} * self.last\n\n# fuselight: Net()(f32[4])\n"
    )
    old, new = text.format("self.momentum"), text.format("0.0")
    not_reached = here.compared(old, new, {CaseFamily.ATTRIBUTE}, "Net").not_reached
    assert "another `last`" in not_reached
    assert "another `weight`" not in not_reached


def test_a_line_that_runs_only_in_another_context_does_not_count_as_run(
    live: LiveWorker, tmp_path: Path
) -> None:
    """Nothing else is varied in that call: what the line depends on has one value there."""
    text = (
        "class Net(nn.Module):\n    def __init__(self, on=False):\n        super().__init__()\n"
        "        self.on = on\n\n    def forward(self, x):\n        if self.on:\n            x = x * 2\n"
        "        return x + 1\n\n# fuselight: Net()(f32[4])\n"
    )
    verification = compared(live, tmp_path, text, text, "Net", names=(NameInUse("on", is_changed=True),))
    assert "on = True" in {entry.values for entry in verification.comparisons}
    (run,) = verification.lines_run
    lines = (HEAD + text).splitlines()
    assert lines.index("        return x + 1") + 1 in run.lines
    assert lines.index("            x = x * 2") + 1 not in run.lines


def test_a_global_and_the_objects_of_the_file_are_as_before_after_their_cases(here: HereAndNow) -> None:
    text = "SCALE = 1.0\nCFG = {'on': False}\n# fuselight: f(f32[4])\ndef f(x):\n    return x * {}\n"
    old = text.replace("{}", "SCALE if not CFG['on'] else x")
    verification = here.compared(old, text.replace("{}", "1.0"), {CaseFamily.ATTRIBUTE, CaseFamily.REPEATED})
    shown = {entry.values for entry in verification.comparisons if entry.differences}
    assert {name.partition(" = ")[0] for name in shown} == {"SCALE", "on"}


def test_a_layer_that_fails_in_training_alone_is_called_in_training_compiled(here: HereAndNow) -> None:
    text = (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.norm = nn.BatchNorm1d(3)\n\n    def forward(self, x):\n        {}\n        return x\n"
        "\n# fuselight: Net()(f32[4, 3])\nNet\n"
    )
    old = text.format("if x.sum() > 0:\n            x = self.norm(x)")
    new = text.format("x = torch.cond(x.sum() > 0, lambda: self.norm(x), lambda: x.clone())")
    entries = differing(here.compared(old, new, {CaseFamily.MODE}, "Net"))
    assert set(entries) >= {(CaseFamily.MODE, Aspect.EXCEPTION)}


def test_a_module_that_the_file_keeps_takes_part_in_each_case_as_it_was(
    live: LiveWorker, tmp_path: Path
) -> None:
    text = (
        "model = nn.Linear(4, 4)\n\n# fuselight: step(f32[2, 4])\ndef step(x):\n"
        "    assert model.weight.requires_grad or not torch.is_grad_enabled() or not model.training\n"
        "    return model(x)< * 1| + 0 * model.bias.sum().detach()>\n"
    )
    verification = compared(live, tmp_path, *sides(text), "step")
    refused = set(verification.not_accepted)
    assert {"size 5 in place of 4", "frozen parameters"} <= refused, "these do not fit"
    assert not {"inputs that are not contiguous", "NaN in one element", "float16 inputs", "zeros"} & refused


def test_the_modes_of_modules_are_restored() -> None:
    norm, linear = torch.nn.BatchNorm1d(2).eval(), torch.nn.Linear(2, 2)
    linear.bias.requires_grad = False
    module = torch.nn.Sequential(norm, linear)
    before = {name: value.data_ptr() for name, value in module.state_dict().items()}
    modes = ModuleModes(Prepared(module, (), {}))
    module.requires_grad_(requires_grad=False).half().train()
    modes.restore()
    assert {name: value.data_ptr() for name, value in module.state_dict().items()} == before
    assert [parameter.requires_grad for parameter in module.parameters()] == [True, True, True, False]
    assert [module.training for module in module.modules()] == [True, False, True]
    module(torch.ones(3, 2)).sum().backward()
