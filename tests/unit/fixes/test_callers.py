"""A rewrite that takes a parameter for a tensor is refused if another caller passes a Python value for it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from fuselight.shared.report import Report
from fuselight_server.base.finding import Finding
from fuselight_server.fixes.rewrites.families import rewrites
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


def at_condition(text: str) -> tuple[Finding, Report]:
    finding, report = finding_at(text, "if is_skipped")
    column = (finding.span.column or 0) + len("if ")
    return dataclasses.replace(finding, span=dataclasses.replace(finding.span, column=column)), report


def outcome(text: str, **others: str) -> tuple[list[str], list[str]]:
    """The kinds that are offered, and why the others are not."""
    finding, report = at_condition(text)
    texts = {"m.py": text, **{f"{name}.py": other for name, other in others.items()}}
    report = dataclasses.replace(report, files=dict.fromkeys(texts, ""))
    result = rewrites(finding, report, texts.get)
    kinds = [remedy.kind for remedy in result.remedies if remedy.kind not in CONFIGURATION]
    return kinds, [refusal.reason for refusal in result.refused]


@pytest.mark.parametrize(
    ("text", "use", "value"),
    [
        (FUNCTION, "from m import f\n\nf(a, True)\n", "True"),
        (FUNCTION, "import m\n\nm.f(a, is_skipped=1.5)\n", "1.5"),
        (FUNCTION, "from m import f\n\nflag = False\nf(a, flag)\n", "flag"),
        (FUNCTION, "from m import f\n\nf(a, -1)\n", "-1"),
        (FUNCTION, "from m import f\n\nf(a, None)\n", "None"),
        (MODULE, "from m import Net\n\nnet = Net()\nnet(a, True)\n", "True"),
        (
            MODULE,
            "import torch\nfrom m import Net\n\nnet = torch.compile(Net().eval())\nnet(a, is_skipped=2)\n",
            "2",
        ),
        (MODULE, "from m import Net\n\nNet()(a, 0)\n", "0"),
        (MODULE, OUTER, "False"),
    ],
)
def test_a_python_value_of_another_file_refuses(text: str, use: str, value: str) -> None:
    kinds, reasons = outcome(text, other=use)
    assert kinds == []
    assert any(f"passes `{value}` for `is_skipped`" in reason and "other.py:" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("text", "use"),
    [
        (FUNCTION, "from m import f\n\nf(True, a)\n"),
        (FUNCTION, "from m import f\n\nf(a, b)\n"),
        (FUNCTION, "def g(a, b): ...\n\n\ng(1, True)  # not f\n"),
        (MODULE, "from m import Net\n\nnet = Net()\nother(a, True)\nnet(a, b)\n"),
    ],
)
def test_other_calls_refuse_nothing(text: str, use: str) -> None:
    if "f(True" in use:  # `x` is a tensor of the new text, too
        assert outcome(text, other=use)[0] == []
    else:
        assert outcome(text, other=use)[0] == ["where"]


@pytest.mark.parametrize(
    ("parameter", "is_refused"),
    [
        ("is_skipped: bool", True),
        ("is_skipped: torch.Tensor | float", True),
        ("is_skipped=True", True),
        ("is_skipped=None", True),
        ("is_skipped: torch.Tensor", False),
    ],
)
def test_a_signature_that_takes_python_values_refuses(parameter: str, *, is_refused: bool) -> None:
    kinds, _ = outcome(FUNCTION.replace("(x, is_skipped)", f"(x, {parameter})"))
    assert (kinds == []) is is_refused


def test_another_call_in_the_same_file_counts() -> None:
    assert outcome(f"{FUNCTION}\n\nf(torch.ones(4), True)\n")[0] == []


def test_files_that_did_not_run_are_read(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("from m import f\n\nf(a, True)\n", encoding="utf-8")
    finding, report = at_condition(FUNCTION)
    report = dataclasses.replace(report, roots=(str(tmp_path),))
    kinds = [remedy.kind for remedy in rewrites(finding, report, {"m.py": FUNCTION}.get).remedies]
    assert "where" not in kinds
