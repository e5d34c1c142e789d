"""A helper that returns an array of NumPy in place of a number, because torch compiles it by itself."""

from __future__ import annotations

from typing import Any

import pytest

from fuselight.shared.report import (
    CallCure,
    Compile,
    Culprit,
    CureKind,
    CureTrial,
    Fact,
    FactKind,
    Failure,
    FileFacts,
    Frame,
    Graph,
    Outcome,
    TracedFacts,
    TracedValue,
)
from fuselight_server.explain.findings import findings
from tests.support.reports import FILE, at, report

SOURCE = """\
def share(step):
    return 1 - np.exp(-step / 5)

def loss(w, x, step):
    scale = share(step)
    return (w * x).sum() * scale
"""
NUMPY = "torch._dynamo.utils.wrapped_"


def _hints(
    source: str = SOURCE, *targets: str, line: int = 6, shape: str = "f64[]", goes_on: bool = True
) -> tuple[str, ...]:
    lines = dict(enumerate(source.split("\n"), 1))
    failure = Failure(
        *(Culprit.USER, "exception", "RuntimeError: Can't call numpy()", "Run it without torch.compile"),
        *("RuntimeError", (at(line, function="loss"),)),
        traceback='File "/env/torch/_dynamo/eval_frame.py", line 1, in compile_wrapper',
        phase="main",
    )
    graph = Graph(len(targets), lines=((at(2, function="share"),),) * len(targets), targets=targets)
    column = source.split("\n")[4].find("share(step)")
    call = at(5, (column, column + len("share(step)")), path=FILE, function="loss")
    facts = TracedFacts(
        (TracedValue(FactKind.TENSOR, shape),), {FILE: FileFacts((Fact(2, 11, 2, 30, ((0, 1),)),))}
    )
    cure = CallCure(CureKind.EAGER, FILE, line)
    given = report(
        failures=(failure,),
        frames=(Frame("share", at(1)),),
        compiles=(Compile("1/0", 0, Outcome.COMPILED, graph=graph, caller=(call,)),),
        facts=facts,
        trials=(CureTrial(cure, 1, 0 if goes_on else 1, "" if goes_on else "it fails there too"),),
    )
    (finding,) = findings(given, read_line=lambda _path, number: lines.get(number))
    return finding.hints


@pytest.mark.parametrize(
    ("targets", "first"),
    [
        (
            ("exp", "sub"),
            "Compute with `math.exp` on line 2, or convert the result on line 5, as `float(share(step))`",
        ),
        (("minimum", "sub"), "Convert the result on line 5, as `float(share(step))`"),
    ],
)
def test_the_helper_that_returns_an_array_is_named_with_what_to_write(
    targets: tuple[str, ...], first: str
) -> None:
    hints = _hints(SOURCE, *(NUMPY + name for name in targets))
    assert hints[0].startswith(f"{first}: torch compiles `share` by itself")
    assert "without torch.compile, the program goes on here (tried)" in hints[1]


OTHER = SOURCE.replace("* scale", "* x.mean()")
INLINE = SOURCE.replace(
    "    scale = share(step)\n    return (w * x).sum() * scale", "    return (w * x).sum() * share(step)"
)


@pytest.mark.parametrize(
    ("source", "targets", "more", "is_named"),
    [
        (SOURCE, (f"{NUMPY}exp",), {}, True),
        (INLINE, (f"{NUMPY}exp",), {"line": 5}, True),
        (OTHER, (f"{NUMPY}exp",), {}, False),
        (SOURCE, (f"{NUMPY}exp", "torch.exp"), {}, False),
        (SOURCE, (f"{NUMPY}exp",), {"shape": "f64[3]"}, False),
        (SOURCE, (f"{NUMPY}exp",), {"goes_on": False}, False),
    ],
    ids=["variable", "in the line", "not read", "a tensor", "an array in eager mode", "fails in eager mode"],
)
def test_a_helper_is_named_only_where_the_run_shows_the_array(
    source: str, targets: tuple[str, ...], more: dict[str, Any], *, is_named: bool
) -> None:
    assert any("by itself" in hint for hint in _hints(source, *targets, **more)) is is_named
