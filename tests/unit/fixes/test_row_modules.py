"""Which modules compute each row by itself, by what their class says."""

from __future__ import annotations

import libcst as cst
import pytest

from fuselight.shared.report import Report, TargetRef, Tier, Versions
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.fixes.syntax.row_modules import is_row_wise
from fuselight_server.fixes.syntax.site import Site

VERSIONS = Versions("3.11", "2.13.0", None, "0", "linux", "python")
MLP = """

class Mlp(nn.Module):
    def __init__(self):
        self.up = nn.Linear(4, 8)

    def forward(self, x):
        y = self.up(x)
        return torch.relu(y) + y
"""


def site_of(module: str, call: str, more: str = MLP) -> Site:
    text = (
        f"import torch\nfrom torch import nn\n{more}\n\nclass Net(nn.Module):\n    def __init__(self):\n"
        f"        self.f = {module}\n\n    def forward(self, x):\n        return {call}\n"
    )
    line = text[: text.index(f"return {call}")].count("\n") + 1
    column = 8 + len("return ")
    span = Span("m.py", line, column, line, column + len(call))
    finding = Finding("GB0036", Severity.WARNING, "title", "message", span, Tier.CAPTURE, "f", "", "2.13.0")
    report = Report(VERSIONS, TargetRef("m.py", "Net", 1, "class"), Tier.CAPTURE, 1)
    site = Site.of(finding, report, text)
    assert site is not None
    return site


@pytest.mark.parametrize(
    ("module", "call", "expected"),
    [
        ("nn.Linear(4, 4)", "self.f(x) * 2", True),
        ("nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4), torch.nn.GELU())", "self.f(x)", True),
        ("Mlp()", "torch.relu(self.f(x + 1))", True),
        ("nn.LayerNorm([2, 4])", "self.f(x)", False),
        ("nn.BatchNorm1d(4)", "self.f(x)", False),
        ("nn.Sequential(nn.Linear(4, 4), nn.Dropout())", "self.f(x)", False),
        ("nn.Sequential(*layers)", "self.f(x)", False),
        ("nn.Linear(4, 4)", "self.f(x).cumsum(0)", False),
        ("nn.Linear(4, 4)", "self.g(x)", False),
        ("Other()", "self.f(x)", False),
        ("nn.ReLU()", "self.f(x)", True),
        ("nn.ReLU(inplace=False)", "self.f(x)", True),
        ("nn.ReLU(inplace=True)", "self.f(x)", False),
        ("nn.SiLU(True)", "self.f(x)", False),
        ("nn.Sequential(nn.Identity(), nn.ReLU(True))", "self.f(x)", False),
        ("nn.Sequential(nn.Linear(4, 4, True), nn.ReLU(inplace=True))", "self.f(x)", True),
        ("nn.Linear(4, 4)", "torch.nn.functional.relu(x, True)", False),
    ],
)
def test_a_module_goes_row_by_row_only_if_its_class_says_so(module: str, call: str, expected: object) -> None:
    site = site_of(module, call)
    expression = next(node for node in site.nodes((cst.Call, cst.BinaryOperation)) if site.code(node) == call)
    assert is_row_wise(site, expression) is expected


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("torch.relu(y)", "y.mean(0)"),
        ("torch.relu(y)", "y[0]"),
        ("        y = self.up(x)", "        self.y = y = self.up(x)"),
        ("nn.Linear(4, 8)", "nn.MultiheadAttention(4, 2)"),
        ("(nn.Module)", "(Base)"),
        ("(self, x):\n", "(self, x, mask=None):\n"),
    ],
)
def test_a_class_of_the_file_whose_forward_is_not_known(written: str, instead: str) -> None:
    site = site_of("Mlp()", "self.f(x)", MLP.replace(written, instead))
    expression = next(
        node for node in site.nodes((cst.Call, cst.BinaryOperation)) if site.code(node) == "self.f(x)"
    )
    assert not is_row_wise(site, expression)
