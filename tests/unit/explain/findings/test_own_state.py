"""State that compiled code changes itself: one finding for each cause, with a step where the run shows growth."""

from __future__ import annotations

import dataclasses
import textwrap

import pytest

from fuselight.shared.report import (
    Compile,
    CureTrial,
    Frame,
    GuardCause,
    GuardFailure,
    Outcome,
    Recompile,
    Symbol,
)
from fuselight_server.base.finding import Finding, Severity
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.advice.expectations import NOT_TRIED
from tests.support.recompilations import again, failed
from tests.support.reports import at, report


def findings_of(
    text: str, *calls: tuple[GuardFailure, ...], name: str = "Net.forward", dynamic: tuple[str, ...] = ()
) -> tuple[Finding, ...]:
    """The findings of the function in `text`, compiled again for each of the calls: torch keeps `dynamic` symbolic."""
    lines = dict(enumerate(textwrap.dedent(text).strip("\n").splitlines(), 1))
    recompiles: list[Recompile] = [
        again(*failures, function=name, location=at(1), compile_id=f"0/{number}")
        for number, failures in enumerate(calls, 1)
    ]
    given = report(
        frames=(Frame(name, at(1), parameters=("self", "x")),),
        compiles=tuple(
            Compile(
                f"0/{number}",
                0,
                Outcome.COMPILED,
                symbols=tuple(Symbol(f"s{at}", name) for at, name in enumerate(dynamic if number else ())),
            )
            for number in range(len(calls) + 1)
        ),
        recompiles=tuple(recompiles),
    )
    return findings(given, read_line=lambda _path, number: lines.get(number))


def size(name: str, was: int, now: int, line: int) -> GuardFailure:
    return failed(f"{name}.size(1) was {was}, now {now}", source=name, born=(at(line),))


def number(name: str, was: int, now: int, line: int) -> GuardFailure:
    return failed(
        f"{name} was {was}, now {now}",
        kind="EQUALS_MATCH",
        source=name,
        cause=GuardCause.NUMBER,
        was=str(was),
        now=str(now),
        born=(at(line),),
    )


def relation(text: str, value: str, line: int) -> GuardFailure:
    words = f"{text} no longer holds: {value}"
    return failed(words, source="", cause=GuardCause.RELATION, was=None, now=None, born=(at(line),))


COUNTED = """
def forward(self, x):
    self.seen += 1
    if self.seen < 5:
        x = x * 2
    if self.seen % 3 == 0:
        x = x + 1
    return x
"""


def test_a_counter_that_several_lines_read_is_one_finding_with_the_lines() -> None:
    (finding,) = findings_of(
        COUNTED,
        (number("self.seen", 0, 1, 2),),
        (relation("self.seen <= 3", "self.seen is 4", 3),),
        (relation("((1 + self.seen) % 3) != 0", "self.seen is 5", 5),),
    )
    assert finding.count == 3
    assert "the outcome of `self.seen < 5` changed: self.seen is 4 (read on line 3)" in finding.message
    assert "the outcome of `self.seen % 3 == 0` changed: self.seen is 5 (read on line 5)" in finding.message
    assert not any("xpect" in hint for hint in finding.hints)


def test_relations_of_two_values_that_no_code_assigns_stay_two_findings() -> None:
    shown = findings_of(
        COUNTED.replace("self.seen += 1", "pass"),
        (relation("self.seen <= 3", "self.seen is 4", 3),),
        (relation("((1 + self.seen) % 3) != 0", "self.seen is 5", 5),),
    )
    assert len(shown) == 2


CACHED = """
def forward(self, x):
    past = self.past
    if past is not None:
        x = torch.cat([past, x], dim=1)
    self.past = x
    return x.sum(1)
"""


def test_a_cache_to_which_each_call_adds_is_one_finding_with_a_buffer_as_its_step() -> None:
    none = failed(
        "self.past was None, now a float32 tensor of shape [1, 1]",
        source="self.past",
        cause=GuardCause.NONE,
        was="None",
        now="a float32 tensor of shape [1, 1]",
        born=(at(2),),
    )
    (finding,) = findings_of(CACHED, (none,), (size("self.past", 1, 2, 2),), (size("self.past", 2, 3, 3),))
    assert finding.severity is Severity.WARNING
    step = finding.hints[0]
    assert step.startswith("Keep `self.past` in a buffer of a fixed size")
    assert "line 4 makes it longer in each call" in step
    assert step.endswith(NOT_TRIED)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (CACHED, ((3, 5), (5, 4))),  # it does not grow
        (CACHED.replace("torch.cat([past, x], dim=1)", "past * x"), ((3, 5), (5, 6))),
        (CACHED.replace("self.past = x", "out = x"), ((3, 5), (5, 6))),  # a caller assigns it
    ],
)
def test_a_tensor_that_is_not_seen_to_grow_gets_no_buffer(
    text: str, sizes: tuple[tuple[int, int], ...]
) -> None:
    shown = findings_of(text, *((size("self.past", *change, 2),) for change in sizes))
    assert not any("of a fixed size, for the longest" in hint for finding in shown for hint in finding.hints)


TABLE = """
def forward(self, x):
    n = x.shape[1]
    if n > self.length:
        self.angles = torch.arange(n).cos()
        self.length = n
    return x * self.angles[:n]
"""


def test_a_table_that_is_made_again_for_each_greater_size_is_one_finding_with_one_step() -> None:
    bound = relation("x.size(1) <= self.angles.size(0)", "24, 16", 2)
    shown = findings_of(
        TABLE,
        (size("x", 8, 16, 2), number("self.length", 0, 8, 3)),
        (number("self.length", 8, 16, 3),),
        (relation("2 <= x.size(1) <= 16", "x.size(1) is 24", 2), bound),
        (number("self.length", 16, 24, 3),),
    )
    (finding,) = shown
    (outside, step, *rest) = finding.hints
    assert outside.startswith("Run the `if` on line 3, which sets `self.angles` and `self.length`, outside")
    assert step.startswith("Create `self.angles` once, in __init__, for the greatest size that calls need")
    assert "the test on line 3" in step
    assert not any(hint.startswith(("Expect", "For")) for hint in rest)


def test_a_table_that_becomes_smaller_has_no_greatest_size() -> None:
    shown = findings_of(TABLE, (number("self.length", 8, 16, 3),), (number("self.length", 16, 4, 3),))
    assert not any("the greatest size" in hint for finding in shown for hint in finding.hints)


def test_an_entry_that_callers_give_is_not_said_to_be_changed_by_the_code() -> None:
    text = """
    def forward(state, x):
        x = x * state["gain"] - state["shift"]
        state["sum"] = x
        return x
    """
    gains = tuple((number("state['gain']", was, was + 1, 2),) for was in (1, 2))
    shifts = tuple((number("state['shift']", was, was + 1, 2),) for was in (1, 2))
    hints = [hint for finding in findings_of(text, *gains, *shifts) for hint in finding.hints]
    assert not any("outside the compiled code" in hint for hint in hints)


OF_ARGUMENT = """
def forward(self, x, options):
    x = x * options.gain
    x = x + options.shift
    return x.clamp(max=options.top)
"""


def of_argument(
    *names: str, parameters: tuple[str, ...], trials: tuple[CureTrial, ...] = ()
) -> tuple[Finding, ...]:
    recompiles = tuple(
        again(number(name, 1, 3, line), function="f", location=at(1), compile_id=f"0/{line}")
        for line, name in enumerate(names, 2)
    )
    given = report(
        frames=(Frame("f", at(1), parameters=parameters),),
        compiles=tuple(Compile(f"0/{index}", 0, Outcome.COMPILED) for index in range(5)),
        recompiles=recompiles,
        trials=trials,
    )
    lines = dict(enumerate(OF_ARGUMENT.strip().splitlines(), 1))
    return findings(given, read_line=lambda _path, line: lines.get(line))


def test_values_of_one_argument_are_one_finding_with_advice_for_each() -> None:
    names = ("options.gain", "options.shift", "options.top")
    (finding,) = of_argument(*names, parameters=("self", "x", "options"))
    assert "options.shift was 1, now 3 (read on line 3)" in finding.message
    assert finding.count == 3
    values = "`options.gain`, `options.shift` and `options.top`"
    expected = f"Expect one compile for each combination of {values} that occurs"
    assert [remedy.text for remedy in finding.remedies if remedy.text.startswith("Expect")] == [expected]
    changed = {subject for cure in finding.cures for part in cure.changes for subject in part.subjects}
    assert changed == set(names)
    assert len(of_argument(*names, parameters=("self", "x"))) == 3, "globals are no argument"
    assert len(of_argument("self.a", "self.b", parameters=("self", "x"))) == 2


WRITTEN = """
def forward(self, x):
    self.rows[self.used : self.used + 1] = x
    self.used += 1
    return self.rows.sum(0)
"""


def test_a_position_that_code_counts_on_and_slices_with_becomes_a_tensor() -> None:
    changes = tuple((number("self.used", count, count + 1, 2),) for count in range(3))
    (finding,) = findings_of(WRITTEN, *changes)
    assert finding.hints[0].startswith("Keep `self.used` as a tensor, and write on line 2 with index_copy_()")
    assert finding.hints[0].endswith(NOT_TRIED)
    read = WRITTEN.replace("self.rows[self.used : self.used + 1] = x", "x = x * self.used")
    assert not any("index_copy_" in hint for item in findings_of(read, *changes) for hint in item.hints)
    (free,) = findings_of(WRITTEN, changes[0], dynamic=("self.used",))
    assert "Expect one extra compile: torch keeps `self.used` dynamic from the second value on" in free.hints
    assert not any("index_copy_" in hint for hint in free.hints)


def test_a_tensor_of_another_rank_is_one_finding_whichever_line_reads_it_first() -> None:
    def rank(was: int, now: int, line: int) -> GuardFailure:
        return failed(f"x.dim() was {was}, now {now}", cause=GuardCause.RANK, born=(at(line),))

    (finding,) = findings_of(COUNTED, (rank(2, 1, 4),), (rank(1, 2, 6),))
    assert "x.dim() was 1, now 2 (read on line 6)" in finding.message


def test_what_was_tried_for_a_part_is_left_out_where_all_of_it_leaves_less() -> None:
    names = ("options.gain", "options.shift")
    parameters = ("self", "x", "options")
    (finding,) = of_argument(*names, parameters=parameters)
    gain, shift = (
        next(cure for cure in finding.cures if cure.subjects == (name,) and not cure.also) for name in names
    )
    whole = dataclasses.replace(gain, also=(shift,))
    trials = (
        CureTrial(gain, 3, 2, compiles=2),
        CureTrial(shift, 3, 2, compiles=2),
        CureTrial(whole, 3, 1, compiles=1),
    )
    (shown,) = of_argument(*names, parameters=parameters, trials=trials)
    (remedy,) = shown.remedies
    assert (remedy.cure, remedy.counts) == (whole, "3 → 1 compiles")


STARTED = """
def forward(self, x):
    if self.count is None:
        self.count = first(x)
    self.count += 1
    return x * self.count
"""


def test_state_that_is_made_and_then_counted_has_advice_for_both() -> None:
    created = failed(
        "self.count was None, now 1",
        source="self.count",
        cause=GuardCause.NONE,
        was="None",
        now="1",
        born=(at(2),),
    )
    changes = tuple((number("self.count", count, count + 1, 5),) for count in (1, 2))
    (finding,) = findings_of(STARTED, (created,), *changes)
    assert any("outside the compiled code" in hint for hint in finding.hints)


def test_an_attribute_of_another_object_with_the_same_name_is_not_the_state() -> None:
    text = """
    def forward(ctx, x):
        ctx.gain = x.gain
        return x * layer.gain
    """
    shown = findings_of(
        text,
        (number("layer.gain", 1, 2, 3),),
        (relation("layer.gain <= 2", "layer.gain is 3", 3),),
    )
    assert len(shown) == 2
    assert len(findings_of(text.replace("ctx", "layer"), *((item,) for item in RELATED))) == 1


RELATED = (number("layer.gain", 1, 2, 3), relation("layer.gain <= 2", "layer.gain is 3", 3))


@pytest.mark.parametrize(
    ("use", "advice"),
    [
        (
            "self.rates[self.at]",
            "pass in what `self.at` selects: `self.rates[self.at]`, a number as a tensor",
        ),
        (
            "self.rates[self.at] + self.at",
            "pass in `self.at` as an argument: the code",
        ),
        ("x.sum() * math.sqrt(self.at)", "pass in `self.at` as an argument: the code"),
        ("x.sum() * self.at", "pass in `self.at` as a tensor: the code"),
    ],
)
def test_a_number_that_only_selects_is_replaced_by_what_it_selects(use: str, advice: str) -> None:
    text = f"""
    def forward(self, x):
        x = x * {use}
        self.at += 1
        return x
    """
    (finding,) = findings_of(text, *((number("self.at", count, count + 1, 2),) for count in range(3)))
    assert advice in finding.hints[0]
