"""Functions of NumPy and `math` that make a constant of an int: the advice names them in place of a condition."""

from __future__ import annotations

import pytest

from fuselight.shared.report import Compile, GuardCause, Outcome, Recompile, Symbol
from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings import findings
from tests.support.recompilations import DEF, WHOLE, again, failed
from tests.support.reports import at, report

KEEPS = "torch keeps an int argument dynamic from its second value on"
PLAIN = f"Or pass `EPOCH` as an argument: {KEEPS}"
INSTEAD = f"Or pass `EPOCH` as an argument, and write `math.{{0}}` for `{{1}}.{{0}}` on line 22: {KEEPS}"
WRITE = "Write `math.cos` for `np.cos` on line 22: torch then calculates with the dynamic number"


def findings_of(line: str, *recompiles: Recompile, symbols: tuple[Symbol, ...] = ()) -> tuple[Finding, ...]:
    lines = {DEF.line: "def forward(self, x, n):", 22: f"    {line}", 23: "    return x * w"}
    given = report(
        frames=(WHOLE,),
        compiles=(
            Compile("0/0", 0, Outcome.COMPILED),
            *(Compile(item.compile_id or "", 0, Outcome.COMPILED, symbols=symbols) for item in recompiles),
        ),
        recompiles=recompiles,
    )
    return findings(given, read_line=lambda _path, number: lines.get(number, "") if number < 30 else None)


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("w = 1 + np.sin(EPOCH / 9)", INSTEAD.format("sin", "np")),
        ("w = numpy.sqrt(EPOCH)", INSTEAD.format("sqrt", "numpy")),
        ("w = math.tanh(EPOCH / 9)", PLAIN),
        ("w = x[: math.ceil(EPOCH / 2)]", PLAIN),
        ("w = 0.9**EPOCH", PLAIN),
        ("w = math.exp(EPOCH)", ""),
        ("w = np.log(EPOCH)", ""),
    ],
)  # fmt: skip
def test_a_global_int_is_passed_in_only_with_a_function_that_leaves_it_dynamic(line: str, step: str) -> None:
    epoch = failed(
        "EPOCH was 5, now 4",
        "EQUALS_MATCH",
        "EPOCH",
        born=(at(22),),
        cause=GuardCause.NUMBER,
        expression="G['EPOCH']",
    )
    (finding,) = findings_of(line, again(epoch))
    texts = [remedy.text for remedy in finding.remedies]
    assert [text for text in texts if "as an argument" in text] == [step] * bool(step)


def of_result(was: float, now: float, name: str) -> Recompile:
    """The guard on what code calculates of the dynamic `n`."""
    text = f"float(n) / 9.0 was {was}, now {now}"
    return again(
        failed(text, "LAMBDA_GUARD", source="", cause=GuardCause.RELATION, born=(at(22),)), compile_id=name
    )


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("w = np.cos(n / 9)", WRITE),
        ("w = np.exp(n / 9)", ""),
        ("w = np.cos(n / 9) * np.sqrt(n)", ""),
    ],
)  # fmt: skip
def test_a_result_of_a_dynamic_int_names_the_function_that_fixes_it(line: str, step: str) -> None:
    first = again(
        failed("n was 2, now 3", "EQUALS_MATCH", "n", born=(at(22),), code="L['n'] == 2"), compile_id="0/1"
    )
    results = (of_result(0.25, 0.5, "0/2"), of_result(0.5, 0.75, "0/3"))
    shown = findings_of(line, first, *results, symbols=(Symbol("s0", "n"),))
    (of_number,) = (item for item in shown if item.subject.startswith("number"))
    assert not any("one extra compile" in hint for hint in of_number.hints), "each result compiles"
    (finding,) = (item for item in shown if item is not of_number)
    assert [hint for hint in finding.hints if hint.startswith("Write")] == [
        f"{step}. This change of the code cannot be tried here"
    ] * bool(step)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("w = x[: len(mode)]", "as an int, which torch keeps dynamic from its second value on:"),
        ("w = math.exp(len(mode))", "as an int, for each value of which `math.exp` still compiles:"),
        ("w = math.sqrt(len(mode) + 1)", "as an int, which torch keeps dynamic from its second value on:"),
    ],
)
def test_a_number_that_is_made_outside_says_what_still_fixes_it(line: str, kind: str) -> None:
    mode = failed(
        "mode was 'ab', now 'abc'",
        "EQUALS_MATCH",
        "mode",
        was="'ab'",
        now="'abc'",
        born=(at(22),),
        cause=GuardCause.VALUE,
    )
    (finding,) = findings_of(line, again(mode))
    assert kind in finding.hints[0]
