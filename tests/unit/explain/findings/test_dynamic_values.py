"""What is said of values that torch made symbolic: the symbols and the guards of the last version, and no more."""

from __future__ import annotations

import pytest

from fuselight.shared.report import Compile, Graph, Guard, GuardCause, Outcome, Symbol
from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings import findings
from tests.support.recompilations import WHOLE, again, failed
from tests.support.reports import at, report


def finding_of(*guards: str, symbols: tuple[Symbol, ...], first: tuple[Symbol, ...] = ()) -> Finding:
    """The finding of a size that varied, by the guards and the symbols of the version that followed."""
    size = failed("x.size(0) was 4, now 8", source="x")
    compiles = (
        Compile("0/0", 0, Outcome.COMPILED, symbols=first),
        Compile("0/1", 0, Outcome.COMPILED, symbols=symbols, guards=(Guard("SHAPE_ENV", "", guards),)),
    )
    (finding,) = (
        item
        for item in findings(report(frames=(WHOLE,), compiles=compiles, recompiles=(again(size),)))
        if item.code == "FL201"
    )
    return finding


FREE = Symbol("s0", "x.size(0)", range="[2, 64]")


@pytest.mark.parametrize(
    ("guards", "text"),
    [
        ((), "torch then made `x.size(0)` dynamic."),
        (("2 <= L['x'].size()[0]",), "torch then made `x.size(0)` dynamic."),
        (("2 <= L['y'].size()[0] and L['y'].size()[0] <= 9",), "torch then made `x.size(0)` dynamic."),
        (
            ("(L['x'].size()[0] % 4) == 0", "2 <= L['x'].size()[0] and L['x'].size()[0] <= 64"),
            "dynamic, in a version for calls with `(x.size(0) % 4) == 0` and `2 <= x.size(0) <= 64`.",
        ),
        (
            (
                "math.trunc(0.5*torch.sym_float(L['x'].size()[0])) != 1",
                "(1 + (((-1) + L['x'].size()[0]) // 2)) != 1",
                "L['___stack0'] < L['x'].size()[0]",
            ),
            "torch then made `x.size(0)` dynamic.",
        ),
    ],
)
def test_the_guards_on_a_symbolic_size_are_named(guards: tuple[str, ...], text: str) -> None:
    message = finding_of(*guards, symbols=(FREE,)).message
    assert text in message
    assert "no further compile" not in message


def test_a_size_that_another_version_fixes_is_not_said_to_be_fixed_and_symbolic() -> None:
    fixed = Symbol("s0", "x.size(0)", specialized_to="4", marked=True, stack=(at(30),))
    free = finding_of(symbols=(FREE,), first=(fixed,))
    assert "torch then made `x.size(0)` dynamic" in free.message
    assert not any("fixes it" in item.message for item in free.related)
    held = finding_of(symbols=(fixed,))
    assert "dynamic" not in held.message
    assert any("fixes it" in item.message for item in held.related)


def test_a_float_gets_no_promise() -> None:
    rate = failed("rate was 0.5, now 0.25", kind="EQUALS_MATCH", source="rate", cause=GuardCause.NUMBER)
    guards = (Guard("TYPE_MATCH", "rate", ()), Guard("SHAPE_ENV", "", ("not math.isnan(L['rate'])",)))
    compiled = Compile(
        *("0/1", 0, Outcome.COMPILED),
        guards=guards,
        guard_count=2,
        symbols=(Symbol("zf0", "rate", range="[-inf, inf]"),),
    )
    (finding,) = findings(report(frames=(WHOLE,), compiles=(compiled,), recompiles=(again(rate),)))
    assert "torch then made `rate` dynamic.\n" in f"{finding.message}\n"


@pytest.mark.parametrize(
    ("guard", "is_fixed"),
    [
        ("(0.5*L['decay']) == 0.125", True),
        ("1.0 + L['decay'] == 1.25", True),
        ("(0.5*L['other'].decay) == 0.125", False),
        ("L['decay'] <= 0.5", False),
    ],
)
def test_a_float_that_a_result_fixes_is_not_said_to_stay_symbolic(guard: str, *, is_fixed: bool) -> None:
    decay = failed("decay was 0.5, now 0.25", kind="EQUALS_MATCH", source="decay", cause=GuardCause.NUMBER)
    compiled = Compile(
        *("0/1", 0, Outcome.COMPILED),
        guards=(Guard("TYPE_MATCH", "decay", ()), Guard("SHAPE_ENV", "", (guard,))),
        guard_count=2,
        graph=Graph(1, inputs=("decay: f64[]",)),
        symbols=(Symbol("zf0", "decay"),),
    )
    (finding,) = findings(report(frames=(WHOLE,), compiles=(compiled,), recompiles=(again(decay),)))
    assert any("one extra compile" in hint for hint in finding.hints) is not is_fixed
    assert ("torch then made" in finding.message) is not is_fixed


@pytest.mark.parametrize("names", [("n", "x"), ("steps", "rows")])
def test_values_of_one_call_that_become_symbolic_are_one_extra_compile(names: tuple[str, str]) -> None:
    number, tensor = names
    count = failed(f"{number} was 3, now 4", kind="EQUALS_MATCH", source=number, cause=GuardCause.NUMBER)
    size = failed(f"{tensor}.size(0) was 8, now 9", source=tensor)
    symbols = Symbol("s0", number), Symbol("s1", f"{tensor}.size(0)")
    compiled = Compile("0/1", 0, Outcome.COMPILED, symbols=symbols)
    (finding,) = findings(report(frames=(WHOLE,), compiles=(compiled,), recompiles=(again(count, size),)))
    assert [hint for hint in finding.hints if "extra compile" in hint] == [
        f"Expect one extra compile: torch keeps `{number}` and `{tensor}.size(0)` dynamic from their second values on"
    ]


@pytest.mark.parametrize("others", [(), ("kind",)])
def test_a_value_that_differs_again_after_it_was_made_symbolic_is_not_said_to_need_one_compile(
    others: tuple[str, ...],
) -> None:
    """Each version for another kind had the value as a constant."""
    gain = failed("gain was 0.5, now 0.25", kind="EQUALS_MATCH", source="gain", cause=GuardCause.NUMBER)
    more = (failed(f"{name} was 1, now 2", source=name, cause=GuardCause.VALUE) for name in others)
    graph, symbols = Graph(1, inputs=("gain: f64[]",)), (Symbol("zf0", "gain"),)
    compiles = tuple(Compile(f"0/{n}", 0, Outcome.COMPILED, graph=graph, symbols=symbols) for n in (2, 3))
    recompiles = (again(gain, compile_id="0/2"), again(gain, *more, compile_id="0/3"))
    shown = findings(report(frames=(WHOLE,), compiles=compiles, recompiles=recompiles))
    hints = {hint.partition(", `kind`")[0] for finding in shown for hint in finding.hints}
    assert "Expect what this run had: 3 compiles, `gain` differed in 2 of them" in hints
    assert not any("one extra compile" in hint or "for each value of `gain`" in hint for hint in hints)
