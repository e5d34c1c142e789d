"""A number that is an index next to others: torch compiles for each value, and `select` leaves the number symbolic."""

from __future__ import annotations

import pytest

from fuselight.shared.report import GuardCause
from fuselight_server.explain.findings import findings
from tests.support.recompilations import again, failed
from tests.support.reports import at, report

WHY = "torch compiles for each value of an index that is next to others"


def hints(line: str, source: str = "slot", before: str = "pass") -> tuple[str, ...]:
    """The advice for an integer that a function reads on the line, first on that before."""
    changed = failed(
        f"{source} was 2, now 3", "EQUALS_MATCH", source, born=(at(21, function="forward"),),
        cause=GuardCause.NUMBER, was="2", now="3",
    )  # fmt: skip
    lines = dict(enumerate(["def forward(self, x, slot):", f"    {before}", f"    {line}"], 20))
    (finding,) = findings(
        report(recompiles=(again(changed),)), read_line=lambda _path, number: lines.get(number)
    )
    return tuple(hint for hint in finding.hints if "possible change" not in hint)


@pytest.mark.parametrize(
    ("line", "change"),
    [
        ("self.memory[:, slot] = x", "`self.memory.select(1, slot).copy_(x)` for `self.memory[:, slot] = x`"),
        ("bank[:, :, slot + 1] = 0", "`bank.select(2, slot + 1).fill_(0)` for `bank[:, :, slot + 1] = 0`"),
        ("return rows[..., slot] + x", "`rows.select(-1, slot)` for `rows[..., slot]`"),
        ("return rows[..., slot, :] + x", "`rows.select(-2, slot)` for `rows[..., slot, :]`"),
        ("return x[0, slot, 1:]", "`x.select(1, slot)[0, 1:]` for `x[0, slot, 1:]`"),
    ],
)
def test_an_element_by_several_indices_is_selected_by_a_method(line: str, change: str) -> None:
    assert hints(line) == (f"Write {change}: {WHY}",)


@pytest.mark.parametrize(
    "line",
    [
        "return x[slot]",
        "return x[:, :slot]",
        "return table['a', slot]",
        "return x[None, :, slot]",
        "x[:, slot] += 1",
    ],
)
def test_nothing_is_said_of_other_indices(line: str) -> None:
    assert not any(WHY in hint for hint in hints(line))


def test_an_attribute_is_passed_in_too() -> None:
    (hint,) = hints("return self.rows[:, self.at]", source="self.at")
    assert hint.startswith("Pass `self.at` in as an argument, and write `self.rows.select(1, self.at)` for")
    moved, selected = hints("return self.rows[:, self.at]", source="self.at", before="self.at += 1")
    assert moved.startswith("Change `self.at` outside the compiled code, and pass in `self.at`")
    assert selected == f"Write `self.rows.select(1, self.at)` for `self.rows[:, self.at]`: {WHY}"
