"""Further calls that a verification derives from a known one show differences that the known call does not."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from fuselight.capture.calls import importing
from fuselight.capture.calls.calls import Prepared, compiled_form
from fuselight.capture.calls.rungs import Answered, Ladder
from fuselight.measure.accuracy.results import CallResults, Value
from fuselight.shared.protocol import NameInUse, VerifyRequest
from fuselight.shared.report import (
    Aspect,
    CallComparison,
    CaseFamily,
    Report,
    TargetRef,
    Tier,
    Verification,
    Versions,
)
from fuselight.worker.child.line_watch import LineWatch
from fuselight.worker.child.originals import Loaded
from fuselight.worker.child.request_results import VerifiedCalls
from fuselight.worker.live.call_records import CallRecord
from fuselight.worker.verify import further_calls, verification_cases
from fuselight.worker.verify.case_caller import ModuleModes
from fuselight.worker.verify.case_folder import CaseFolder
from fuselight.worker.verify.further_calls import CaseCall, FurtherCalls
from fuselight.worker.verify.verification import VerifyCalls
from fuselight.worker.verify.verification_cases import Case, cases_of
from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.fixes.verification.change_context import ChangeContext, context_of
from fuselight_server.fixes.verification.comparison import compare_calls, compare_further, end
from tests.support.live_worker import LiveWorker, make_request

pytestmark = pytest.mark.torch

HEAD = "import time\nimport torch\nfrom torch import nn\n\n"
LOG = """\
class Log:
    def __init__(self):
        self.seen = []

LOG = Log()

"""
DYNAMIC = "torch._dynamo.config.capture_dynamic_output_shape_ops = <False|True>\n\n"
LOOP_THAT_CATCHES = """\
while x.requires_grad:
        try:
            x = x * 1
            time.sleep(0.01)
        except Exception:
            pass"""
NARROW = """\
# fuselight: f(f32[4])
def f(x):
    a, b = x.max() - 1, x.sum()
    return <a if a else b|torch.where(a != 0, a, b)>
"""
LAYERS = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.a.register_forward_hook(seen)

    def forward(self, x):
        {}

def seen(module, args, output):
    return None
"""


def compared(
    live: LiveWorker,
    folder: Path,
    old: str,
    new: str,
    name: str = "f",
    *,
    seconds: float = 60.0,
    settings: bool = False,
    names: tuple[NameInUse, ...] = (),
) -> Verification:
    folder = live.folder / folder.name  # in the workspace, where the user's code cannot write
    folder.mkdir()
    for text, records in ((old, True), (new, False)):
        request = live.request(HEAD + text, name, seconds=120.0).of_kind(
            VerifyRequest,
            folder=str(folder),
            records=records,
            cases=True,
            seconds=seconds,
            settings=settings,
            names=names,
            automatic=True,
        )
        request = replace(request, overlays={request.target.path: HEAD + text})
        report = live.report(request)
        assert report.failures == ()
    assert report.verification is not None
    assert not report.verification.refused
    return report.verification


class HereAndNow:
    """Makes further calls of some families in this process: few calls, and no run."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self._patch = folder, monkeypatch
        (folder / "records").mkdir()

    def compared(
        self, old: str, new: str, families: Collection[CaseFamily], name: str = "f", *, settings: bool = False
    ) -> Verification:
        planned = FurtherCalls._planned
        self._patch.setattr(
            FurtherCalls,
            "_planned",
            lambda calls: [call for call in planned(calls) if call.case.family in families],
        )
        verification = self.round(old, new, name, settings=settings)
        assert verification.left == ()
        return verification

    def round(
        self, old: str, new: str, name: str = "f", *, settings: bool = False, first: int = 0
    ) -> Verification:
        """The calls from number `first` on for which there is time."""
        context = context_of({"m.py": HEAD + old}, {"m.py": HEAD + new}, {})
        verification = Verification(refused="no text")
        for side, text, records in (("old", old, True), ("new", new, False)):
            verification = self._verification_of(
                side, HEAD + text, name, records=records, settings=settings, first=first, context=context
            )
            assert not verification.refused
        return verification

    def _verification_of(
        self,
        side: str,
        text: str,
        name: str,
        *,
        records: bool,
        settings: bool,
        first: int,
        context: ChangeContext,
    ) -> Verification:
        path = self._folder / f"{side}.py"
        path.write_text(text, encoding="utf-8")
        request = make_request(path, text, name).of_kind(
            VerifyRequest,
            folder=str(self._folder / "records"),
            records=records,
            cases=True,
            seconds=60.0,
            settings=settings,
            first=first,
            names=context.names,
            sizes=context.sizes,
        )
        state: Any = SimpleNamespace(
            job=SimpleNamespace(request=request),
            loaded=Loaded(),
            step=lambda *_: contextlib.nullcontext(),
            compiled_form=lambda prepared: compiled_form(
                prepared.function,
                by_source=request.target.compiled,
                dynamic=prepared.options.dynamic,
                roots=request.roots,
            )[0],
        )
        calls = VerifyCalls()
        torch.compiler.reset()
        with calls.compiling(state):
            self._patch.setitem(sys.modules, side, ModuleType(side))  # and none afterwards
            names = vars(importing.import_file(str(path), side, importing.Sources(request.roots)))

            def climb() -> Answered:
                answered, _ = Ladder(request.target, request.inputs, names, "cpu").climb()
                assert answered is not None
                return answered

            calls.use(state, climb(), climb, names)
        verification: Verification = state.result.verification
        return verification


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HereAndNow]:
    config = torch._dynamo.config
    set_by_texts = ("capture_dynamic_output_shape_ops", "capture_scalar_outputs", "trace_autograd_ops")
    with config.patch({name: getattr(config, name) for name in set_by_texts if hasattr(config, name)}):
        yield HereAndNow(tmp_path, monkeypatch)
    torch.compiler.reset()


def differing(verification: Verification) -> dict[tuple[CaseFamily, Aspect], str]:
    """The real differences of each family and aspect, a line each."""
    entries: dict[tuple[CaseFamily, Aspect], str] = {}
    for comparison in verification.comparisons:
        for difference in comparison.differences:
            if not difference.rounding and difference.aspect is not Aspect.MEMORY:
                key = comparison.family, difference.aspect
                entries[key] = f"{entries.get(key, '')}{comparison.values}: {difference.text}\n"
    return entries


ROWS = {
    "a number wraps as a tensor": (
        "# fuselight: f(f32[4], i64[3] % 5)\ndef f(x, t):\n    n = t.max()<.item()>\n    return x * (n * n)\n",
        (CaseFamily.EXTREME, Aspect.OUTPUT, "where int"),
    ),
    "a number keeps the dtype of the other operand": (
        "# fuselight: f(f32[4], f64[3])\ndef f(x, t):\n    n = t.max()<.item()|.reshape(1)>\n    return x * n\n",
        (CaseFamily.DTYPE, Aspect.STRUCTURE, ""),
    ),
    "a bool becomes an integer on one side of a branch alone": (
        "# fuselight: f(f32[4])\ndef f(x):\n    y = x.any()\n    return <x + 1 if y else x|torch.where(y, x + 1, x)>\n",
        (CaseFamily.DTYPE, Aspect.STRUCTURE, "bool inputs: output was bool[4], is int64[4]"),
    ),
    "one bool among floats is no number": (
        "# fuselight: f(f32[4], f32[4])\ndef f(x, y):\n    return x - 1, y<| * 1>\n",
        (CaseFamily.DTYPE, Aspect.STRUCTURE, "bool for input 1: output[1] was bool[4], is int64[4]"),
    ),
    "the sum of narrow integers is wide": (
        NARROW,
        (CaseFamily.DTYPE, Aspect.STRUCTURE, "int32 inputs: output was int32[], is int64[]"),
    ),
    "the real part of a float is the float": (
        "# fuselight: f(f32[4])\ndef f(x):\n    return x<|.real> + 1\n",
        (CaseFamily.DTYPE, Aspect.STRUCTURE, "complex64 inputs: output was complex64[4], is float32[4]"),
    ),
    "of two tensors without dimensions the wider dtype counts": (
        "# fuselight: f(f32[4])\ndef f(x):\n    return x * <0.5|torch.tensor(0.5)>\n",
        (
            CaseFamily.DTYPE,
            Aspect.STRUCTURE,
            "float16 inputs without dimensions: output was float16[], is float32[]",
        ),
    ),
    "float64 counts next to float32 without dimensions": (
        "# fuselight: f(f32[2, 3])\ndef f(x):\n    return x * <0.5|torch.tensor(0.5).double()>\n",
        (
            CaseFamily.DTYPE,
            Aspect.STRUCTURE,
            "float32 inputs without dimensions: output was float32[], is float64[]",
        ),
    ),
    "the same of integers": (
        "# fuselight: f(i64[4] % 5)\ndef f(x):\n    return x + <2|torch.tensor(2)>\n",
        (CaseFamily.DTYPE, Aspect.STRUCTURE, "int8 inputs without dimensions: output was int8[], is int64[]"),
    ),
    "and of integers in place of floats": (
        "# fuselight: f(f32[4])\ndef f(x):\n    return x + <2|torch.tensor(2)>\n",
        (CaseFamily.DTYPE, Aspect.STRUCTURE, "int8 inputs without dimensions: output was int8[], is int64[]"),
    ),
    "float64 becomes float32": (
        "# fuselight: f(f32[4])\ndef f(x):\n    return x * <0.1|torch.tensor(0.1).item()>\n",
        (CaseFamily.DTYPE, Aspect.OUTPUT, "float64 inputs"),
    ),
    "what needed no gradient needs one": (
        "# fuselight: f(f32[4])\ndef f(x):\n    return x<.detach()> * 2\n",
        (CaseFamily.GRADIENTS, Aspect.GRADIENT, "gradient of input 0: element [0] was 0, is 1"),
    ),
    "backward fails": (
        "# fuselight: f(f32[4], f32[4])\ndef f(y, x):\n    w = y.exp()\n    <x = x * 1|w.add_(x)>\n    return w\n",
        (CaseFamily.GRADIENTS, Aspect.EXCEPTION, "raises RuntimeError"),
    ),
    "a shape is equal for a batch of 1 alone": (
        "# fuselight: f(f32[1, 4])\ndef f(x):\n    return x.sum(0, keepdim=True)< * 1| + x * 0>\n",
        (
            CaseFamily.SIZE,
            Aspect.STRUCTURE,
            "size 3 in place of 1: output was float32[1, 4], is float32[3, 4]",
        ),
    ),
    "a sum overflows": (
        "# fuselight: f(f32[4])\ndef f(x):\n    return x.<mean()|sum() / x.numel()>\n",
        (CaseFamily.EXTREME, Aspect.OUTPUT, "for float"),
    ),
    "an empty input is refused": (
        "# fuselight: f(f32[4])\ndef f(x):\n    return x.sum()< * 1| + 0 * x.abs().amax()>\n",
        (CaseFamily.EMPTY, Aspect.EXCEPTION, "raises RuntimeError"),
    ),
    "an exception is gone": (
        "# fuselight: f(f32[4], 2)\ndef f(x, n):\n    return x * (<1 / n|1 / n if n else 0.0>)\n",
        (CaseFamily.OPTION, Aspect.EXCEPTION, "no longer raises ZeroDivisionError"),
    ),
    "a float is an integer": (
        "# fuselight: f(i64[3] % 5, 0.5)\ndef f(x, n):\n    return x * <n|float(n)>\n",
        (CaseFamily.OPTION, Aspect.STRUCTURE, "argument 1 = 2: output was int64[3], is float32[3]"),
    ),
    "a plain object keeps something else": (
        LOG + "# fuselight: f(f32[4])\ndef f(x):\n    LOG.seen.append(<1|2>)\n    return x\n",
        (CaseFamily.SIZE, Aspect.STATE, "global LOG.seen[+1] becomes ('int', '1') in the old text"),
    ),
    "the list of the caller keeps its length": (
        "# fuselight: f([f32[4], f32[4]])\ndef f(xs):\n    <xs.append|list(xs).append>(1)\n    return xs[0] * 2\n",
        (CaseFamily.SIZE, Aspect.STATE, "stays as it is in the new text"),
    ),
    "what is not used has a gradient": (
        LAYERS.format("return self.a(x)< * 1| + 0 * self.b(x)>") + "\n# fuselight: Net()(f32[2, 4])\nNet\n",
        (CaseFamily.MODE, Aspect.UNUSED_GRADIENT, "was None, is zeros"),
    ),
    "Python keeps one of two numbers by which is NaN": (
        "# fuselight: f(f32[4], f32[4])\ndef f(a, b):\n    return a - <max|torch.max>(a.sum(), b.sum())\n",
        (CaseFamily.NONFINITE, Aspect.OUTPUT, "NaN in input 1: output: element [0] was "),
    ),
    "a mask selects rows, of which the compiled code must accept any number": (
        DYNAMIC
        + "# fuselight: f(f32[4], f32[4])\ndef f(y, x):\n    at = x.le(0)\n    return y[at] * x[at]\n",
        (CaseFamily.RANK, Aspect.EXCEPTION, "rows of 1 and -2, and one dimension more of input 0: raises "),
    ),
    "compiled code has no gradients of gradients": (
        "# fuselight: f(f32[3])\n<@torch._dynamo.disable\ndef|def> f(x):\n    return x ** 3\n",
        (CaseFamily.SECOND, Aspect.EXCEPTION, "gradients of gradients: raises RuntimeError"),
    ),
    "a hook runs more often": (
        LAYERS.format("y = self.a(x)<|; self.a(x)>; return y") + "\n# fuselight: Net()(f32[2, 4])\nNet\n",
        (
            CaseFamily.MODE,
            Aspect.STATE,
            "the runs of the hook seen of a becomes 1 in the old text, becomes 2",
        ),
    ),
}


def sides(text: str) -> tuple[str, str]:
    """`<old>` or `<old|new>`: the text before and after the change."""
    texts = []
    for side in (0, 1):
        parts = []
        for number, part in enumerate(text.replace(">", "<").split("<")):
            parts.append(part if number % 2 == 0 else ([*part.split("|"), ""])[side])
        texts.append("".join(parts))
    return texts[0], texts[1]


MATH = "import math\n\n"
TRACED_NUMBERS = {
    "# fuselight: f(f32[], f64[], i64[3])\ndef f(p, q, x):\n    return x * (p.item() - q.item())\n": (
        CaseFamily.NONFINITE,
        Aspect.OUTPUT,
        "one tensor of infinity as several inputs: output: element [0] was ",
    ),
    "# fuselight: f(f32[4] + 3)\ndef f(x):\n    n = x.abs().sum().item()\n    return x * math.sqrt(n - 1)\n": (
        CaseFamily.VALUES,
        Aspect.EXCEPTION,
        "values of a small sum: no longer raises ValueError",
    ),
    "# fuselight: f(f32[4])\ndef f(x):\n"
    "    return x * math.log(x.norm().item()) ** math.sqrt(1 - x.sum().item())\n": (
        CaseFamily.VALUES,
        Aspect.EXCEPTION,
        "no longer raises ValueError",
    ),
}


@pytest.mark.parametrize("code", TRACED_NUMBERS)
def test_a_further_call_shows_what_python_does_with_a_number_of_a_tensor(code: str, here: HereAndNow) -> None:
    family, aspect, words = TRACED_NUMBERS[code]
    entries = differing(here.compared(*sides(MATH + SCALARS + code), {family}, settings=True))
    assert words in entries[family, aspect]


@pytest.mark.parametrize("row", ROWS)
def test_a_further_call_shows_what_the_known_one_does_not(row: str, here: HereAndNow) -> None:
    text, (family, aspect, words) = ROWS[row]
    entries = differing(here.compared(*sides(text), {family}, "Net" if "class Net" in text else "f"))
    assert words in entries[family, aspect]


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


SCALARS = "torch._dynamo.config.capture_scalar_outputs = <False|True>\n\n"
DYNAMIC_SIZE = """\
# fuselight: f(f32[8, 3])
@torch.compile(dynamic=<None|True>)
def f(x):
    return x * (2 / (x.size(0) - 5))
"""
SETTINGS = {
    "a number that is captured has operations of an integer alone": (
        SCALARS + "# fuselight: f(i64[3] % 5)\ndef f(t):\n    return t + 11 % (t.max().item() ** 2 + 3)\n",
        (CaseFamily.DTYPE, "bool inputs: raises "),
    ),
    "a symbolic size divides by zero in an exception of torch": (
        DYNAMIC_SIZE,
        (CaseFamily.SIZE, "size 5 in place of 8: raises TorchRuntimeError: "),
    ),
}


@pytest.mark.parametrize("row", SETTINGS)
def test_a_setting_is_compared_in_compiled_calls(row: str, here: HereAndNow) -> None:
    text, (family, words) = SETTINGS[row]
    entries = differing(here.compared(*sides(text), {family}, settings=True))
    lines = [line for line in entries[family, Aspect.EXCEPTION].splitlines() if line.startswith(words)]
    assert lines
    assert family is CaseFamily.DTYPE or lines[0].endswith(", instead of ZeroDivisionError")


INNER_BACKWARD = """\
torch._dynamo.config.trace_autograd_ops = <False|True>

# fuselight: Step()(f32[4, 3], no_grad=False)
class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.map = nn.Linear(3, 1)

    def forward(self, x):
        loss = self.map(x).square().mean()
        loss.backward()
        return loss.detach()
"""


@pytest.mark.skipif(
    not hasattr(torch._dynamo.config, "trace_autograd_ops"), reason="this torch has no such setting"
)
def test_a_setting_that_leaves_out_hooks_of_parameters_is_seen(here: HereAndNow) -> None:
    families = {CaseFamily.HOOKS, CaseFamily.GRADIENTS}
    verification = here.compared(*sides(INNER_BACKWARD), families, "Step", settings=True)
    assert {family for family, _ in differing(verification)} == {CaseFamily.HOOKS}


def test_a_setting_that_changes_nothing_differs_nowhere(live: LiveWorker, tmp_path: Path) -> None:
    text = (
        "# fuselight: f(f32[8], 2)\n@torch.compile(dynamic=<None|True>)\ndef f(x, n):\n    if x.size(0) == 6:\n"
        "        raise ValueError('six')\n    return x * n\n"
    )
    verification = compared(live, tmp_path, *sides(text), settings=True)
    assert differing(verification) == {}
    names = {(comparison.values, comparison.compiled) for comparison in verification.comparisons}
    assert {("int64 inputs", True), ("argument 1 = 3", True), ("empty inputs", True)} <= names
    assert ("size 7 in place of 8", False) in names
    assert "size 6 in place of 8" in verification.not_accepted
    assert verification.not_reached == ()


@pytest.mark.parametrize(
    ("expression", "rounding"),
    [
        ("(x + 100 + x) - 100", [True]),
        ("((x + 100 + x) - 100) * 1.000001", [False]),
        ("((x + 100).float() + x) - 100", [False]),
    ],
)
def test_a_sum_in_another_order_is_rounding_if_float64_gives_the_same(
    expression: str, rounding: list[bool], here: HereAndNow
) -> None:
    old = "# fuselight: f(f32[64])\ndef f(x):\n    return x + x\n"
    new = (
        "# fuselight: f(f32[64])\ndef f(x):\n    if torch.compiler.is_compiling():\n"
        f"        return {expression}\n    return x + x\n"
    )
    verification = here.compared(old, new, {CaseFamily.SIZE})
    comparison = next(
        comparison
        for comparison in verification.comparisons
        if (comparison.values, comparison.compiled) == ("size 65 in place of 64", True)
    )
    assert [difference.rounding for difference in comparison.differences] == rounding


PROJECTED = """\
# fuselight: Net()(f32[2, 6, 8], train=True)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(8, 8) for _ in range(4))
        self.all = nn.Linear(8, 24)
        self.faint = nn.Linear(8, 8)

    def heads(self, *rows):
        return (row.unflatten(-1, (2, 4)).transpose(1, 2) for row in rows)

    def forward(self, x):
        q, k, v = {}
        y = {}
        return self.o(y.transpose(1, 2).flatten(2)){}
"""
SEPARATE = "self.heads(self.q(x), self.k(x), self.v(x))"
TOGETHER = "self.heads(*self.all(x).chunk(3, -1))"
PLAIN = "(q @ k.mT / 2).softmax(-1) @ v"
SINGLE = "(q @ k.mT / 2).softmax(-1, dtype=torch.float32).to(q.dtype) @ v"
FUSED = "nn.functional.scaled_dot_product_attention(q, k, v)"
NORMALIZED = """\
# fuselight: Net()(f32[4, 3, 6, 6], train=True)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3)

    def forward(self, x):
        y = self.conv(x)
        return {}
"""
CENTERED = (
    "(y - y.mean((0, 2, 3), keepdim=True)) / y.var((0, 2, 3), correction=0, keepdim=True).add(1e-5).sqrt()"
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (PROJECTED.format(SEPARATE, PLAIN, ""), PROJECTED.format(SEPARATE, FUSED, "")),
        (PROJECTED.format(SEPARATE, SINGLE, ""), PROJECTED.format(SEPARATE, FUSED, "")),
        (PROJECTED.format(TOGETHER, PLAIN, ""), PROJECTED.format(TOGETHER, FUSED, "")),
        (
            NORMALIZED.format(CENTERED),
            NORMALIZED.format("nn.functional.batch_norm(y, None, None, training=True)"),
        ),
        (
            PROJECTED.format(SEPARATE, PLAIN, " + self.faint(x) * 1e-8"),
            PROJECTED.format(SEPARATE, FUSED, " + self.faint(x * 1e-8) - self.faint.bias * (1 - 1e-8)"),
        ),
    ],
)
def test_a_gradient_that_is_zero_is_rounding(old: str, new: str, here: HereAndNow) -> None:
    verification = here.compared(old, new, {CaseFamily.MODE, CaseFamily.GRADIENTS}, "Net")
    assert differing(verification) == {}
    assert {row.compiled for row in verification.comparisons} == {False, True}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" + self.faint(x) * 1e-8", " + self.faint(x) * 2e-8"),
        (" + self.faint(x) * 1e-8", " - self.faint(x) * 1e-8"),
        (" + self.faint(x) * 1e-10", " + self.faint(x).detach() * 1e-10"),
        (" + self.faint(x).detach() * 1e-10", " + self.faint(x) * 1e-10"),
    ],
)
def test_a_wrong_gradient_that_is_small_is_found(old: str, new: str, here: HereAndNow) -> None:
    texts = PROJECTED.format(SEPARATE, PLAIN, old), PROJECTED.format(SEPARATE, FUSED, new)
    verification = here.compared(*texts, {CaseFamily.MODE, CaseFamily.GRADIENTS}, "Net")
    assert (CaseFamily.GRADIENTS, Aspect.GRADIENT) in differing(verification)


DTYPES = {
    torch.float32: "float64 float32 float16 bfloat16 bool int64 int32 int16 int8 uint8 complex64",
    torch.int64: "int64 int32 int16 int8 uint8 float32 bool float64 complex64",
    torch.bool: "uint8 int64 float32",
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_input_comes_as_each_kind_of_number(dtype: torch.dtype) -> None:
    prepared = Prepared(lambda x: x, (torch.arange(4).to(dtype),), {})
    cases = [
        case for case in cases_of(prepared) if case.family is CaseFamily.DTYPE and case.name != "autocast"
    ]
    inputs = [(case.name.split()[0], case.change(prepared).args[0]) for case in cases]
    assert list(dict.fromkeys(name for name, _ in inputs)) == DTYPES[dtype].split()
    assert {(name, str(tensor.dtype)) for name, tensor in inputs} == {
        (name, f"torch.{name}") for name in DTYPES[dtype].split()
    }
    assert len(cases) <= len(set(map(repr, inputs))) + len(DTYPES[dtype].split()), "few calls are made twice"
    bools = [tensor.tolist() for name, tensor in inputs if name == "bool"]
    assert not bools or {(any(value), all(value)) for value in bools} == {
        (True, False),
        (True, True),
        (False, False),
    }


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


def test_an_equal_text_differs_nowhere_and_what_the_target_refuses_is_no_difference(
    live: LiveWorker, tmp_path: Path
) -> None:
    text = (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layer = nn.Linear(4, 3)\n        self.calls = 0\n\n    def forward(self, x, mask):\n"
        "        self.calls += 1\n        return self.layer(x)[mask]\n\n"
        "# fuselight: Net()(f32[2, 4], bool[2], train=True)\nNet\n"
    )
    verification = compared(live, tmp_path, text, text, "Net")
    assert all(comparison.differences == () for comparison in verification.comparisons)
    names = {(comparison.values, comparison.compiled) for comparison in verification.comparisons}
    assert {("inference", False), ("inference", True), ("size 3 in place of 2", False)} <= names
    assert {("float64 inputs", False), ("empty inputs", False), ("NaN in one element", True)} <= names
    refused = {"size 5 in place of 4", "int64 inputs", "uint8 inputs", "bool inputs", "complex64 inputs"}
    assert refused <= set(verification.not_accepted)
    assert verification.not_reached == ()


def test_a_second_gradient_of_zeros_in_place_of_none_is_no_difference(here: HereAndNow) -> None:
    text = (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layer = nn.Linear(4, 4)\n\n    def forward(self, x):\n        x = self.layer(x)\n"
        "        {}\n        return x\n\n# fuselight: Net()(f32[2, 4])\nNet\n"
    )
    old = text.format("x = torch.relu(x) if x.mean() > 100 else x - 1")
    new = text.format("x = torch.where(x.mean() > 100, torch.relu(x), x - 1)")
    verification = here.compared(old, new, {CaseFamily.SECOND}, "Net")
    second = [
        comparison
        for comparison in verification.comparisons
        if comparison.family is CaseFamily.SECOND and not comparison.compiled
    ]
    assert [comparison.differences for comparison in second] == [()]


def test_what_there_is_no_time_for_is_reported(live: LiveWorker, tmp_path: Path) -> None:
    text = "# fuselight: f(f32[4])\ndef f(x):\n    return x * 2\n"
    verification = compared(live, tmp_path, text, text, seconds=0.0)
    assert (verification.comparisons, verification.reached) == ((), 0)
    assert {"training", "float16 inputs"} <= set(verification.left)


@pytest.mark.parametrize("loop", ["while x.requires_grad:\n        time.sleep(0.01)", LOOP_THAT_CATCHES])
def test_a_call_that_never_ends_is_a_difference_unless_the_old_text_does_not_end_either(
    loop: str, live: LiveWorker, tmp_path: Path
) -> None:
    text = "# fuselight: f(f32[4])\ndef f(x):\n    {}\n    return x * 2\n"
    verification = compared(live, tmp_path, text.format("pass"), text.format(loop), seconds=40.0)
    last = verification.comparisons[-1]
    assert (last.family, last.compiled) == (CaseFamily.GRADIENTS, False)
    assert [difference.aspect for difference in last.differences] == [Aspect.TIME]
    assert re.fullmatch(r"takes more than \d+ s, and took \d\.\d s before", last.differences[0].text)
    if loop == LOOP_THAT_CATCHES:
        return
    (tmp_path / "both").mkdir()
    both = compared(live, tmp_path / "both", text.format(loop), text.format(loop), seconds=1.0)
    assert both.not_reached == ("gradients of the inputs",)
    assert "training" not in both.left
    assert "float16 inputs" in both.left


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


def new_text(folder: Path, call: Callable[..., Any]) -> tuple[FurtherCalls, VerifiedCalls]:
    """The further calls of a new text whose calls `call` makes, and their result."""
    request: Any = SimpleNamespace(
        folder=str(folder), seconds=60.0, records=False, settings=False, first=0, names=(), sizes=()
    )
    caller: Any = SimpleNamespace(call=call, lines=LineWatch(()))
    result = VerifiedCalls()
    return FurtherCalls(result, request, caller), result


def test_a_case_of_which_the_compiled_call_alone_is_late_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = SimpleNamespace(raised="")
    monkeypatch.setattr(FurtherCalls, "_add", lambda *_given, **_named: None)
    monkeypatch.setattr(CaseFolder, "load", lambda *_given: record)
    (tmp_path / "further.json").write_text(json.dumps({"0": (True, 0.1)}), encoding="utf-8")
    calls, result = new_text(tmp_path, lambda *_given, **_named: record)
    first, second = (Case(name, CaseFamily.SIZE) for name in ("a", "b"))
    planned = [CaseCall(case, compiled=compiled) for case in (first, second) for compiled in (False, True)]
    monkeypatch.setattr(calls, "_planned", lambda: planned)
    calls.make()
    assert (result.so_far.reached, result.so_far.left) == (1, ("a, compiled", "b"))


def test_a_call_that_does_not_end_is_not_reached_nor_are_those_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(case: Case, *, compiled: bool, is_first: bool) -> None:
        del compiled, is_first
        if case.name == "b":
            raise TimeoutError

    done = {str(index): (index > 0, 0.1) for index in range(3)}
    (tmp_path / "further.json").write_text(json.dumps(done), encoding="utf-8")
    calls, result = new_text(tmp_path, call)
    monkeypatch.setattr(
        calls, "_planned", lambda: [CaseCall(Case(name, CaseFamily.SIZE)) for name in ("a", "b", "c")]
    )
    with pytest.raises(TimeoutError):
        calls.make()
    assert result.so_far.left == ("b", "c")


BOOLS = "# fuselight: f(f32[4])\ndef f(x):\n    y = x.any()\n    return {}\n"


def test_rounds_that_a_clock_ends_compare_what_one_round_without_an_end_compares(
    here: HereAndNow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call reads the clock, which advances by seconds: the title never claims more than at the end."""
    old, new = BOOLS.format("x + 1 if y else x"), BOOLS.format("torch.where(y, x + 1, x)")
    families = {CaseFamily.MODE, CaseFamily.VALUES, CaseFamily.DTYPE}
    whole = here.compared(old, new, families)
    ticks = itertools.count(step=7.0)
    monkeypatch.setattr(further_calls, "_perf_counter", lambda: next(ticks))
    rounds = [here.round(old, new)]
    while rounds[-1].left:
        assert len(rounds) < 100
        rounds.append(here.round(old, new, first=rounds[-1].reached))
    assert len(rounds) > 2
    assert [entry for part in rounds for entry in part.comparisons] == list(whole.comparisons)
    assert not any(part.not_reached for part in rounds)
    claims = list(titles(rounds))
    assert (
        claims[-1]
        == list(titles([whole]))[-1]
        == (
            FixClass.EQUAL,
            "same results, except for bool inputs and that it returns a new tensor in place of its input",
        )
    )
    assert all(fix_class is FixClass.EQUAL and "not compared: " in words for fix_class, words in claims[:-1])


def titles(rounds: Iterable[Verification]) -> Iterator[tuple[FixClass | None, str]]:
    """What a change would claim if nothing else was compared after each round."""
    change = Remedy("patch", "It", FixClass.EQUAL, {"m.py": ""}, best_class=FixClass.EXACT)
    versions = Versions("3.11", "2.13.0", None, "0", "linux", "python")
    target = TargetRef("m.py", "f", 1, "function")
    recorded = tuple(CallComparison(0, "recorded inputs", compiled=mode) for mode in (False, True))
    so_far = compare_calls(
        change, Report(versions, target, Tier.CAPTURE, 1, verification=Verification(recorded))
    )
    for part in rounds:
        so_far = compare_further(change, so_far, Report(versions, target, Tier.CAPTURE, 1, verification=part))
        ended = end(change, so_far)
        yield ended.fix_class, ended.words


def test_a_compiled_call_alone_may_round_as_far_as_compiling_moves_the_old_text(tmp_path: Path) -> None:
    def record(*values: float) -> CallRecord:
        tensor = torch.tensor(values)
        return CallRecord(CallResults((Value("output", tensor, str(tensor.dtype), tuple(tensor.shape)),)))

    calls, result = new_text(tmp_path, record)
    case = Case("a", CaseFamily.SIZE)
    eager, compiled, new = record(1.0, 2.0), record(1.00001, 2.0), record(1.0, 2.00001)
    calls._add(case, new, [eager, compiled], compiled=True)
    calls._add(case, new, [eager, eager], compiled=True)
    calls._add(case, new, [eager], compiled=True)  # the old text was not compiled
    calls._add(case, new, [eager], compiled=False)
    roundings = [
        difference.rounding
        for comparison in result.so_far.comparisons
        for difference in comparison.differences
    ]
    assert roundings == [True, False, False, False]


def test_autocast_is_that_of_the_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(torch, "autocast", lambda device, dtype: opened.append(f"{device} {dtype}"))
    gpu = SimpleNamespace(
        device=torch.device("cuda", 1),
        dtype=torch.float32,
        is_floating_point=lambda: True,
        element_size=lambda: 4,
        dim=lambda: 2,
    )
    inputs: Any = [gpu]
    (case,) = (case for case in verification_cases._dtypes(inputs) if case.name == "autocast")
    case.around()
    assert opened == ["cuda torch.bfloat16"]
