"""Further calls show what numbers, dtypes and sizes do that the known call has not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fuselight.capture.calls.calls import Prepared
from fuselight.shared.report import Aspect, CaseFamily
from fuselight.worker.verify import verification_cases
from fuselight.worker.verify.verification_cases import cases_of
from tests.support.case_files import marked
from tests.support.further_calls import SCALARS, HereAndNow, differing, sides

pytestmark = pytest.mark.torch

LOG = """\
class Log:
    def __init__(self):
        self.seen = []

LOG = Log()

"""
DYNAMIC = "torch._dynamo.config.capture_dynamic_output_shape_ops = <False|True>\n\n"
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
FURTHER = {
    "a number wraps as a tensor",
    "one bool among floats is no number",
    "of two tensors without dimensions the wider dtype counts",
    "the same of integers",
    "and of integers in place of floats",
    "what is not used has a gradient",
    "a hook runs more often",
}
"""Of these, the rows whose families and aspects others have, too."""
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


@pytest.mark.parametrize("code", marked(TRACED_NUMBERS, {list(TRACED_NUMBERS)[2]}))
def test_a_further_call_shows_what_python_does_with_a_number_of_a_tensor(code: str, here: HereAndNow) -> None:
    family, aspect, words = TRACED_NUMBERS[code]
    entries = differing(here.compared(*sides(MATH + SCALARS + code), {family}, settings=True))
    assert words in entries[family, aspect]


@pytest.mark.parametrize("row", marked(ROWS, FURTHER))
def test_a_further_call_shows_what_the_known_one_does_not(row: str, here: HereAndNow) -> None:
    text, (family, aspect, words) = ROWS[row]
    entries = differing(here.compared(*sides(text), {family}, "Net" if "class Net" in text else "f"))
    assert words in entries[family, aspect]


DTYPES = {
    torch.float32: "float64 float32 float16 bfloat16 int8 bool int64 int32 int16 uint8 complex64",
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
