"""Advice to change a value outside of compiled code: only where no compiled code reads it, with all that has to go."""

from __future__ import annotations

import pytest

from fuselight.shared.report import Compile, Graph, GuardCause, Outcome
from fuselight_server.explain.findings import findings
from tests.support.recompilations import again, failed
from tests.support.reports import at, report


@pytest.mark.parametrize(
    ("reader", "is_moved"),
    [
        ("return x.sum()", True),
        ("return torch.cat(cache.parts).sum()", False),
        ("return len(cache.parts) * x", False),
        ("parts = cache.parts; parts.append(x); return x", True),
        ("other = parts = cache.parts; parts = other; other = parts; return len(other) * x", False),
        ("first = cache.parts; second = first; first = second; second.append(x); return x", False),
    ],
)
def test_a_list_is_added_to_outside_only_if_no_compiled_function_reads_it(
    reader: str, *, is_moved: bool
) -> None:
    """Two lists grow: both are named. `reader` is in another function that ran in the graph."""
    body = [
        "def put(self, x):",
        "    self.parts.append(x)",
        "    self.parts.append(x)",
        "    self.names.append(1)",
    ]
    lines = dict(enumerate([*body, "", "def total(cache, x):", f"    {reader}"], 20))
    born = (at(22, function="put"),)
    parts = [
        failed(
            f"len(cache.parts) was {n}, now {n + 2}", source="cache.parts", cause=GuardCause.LENGTH, born=born
        )
        for n in (0, 2)
    ]
    names = failed(
        "cache.names was empty, now a list of 1", source="cache.names", cause=GuardCause.LENGTH, born=born
    )
    graph = Graph(1, lines=((at(26, function="total"),),))
    facts = report(
        compiles=(Compile("0/0", 0, Outcome.COMPILED, graph=graph),),
        recompiles=(again(parts[0], names), again(parts[1], compile_id="0/2")),
    )
    (finding,) = findings(facts, read_line=lambda _path, number: lines.get(number))
    assert finding.hints[0].startswith(
        "Keep a fixed number of elements in `cache.parts` and `cache.names`. The code"
    )
    moved = "Or return what is added, and add it to `cache.parts` and `cache.names` outside the compiled code"
    assert (moved in finding.hints) is is_moved


def test_a_changed_value_names_what_else_has_to_go() -> None:
    lines = {20: "def forward(self, x, word):", 21: "    Net.calls += 1", 22: "    return x * ROWS[word]"}
    calls = failed("Net.calls was 1, now 2", source="Net.calls", born=(at(21, function="forward"),))
    word = failed(
        "words[1] was 'a', now 'b'",
        source="words[1]",
        cause=GuardCause.VALUE,
        was="'a'",
        now="'b'",
        born=(at(22, function="forward"),),
    )
    (finding,) = findings(
        report(recompiles=(again(calls, word),)), read_line=lambda _path, number: lines.get(number)
    )
    assert finding.hints[0].startswith(
        "Change `Net.calls` outside the compiled code: the code changes what it"
    )
    lookup = "Compute `ROWS[word]` outside the compiled code, and pass it in as a tensor"
    assert any(lookup in hint for hint in finding.hints)


@pytest.mark.parametrize(("last", "is_moved"), [("return x", True), ("return torch.stack(self.rows)", False)])
def test_values_change_outside_together_only_if_the_code_does_not_read_the_list(
    last: str, *, is_moved: bool
) -> None:
    lines = {20: "def forward(self, x):", 21: "    Net.calls += 1; self.rows.append(x)", 22: f"    {last}"}
    born = (at(21, function="forward"),)
    calls = failed("Net.calls was 1, now 2", source="Net.calls", born=born)
    grown = failed("len(self.rows) was 1, now 2", source="self.rows", cause=GuardCause.LENGTH, born=born)
    (finding,) = findings(
        report(recompiles=(again(calls, grown),)), read_line=lambda _path, number: lines.get(number)
    )
    moved = "Change `Net.calls` and `self.rows` outside the compiled code, all of them"
    assert finding.hints[0].startswith(moved) is is_moved
    assert any("outside the compiled code" in hint for hint in finding.hints) is is_moved


@pytest.mark.parametrize(
    ("change", "last", "is_passed"),
    [
        ("Net.calls += 1", "return x / Net.calls", True),
        ("Net.calls = Net.calls + 1", "return x", False),
        ("Net.calls += 1", "return x", False),
    ],
)
def test_a_counter_that_the_code_reads_is_passed_in(change: str, last: str, *, is_passed: bool) -> None:
    """A number of a module or an object is guarded by its value where compiled code reads it."""
    lines = {20: "def forward(self, x):", 21: f"    {change}", 22: f"    {last}"}
    calls = failed("Net.calls was 1, now 2", source="Net.calls", born=(at(21, function="forward"),))
    (finding,) = findings(
        report(recompiles=(again(calls),)), read_line=lambda _path, number: lines.get(number)
    )
    assert finding.hints[0].startswith("Change `Net.calls` outside the compiled code")
    assert ("and pass in `Net.calls` as a tensor" in finding.hints[0]) is is_passed


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("self.ticks", "    n = next(self.ticks)"),
        ("TICKS", "    return x * next(TICKS)"),
        ("self.a.ticks", "    log(next(self.a.ticks))"),
    ],
)
def test_a_count_is_read_outside_of_the_compiled_code(source: str, line: str) -> None:
    lines = {20: "def forward(self, x):", 21: line, 22: "    return x"}
    counts = [
        failed(
            f"next({source}) was {number}, now {number + 1}",
            "LAMBDA_GUARD",
            source,
            cause=GuardCause.VALUE,
            born=(at(21, function="forward"),),
        )
        for number in range(3, 7)
    ]
    again_each = (again(item, compile_id=f"0/{number}") for number, item in enumerate(counts, 1))
    (finding,) = findings(
        report(recompiles=tuple(again_each)), read_line=lambda _path, number: lines.get(number)
    )
    assert (finding.title, finding.count) == (f"recompiled: next({source}) was 3, now 4", 4)
    (hint,) = finding.hints
    assert hint.startswith(f"Call `next({source})` outside the compiled code, and pass its result in")
    assert hint.endswith("each number compiles, up to the recompile limit")
    assert finding.cures == (), "no setting and no tensor meets it"
