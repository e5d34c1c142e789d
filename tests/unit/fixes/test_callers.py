"""A rewrite that takes a parameter for a tensor is refused if another caller passes a Python value for it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from fuselight.shared.report import Fact, FactKind, FileFacts, Report, TracedFacts, TracedValue
from fuselight_server.base.finding import Finding
from fuselight_server.fixes.rewrites.families import Remedy, rewrites
from tests.support.offered_remedies import CONFIGURATION, finding_at

FUNCTION = """\
import torch


def f(x, is_skipped):
    if is_skipped:
        x = x * 2
    return x.cos()
"""
MODULE = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x, is_skipped):
        if is_skipped:
            return x * 2
        return x.cos()
"""

OUTER = """\
from m import Net


class Outer:
    def __init__(self):
        self.net = Net()

    def run(self, a):
        return self.net(a, False)
"""
PLOT = """\
from m import Net


class Outer:
    def __init__(self):
        self.net = Net()


class Plot:
    def __init__(self):
        self.net = Axis()

    def run(self, a):
        return self.net(a, None)
"""
METHOD = """\
import torch


class Sampler(Base):
    def f(self, x, is_skipped):
        if is_skipped:
            x = x * 2
        return x.cos()


class Fine(Sampler):
    pass


"""


def at_condition(text: str) -> tuple[Finding, Report]:
    finding, report = finding_at(text, "if is_skipped")
    column = (finding.span.column or 0) + len("if ")
    return dataclasses.replace(finding, span=dataclasses.replace(finding.span, column=column)), report


def offered(text: str, **others: str) -> tuple[list[Remedy], list[str]]:
    """What is offered, and why the others are not."""
    finding, report = at_condition(text)
    texts = {"m.py": text, **{f"{name}.py": other for name, other in others.items()}}
    report = dataclasses.replace(report, files=dict.fromkeys(texts, ""))
    result = rewrites(finding, report, texts.get)
    remedies = [remedy for remedy in result.remedies if remedy.kind not in CONFIGURATION]
    return remedies, [refusal.reason for refusal in result.refused]


def converts(text: str, **others: str) -> bool | None:
    """Whether the new text converts what callers pass; None if nothing is offered."""
    remedies, _ = offered(text, **others)
    lines = [remedy.texts["m.py"].splitlines() for remedy in remedies]
    places = [new.index(next(line for line in new if "def f" in line)) for new in lines]
    starts = [new[place + 1].strip() for new, place in zip(lines, places, strict=True)]
    if not starts:
        return None
    return all(start == "is_skipped = torch.as_tensor(is_skipped)" for start in starts)


OTHER = FUNCTION.replace("return x.cos()", "return x * is_skipped")
"""The flag is a factor, too."""


@pytest.mark.parametrize(
    ("text", "use", "value"),
    [
        (FUNCTION, "from m import f\n\nf(a, None)\n", "None"),
        (FUNCTION, "from m import f\n\nf(a, 'yes')\n", "'yes'"),
        (FUNCTION, "from m import f\n\nf(a, True)\nf(a, None)\n", "None"),
        (OTHER, "from m import f\n\nf(a, True)\n", "True"),
        (OTHER, "import m\n\nm.f(a, is_skipped=1.5)\n", "1.5"),
    ],
)
def test_a_python_value_of_another_file_refuses(text: str, use: str, value: str) -> None:
    remedies, reasons = offered(text, other=use)
    assert remedies == []
    assert any(
        reason.endswith(f"may pass something else for `is_skipped`: `{value}`") and "other.py:" in reason
        for reason in reasons
    )


@pytest.mark.parametrize(
    ("text", "use"),
    [
        (FUNCTION, "from m import f\n\nf(a, True)\n"),
        (FUNCTION, "import m\n\nm.f(a, is_skipped=1.5)\n"),
        (FUNCTION, "from m import f\n\nflag = False\nf(a, flag)\n"),
        (FUNCTION, "from m import f\n\nf(a, -1)\n"),
        (FUNCTION, "from m import f\n\npair = (a, True)\nf(*pair)\n"),
        (FUNCTION, "from m import f\n\nf(*(a, 0))\n"),
        (FUNCTION, "from functools import partial\nfrom m import f\n\npartial(f, is_skipped=2)(a)\n"),
        (FUNCTION, "import functools\nfrom m import f\n\nfunctools.partial(f, a, 2)()\n"),
        (FUNCTION, "from m import f\n\nTABLE = {'f': f}\nTABLE[name](a, 1)\n"),
        (FUNCTION, "from m import f\n\nSTEPS = [g, f]\nSTEPS[1](a, 1)\n"),
        (FUNCTION, "from m import f\n\nstep = f\nstep(a, 1)\n"),
        (FUNCTION, "from m import f\n\ncall = lambda x, on=True: f(x, on)\n"),
        (FUNCTION, "from m import f\n\ndef call(x, *, on=False):\n    return f(x, on)\n"),
        (FUNCTION, "from m import f\n\n[f(a, on) for a, on in ((b, 1), (c, 0))]\n"),
        (MODULE, "from m import Net\n\nnet = Net()\nnet(a, True)\n"),
        (
            MODULE,
            "import torch\nfrom m import Net\n\nnet = torch.compile(Net().eval())\nnet(a, is_skipped=2)\n",
        ),
        (MODULE, "from m import Net\n\nNet()(a, 0)\n"),
        (MODULE, OUTER),
    ],
)
def test_a_number_of_another_file_becomes_a_tensor(text: str, use: str) -> None:
    assert converts(text, other=use) is True


@pytest.mark.parametrize(
    ("text", "use"),
    [
        (FUNCTION, "from m import f\n\nf(True, a)\n"),
        (FUNCTION, "from m import f\n\nf(a, b)\n"),
        (FUNCTION, "def g(a, b): ...\n\n\ng(1, True)  # not f\n"),
        (MODULE, "from m import Net\n\nnet = Net()\nother(a, True)\nnet(a, b)\n"),
        (FUNCTION, "from m import f\n\ndef show(on=None): ...\ndef use(a, on):\n    f(a, on)\n"),
        (FUNCTION, "from m import f\n\ndef show():\n    on = None\ndef use(a, on):\n    f(a, on)\n"),
        (FUNCTION, "class Plot:\n    def f(self, a, b): ...\n    def show(self):\n        self.f(a, None)\n"),
        (MODULE, PLOT),
    ],
)
def test_other_calls_refuse_nothing(text: str, use: str) -> None:
    if "f(True" in use:  # `x` is a tensor of the new text, too
        assert converts(text, other=use) is None
    else:
        assert converts(text, other=use) is False


@pytest.mark.parametrize(
    ("base", "code", "refuses"),
    [
        (
            "object",
            "class Heun:\n    def f(self, y, on): ...\n    def run(self, y):\n        self.f(y, None)\n",
            False,
        ),
        ("object", "class Heun(Fine):\n    def run(self, y):\n        self.f(y, None)\n", True),
        (
            "object",
            "class Heun(Fine):\n    f = len\n\n    def run(self, y):\n        self.f(y, None)\n",
            False,
        ),
        ("object", "class Mixin:\n    def run(self, y):\n        self.f(y, None)\n", True),
        (
            "Heun",
            "class Heun:\n    def f(self, y, on): ...\n    def run(self, y):\n        self.f(y, None)\n",
            True,
        ),
        (
            "Base",
            "class Heun:\n    def f(self, y, on): ...\n    def run(self, y):\n        self.f(y, None)\n",
            True,
        ),
        ("object", "class Heun:\n    def f(self, y, on): ...\n\n\nsampler.f(y, None)\n", True),
    ],
)
def test_a_call_by_self_is_of_its_class_and_those_above_and_below(
    base: str, code: str, *, refuses: bool
) -> None:
    text = METHOD.replace("Base", base)
    assert converts(text, other=f"from m import Fine\n{code}") is (None if refuses else False)


def test_a_global_name_counts_outside_of_its_function() -> None:
    use = "from m import f\n\ndef set_up():\n    global on\n    on = None\ndef use(a):\n    f(a, on)\n"
    assert converts(FUNCTION, other=use) is None


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        ("is_skipped: bool", True),
        ("is_skipped: torch.Tensor | float", True),
        ("is_skipped=True", True),
        ("is_skipped=-1", True),
        ("is_skipped=None", None),
        ("is_skipped='yes'", None),
        ("is_skipped: str", None),
        ("is_skipped: torch.Tensor", False),
    ],
)
def test_a_signature_that_takes_python_values_refuses_or_converts(
    parameter: str, *, expected: bool | None
) -> None:
    assert converts(FUNCTION.replace("(x, is_skipped)", f"(x, {parameter})")) is expected


def test_another_call_in_the_same_file_counts() -> None:
    assert converts(f"{FUNCTION}\n\nf(torch.ones(4), True)\n") is True
    assert converts(f"{FUNCTION}\n\nf(torch.ones(4), 'yes')\n") is None


def test_files_that_did_not_run_are_read(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("from m import f\n\nf(a, True)\n", encoding="utf-8")
    finding, report = at_condition(FUNCTION)
    report = dataclasses.replace(report, roots=(str(tmp_path),))
    (remedy, *_) = rewrites(finding, report, {"m.py": FUNCTION}.get).remedies
    assert "    is_skipped = torch.as_tensor(is_skipped)\n" in remedy.texts["m.py"]


GATED = """\
import torch
from torch import nn


class Net(nn.Module):
    def is_open(self, x):
        return x.sum() > 0

    def forward(self, x):
        if self.is_open(x):
            x = x * 2
        return x


"""
REPLACED = {
    "class Always(Net):\n    def is_open(self, x):\n        return True\n": 16,
    "class Inner(Net):\n    pass\n\n\nclass Never(Inner):\n    is_open = None\n": 20,
    "class Mixin:\n    def is_open(self, x):\n        return True\n\n\nclass Open(Mixin, Net):\n    pass\n": 16,
    "net = Net()\nnet.is_open = lambda x: x.shape[0] > 1\n": 16,
    "Net.is_open = len\n": 15,
    "def test(monkeypatch):\n    monkeypatch.setattr(Net, 'is_open', len)\n": 16,
    "Other = type('Other', (Net,), {'is_open': len})\n": 15,
    "class Wide(Net):\n    def __init__(self):\n        super().__init__()\n        self.is_open = len\n": 18,
}
KEPT = [
    "class Wide(Net):\n    def width(self):\n        return 1\n",
    "class Door:\n    def is_open(self):\n        return True\n",
    "class Door:\n    def __init__(self):\n        self.is_open = True\n",
    "net = Net()\nprint(net.is_open)\n",
]


@pytest.mark.parametrize("is_other_file", [False, True])
@pytest.mark.parametrize("code", [*REPLACED, *KEPT])
def test_a_method_that_is_replaced_is_not_taken_for_a_tensor(
    code: str,
    is_other_file: bool,  # noqa: FBT001 - a row
) -> None:
    finding, report = finding_at(GATED, "self.is_open(x)")
    span, known = finding.span, report.facts
    asked = Fact(span.line, span.column or 0, span.line, span.end_column or 0, ((len(known.values), 1),))
    facts = {"m.py": FileFacts((*known.files["m.py"].facts, asked))}
    values = (*known.values, TracedValue(FactKind.TENSOR, "bool[]"))
    report = dataclasses.replace(report, facts=TracedFacts(values, facts))
    texts = {"m.py": GATED if is_other_file else GATED + code, "n.py": f"from m import Net\n{code}"}
    report = dataclasses.replace(report, files=dict.fromkeys(texts if is_other_file else ["m.py"], ""))
    result = rewrites(finding, report, texts.get)
    kinds = [remedy.kind for remedy in result.remedies if remedy.kind not in CONFIGURATION]
    line = REPLACED.get(code)
    place = f"n.py:{line - 13}" if line is not None and is_other_file else f"m.py:{line}"
    assert kinds == ([] if line is not None else ["where"])
    reasons = [refusal.reason for refusal in result.refused]
    expected = f"{place} replaces `is_open`, whose result the new text takes for a tensor"
    assert reasons == ([expected] if line is not None else [])


def test_a_long_chain_of_calls_in_another_file_is_read() -> None:
    """A chain of hundreds of calls is as deep as it is long."""
    chain = f"from m import f\ntable = make(){'.a()' * 300}\nf(x, True)\n"
    assert converts(FUNCTION, other=chain) is True


def test_a_form_feed_ends_no_line() -> None:
    remedies, _ = offered(f"\x0c\n# a section\u2028\n{FUNCTION}", other="from m import f\nf(x, True)\n")
    (lines,) = (remedy.texts["m.py"].split("\n") for remedy in remedies)
    assert lines[lines.index("def f(x, is_skipped):") + 1] == "    is_skipped = torch.as_tensor(is_skipped)"
