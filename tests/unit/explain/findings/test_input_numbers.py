"""Numbers of an input tensor, read in a function that the compiled one calls: the callers can pass them in."""

from __future__ import annotations

import dataclasses
from pathlib import PurePath

import pytest

from fuselight.shared.report import Fact, FactKind, FileFacts, Frame, Location, TracedFacts, TracedValue
from fuselight_server.explain.findings import findings
from tests.support.reports import FILE, at, broken, report

PASSED, RETURNED = "Pass the numbers of `shapes` in as Python numbers", "Return the tensor of which"
CALL, LOOP = "self.place(x, shapes)", "for rows, width in sizes:"
MODULE = Location(str(PurePath("/lib/torch/nn/modules/module.py")), 9, function="_call_impl")
LIBRARY = Location("/lib/timm/layers.py", 9, function="run")


def _step(
    body: tuple[str, ...], read: str, call: str = CALL, *, between: Location | None = None, dtype: str = "i64"
) -> str:
    """The advice for the number that `read` reads in `place`, which the compiled `forward` calls."""
    text = [
        "class Net:",
        "    def forward(self, x, shapes):",
        "        h, rest = self.layer(x), (shapes,)",
        f"        return h + {call}",
        "",
        "    def place(self, x, sizes, *more):",
        *(f"        {row}" for row in body),
    ]
    lines = dict(enumerate(text, 1))
    row = next(row for row, line in lines.items() if read in line and row > 6)
    start = lines[row].index(read)
    inner = at(row, (start, start + len(read)), path=FILE, function="place")
    outer = at(4, (19, 19 + len(call)), path=FILE, function="forward")
    stack = (outer, *((between,) if between else ()), inner)
    of_shapes = Fact(3, 34, 3, 40, ((0, 1),))
    values = (TracedValue(FactKind.TENSOR, f"{dtype}[2, 2]"),)
    given = dataclasses.replace(
        report(breaks=(broken(*stack, gb="GB0033", explanation="_local_scalar_dense"),)),
        frames=(Frame("Net.forward", at(2)),),
        facts=TracedFacts(values, {FILE: FileFacts((of_shapes,))}),
    )
    (finding,) = findings(given, read_line=lambda _path, line: lines.get(line))
    return finding.hints[0]


LISTED = ("steps = (sizes[1:] - sizes[:-1]).tolist()", "return torch.split(x, steps)")
READ = "(sizes[1:] - sizes[:-1]).tolist()"


@pytest.mark.parametrize(
    ("body", "read", "call", "step"),
    [
        ((LOOP, "    x = x + torch.arange(rows)"), "torch.arange(rows)", CALL, PASSED),
        ((LOOP, "    x = x.expand(rows, -1)"), "x.expand(rows, -1)", CALL, PASSED),
        ((LOOP, "    for i in range(width): x = x + i"), "range(width)", CALL, PASSED),
        (("n = sizes[0, 0]", "return x.view(n, -1)"), "x.view(n, -1)", CALL, PASSED),
        (LISTED, READ, CALL, PASSED),
        (LISTED, READ, "self.place(sizes=shapes, x=h)", PASSED),
        (LISTED, READ, "self.place(shapes, h)", RETURNED),
        (LISTED, READ, "self.place(x, *rest)", RETURNED),
        (("n = self.count(sizes)", "return x.view(n, -1)"), "x.view(n, -1)", CALL, RETURNED),
        (("n = length_of(sizes)", "return x.view(n, -1)"), "x.view(n, -1)", CALL, RETURNED),
        (("n = (x > 0).sum()", "return torch.arange(n)"), "torch.arange(n)", CALL, RETURNED),
        (("n = sizes.max()", "print(n.item())"), "n.item()", CALL, "Return the tensor, and show its value"),
    ],
)
def test_numbers_of_an_input_are_passed_in_beside_it(
    body: tuple[str, ...], read: str, call: str, step: str
) -> None:
    """No step names operators that take a tensor in place of the number: `arange` takes none."""
    dtype = "f32" if step is RETURNED and body is not LISTED else "i64"
    assert _step(body, read, call, dtype=dtype).startswith(step)


@pytest.mark.parametrize(
    ("between", "dtype", "step"),
    [(MODULE, "i64", PASSED), (LIBRARY, "i64", RETURNED), (None, "f32", RETURNED)],
    ids=["module", "library", "not of integers"],
)
def test_what_is_calculated_is_followed_only_through_modules_and_integers(
    between: Location | None, dtype: str, step: str
) -> None:
    assert _step(LISTED, READ, between=between, dtype=dtype).startswith(step)
