"""The driver of the annotated fixes must fail when it should: a case that cannot fail proves nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuselight.shared.report import Tier
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.fixes.rewrites.families import FixClass, Remedy
from fuselight_server.fixes.verification.attempts import Attempt, FixStatus
from tests.support.cases import CaseError
from tests.support.fix_cases import disagreements, lines_of_change, parse, rewritten

PROGRAM = """\
import torch

def f(x):
    return x * x.sum().item()
"""
CASE = """\
import torch

def f(x):
    return x * x.sum().item()
    # fix: [GB0124] keep_tensor "Keep the tensor"
    # = 2 -> 1 graphs, same results
    # -|    return x * x.sum().item()
    # +|    return x * x.sum()
    # refused: [GB0124] capture "Set it"
    # = it fails
    #  |import torch
    # +|capture = True
"""


def attempt(kind: str = "keep_tensor", **changes: object) -> Attempt:
    span = Span("/case.py", 4, 15, 4, 31)
    finding = Finding("GB0124", Severity.WARNING, "", "", span, Tier.CAPTURE, "f", "", "2.13.0")
    new = {
        "keep_tensor": PROGRAM.replace(".item()", ""),
        "capture": PROGRAM.replace("torch\n", "torch\ncapture = True\n"),
    }
    title = {"keep_tensor": "Keep the tensor", "capture": "Set it"}[kind]
    remedy = Remedy(kind, title, FixClass.EQUAL, {"/case.py": new[kind]})
    return replace(
        Attempt(finding, 4, remedy, FixStatus.PASSED, "same results", (2, 1)),
        **changes,  # type: ignore[arg-type] # a test's own keywords
    )


REFUSED = attempt("capture", status=FixStatus.REFUSED, why="it fails", graphs=None)


def test_a_matching_case_has_no_differences() -> None:
    case = parse(CASE)
    assert case.program == PROGRAM
    assert case.expected_at(4) == 2
    assert disagreements(case, [attempt(), REFUSED]) == []
    assert rewritten(case, [attempt(), REFUSED]) == CASE


@pytest.mark.parametrize(
    "attempts",
    [
        [],
        [attempt()],
        [attempt(), REFUSED, REFUSED],
        [attempt(status=FixStatus.REFUSED), REFUSED],
        [attempt(why="changes behavior: random numbers"), REFUSED],
        [attempt(graphs=(2, 2)), REFUSED],
        [attempt(), replace(REFUSED, why="it fails elsewhere")],
        [
            attempt(remedy=replace(attempt().remedy, texts={"/case.py": PROGRAM.replace("* x", "* y")})),
            REFUSED,
        ],
        [attempt(remedy=replace(attempt().remedy, kind="other")), REFUSED],
        [attempt(finding=replace(attempt().finding, span=Span("/case.py", 3))), REFUSED],
        [attempt(finding=replace(attempt().finding, code="GB0033")), REFUSED],
        [REFUSED, attempt()],
    ],
    ids=[
        *("nothing", "one missing", "one more", "refused", "class", "graphs", "reason", "text", "kind"),
        *("line", "code", "order"),
    ],
)
def test_each_difference_fails(attempts: list[Attempt]) -> None:
    assert disagreements(parse(CASE), attempts)


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\n# +|y = 1\n",
        "x = 1\n# = same results\n",
        "x = 1  # fix: [GB0124]\n",
        "x = 1\n# fix: [GB0124] keep_tensor\n",
        "x = 1\n# refused:[GB0124] keep_tensor 'Keep'\n",
    ],
)
def test_an_annotation_that_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(CaseError):
        parse(text)


def test_an_empty_annotation_never_agrees() -> None:
    case = parse("x = 1\n# fix:\n")
    assert case.expected_at(1) == 1
    assert disagreements(case, [])
    assert rewritten(case, []) == "x = 1\n# fix:\n"


def test_lines_of_a_change_name_every_place() -> None:
    assert lines_of_change("a\nb\nc\n", "a\nn\nb\n") == (" |a", "+|n", "-|c")
    assert lines_of_change("a\n", "n\na\n") == ("+|n",)
