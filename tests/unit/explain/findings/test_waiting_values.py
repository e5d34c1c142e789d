"""The values that wait while a part of a statement is evaluated."""

from __future__ import annotations

import pytest

from fuselight_server.explain.findings.common.waiting_values import waiting_values


@pytest.mark.parametrize(
    ("line", "part", "waiting"),
    [
        ("    self.history.append(loss.item())", "loss.item()", ["self.history.append"]),
        ("    return x * y.item()", "y.item()", ["x"]),
        ("    y = f(a, g(b, c.item()), d)", "c.item()", ["f", "a", "g", "b"]),
        ("    total += x.item()", "x.item()", ["total"]),
        ("    self.total += x.item()", "x.item()", ["self", "self.total"]),
        ('    self.sums["a"] += x.item() - y', "x.item()", ["self.sums", "'a'", "self.sums['a']"]),
        ("    y = [a, b.item()]", "b.item()", ["a"]),
        ("    if x.item() > 3:", "x.item()", []),
        ("    if low < high < x.item():", "x.item()", ["high"]),
        (f"    y = f({'x + ' * 500}x, y.item())", "y.item()", None),  # too long to follow
        ("    y = scale(x, factor=t.item())", "t.item()", ["scale", "x"]),
        ("    y = {k: v.item() for k, v in z}", "v.item()", None),  # the order is not known here
        ("    y = x.item() +", "x.item()", None),
    ],
)
def test_what_waits(line: str, part: str, waiting: list[str] | None) -> None:
    actual_waiting_values = waiting_values([line], line.index(part), len(part))
    assert (
        None if actual_waiting_values is None else [value.text for value in actual_waiting_values]
    ) == waiting


def test_a_bound_method_is_known_as_such() -> None:
    line = "store(self.rows.add(x.item()))"
    actual_waiting_values = waiting_values([line], line.index("x.item()"), len("x.item()"))
    assert actual_waiting_values is not None
    assert [(value.text, value.is_method) for value in actual_waiting_values] == [
        ("store", False),
        ("self.rows.add", True),
    ]
