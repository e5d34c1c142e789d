"""A number of a tensor in a comparison that the code branches on: as a tensor it only moves the graph break."""

from __future__ import annotations

import pytest

from fuselight_server.explain.findings import findings
from tests.support.reports import FILE, at, broken, report


@pytest.mark.parametrize(
    ("assigned", "use", "moves"),
    [
        ("full = rows.sum().item() == 4", "if full:\n        raise ValueError", True),
        ("full = flag and not rows.sum().item() > 4", "return x if full else -x", True),
        ("full = rows.sum().item() == 4", "return x * full", False),
    ],
)
def test_a_number_that_decides_a_branch_is_not_advised_to_stay_a_tensor_alone(
    assigned: str, use: str, *, moves: bool
) -> None:
    lines = f"def pick(x, rows, flag):\n    {assigned}\n    {use}\n".split("\n")
    column = lines[1].index("rows.sum")
    place = at(2, (column, column + len("rows.sum().item()")), path=FILE, function="pick")
    given = report(breaks=(broken(place, gb="GB0124", explanation="", hints=()),))
    (finding,) = findings(given, read_line=lambda _path, line: dict(enumerate(lines, 1)).get(line))
    assert ("Return what `full` is computed from" in finding.hints[0]) is moves
    assert finding.hints[0].startswith("Compute with the tensor") is not moves
