"""Each rule of `predictions` against a real trace: what it predicts of an edit, the trace of the edited text finds.

All edits are made in one file, each in a function of its own, so that two runs serve for all of them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from fuselight.shared.report import Report
from tests.support.predicted import Place, breaks_in, predicted, run

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no columns before Python 3.11"),
]

HEAD = """\
'''The imports of a docstring are none:

import shutil
'''
import copy, gc, logging, random, time, warnings
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

logger = logging.getLogger("cases")
CALLS = []

@torch.compiler.disable
def helper(x):
    return x
"""
CASE = """
@torch.compile(fullgraph=False)
def case_{index}(x, ids, mask=None):
    import math
    def added(v):
        return v + 1
    h = added(x) * math.pi
    if mask is not None:
        h = h * mask
    m, s, k = h > 0, h.sum(), ids + 1
    {line}
    return m, s, k

@CALLS.append
def call_{index}():
    with torch.no_grad():
        case_{index}(torch.randn(4, 8), torch.arange(3))
"""
BREAKS = (
    "v = h.sum().item()", "v = float(s)", "v = int(k.sum())", "v = h.tolist()", "v = k.tolist()", "v = h.nonzero()",
    "v = torch.nonzero(m)", "v = h[m]", "v = h[h > 0.5]", "v = torch.masked_select(h, m)", "v = k.unique()",
    "v = torch.bincount(k)", "v = torch.where(m)", "v = torch.equal(h, h)", "v = 1 if s > 0 else 2", "v = s and 1",
    "print(h.shape)", "warnings.warn('a')", "logger.warning('a')", "v = time.time()", "gc.collect()", "v = globals()",
    "v = nn.Parameter(h)", "torch.manual_seed(1)", "torch._dynamo.graph_break()", "h.clone().resize_(2)",
    "h.clone().random_()", "v = torch.get_num_threads()", "class Local: pass", "if s > 0: v = 1",
    "if k.max() > 3: v = 1", "for i in range(int(k[0])): v = 1", "with torch.no_grad(): v = s.item()",
    "h = h + 1; v = h.sum().item()", "while s > 100: s = s - 1", "v = helper(h)", "v = np.random.rand()",
    "v = h[: k[0]]", "v = torch.repeat_interleave(h[:3], k, dim=0)", "v = torch.arange(k.max())",
    "v = copy.deepcopy(h)", "v = torch.allclose(h, h)", "v = time.monotonic_ns()", "time.sleep(0)",
)  # fmt: skip
CLEAN = (
    "shutil = None; v = shutil",
    "v = torch.where(m, h, 0.0)", "v = h[k[:1]]", "assert s > -100", "h[m] = 0", "v = s is None", "v = h.max(dim=-1)",
    "v = eval('1')", "if h.shape[0] > 2: v = 1", "if mask is not None: print(mask)", "v = (lambda: print(1))",
    "def inner(a): return a.item()", "v = F.one_hot(k, 10)", "logger.isEnabledFor(10) if mask is not None else 0",
    "if mask is not None and s > 0: v = 1", "for e in []: print(e)", "v = max(s, 1)",
    "v = np.random.rand(2)", "v = torch.repeat_interleave(h, 2)", "v = random.uniform(0, 1)",
)  # fmt: skip
LINES = (*BREAKS, *CLEAN)


def source(*lines: str) -> str:
    return HEAD + "".join(CASE.format(index=index, line=line) for index, line in enumerate(lines))


@dataclass(frozen=True)
class ComparedEdits:
    """What the rules predict of all edits, and what a trace finds."""

    base: Report
    predicted: set[Place]
    traced: set[Place]

    def of(self, places: set[Place], index: int) -> set[Place]:
        first = HEAD.count("\n") + CASE.count("\n") * index + 1
        return {place for place in places if first <= place[0] < first + CASE.count("\n")}


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> ComparedEdits:
    path = tmp_path_factory.mktemp("edited") / "model.py"
    ran, now = source(*("v = 1" for _ in LINES)), source(*LINES)
    base = run(path, ran)
    breaks = breaks_in(run(path, now))
    # Each function is edited alone, for a text has a bounded number of predictions.
    pairs: set[Place] = set()
    for index, line in enumerate(LINES):
        edit = source(*(line if at == index else "v = 1" for at in range(len(LINES))))
        pairs |= predicted(base, path, ran, edit)
    return ComparedEdits(base, pairs, breaks)


def test_the_base_has_no_break(compared: ComparedEdits) -> None:
    assert breaks_in(compared.base) == set()
    assert compared.base.fullgraph is False


@pytest.mark.parametrize("line", BREAKS)
def test_a_predicted_break_is_found_by_a_trace(line: str, compared: ComparedEdits) -> None:
    pairs = compared.of(compared.predicted, LINES.index(line))
    assert pairs, "the rule is silent"
    assert pairs <= compared.of(compared.traced, LINES.index(line))


@pytest.mark.parametrize("line", CLEAN)
def test_what_does_not_break_is_not_predicted(line: str, compared: ComparedEdits) -> None:
    assert compared.of(compared.predicted, LINES.index(line)) == set()
    assert compared.of(compared.traced, LINES.index(line)) == set()


def test_fullgraph_captures_scalars_and_ends_at_the_first_break(tmp_path: Path) -> None:
    def whole(line: str) -> str:
        return source(line).replace("fullgraph=False", "fullgraph=True")

    path = tmp_path / "model.py"
    base = whole("v = 1")
    report = run(path, base)
    assert report.fullgraph is True
    assert predicted(report, path, base, whole("v = s.item()")) == set()
    assert breaks_in(run(path, whole("v = s.item()"))) == set()
    line = "print(1); print(2)"
    pairs = predicted(report, path, base, whole(line))
    assert [code for _, code in pairs] == ["FL404"]
    assert pairs == breaks_in(run(path, whole(line)))
