"""Sizes that torch took for one: the cause is named, with what keeps them apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuselight.shared.report import (
    Compile,
    CureKind,
    CureTrial,
    Frame,
    GuardCause,
    Location,
    Outcome,
    Report,
    Symbol,
)
from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings import findings
from tests.support.recompilations import DEF, again, failed
from tests.support.reports import at, report

LOOP = at(24, (8, 20), function="forward")
CAUSE = "so torch took them for one size"
SETTING = "Set torch.fx.experimental._config.use_duck_shape = False before the first call"


def size(source: str, name: str = "s0", value: str | None = "6") -> Symbol:
    return Symbol(name, source, specialized_to=value, marked=True, stack=(LOOP,) if value else ())


def run(*symbols: Symbol, difference: str = "", cause: GuardCause = GuardCause.DIMENSION) -> Report:
    """A first compile with these symbols, and a second one for a failed guard, if a difference is given."""
    failure = failed(difference, cause=cause)
    return report(
        frames=(Frame("Net.forward", DEF),),
        compiles=(Compile("0/0", 0, Outcome.COMPILED, symbols=symbols), Compile("0/1", 0, Outcome.COMPILED)),
        recompiles=(again(failure),) if difference else (),
    )


def only(given: Report) -> Finding:
    (finding,) = findings(given)
    return finding


@pytest.mark.parametrize(("both", "first"), [("x", "rows"), ("keys", "values")])
def test_a_size_that_was_fixed_with_an_equal_one_names_both_and_the_line(both: str, first: str) -> None:
    symbols = size(f"{both}.size(0)"), size(f"{first}.size(1)")
    finding = only(run(*symbols, difference=f"{both}.size(0) was 6, now 7"))
    assert finding.code == "FL201"
    assert f"`{both}.size(0)` and `{first}.size(1)` were both 6, {CAUSE}" in finding.message
    assert [place.span.line for place in finding.related if "fixes it" in place.message] == [LOOP.line]
    assert [cure.kind for cure in finding.cures] == [CureKind.SETTING, CureKind.MARK, CureKind.DYNAMIC]


@pytest.mark.parametrize(
    "symbols",
    [
        (size("x.size(0)"), size("y.size(0)", name="s1")),  # two symbols of one value
        (size("x.size(0)"), size("n")),  # a number is no size
        (size("x.size(0)", value=None), size("y.size(0)", value=None)),  # nothing is fixed
        (size("x.size(0)", name="6"), size("y.size(0)", name="6")),  # they never were symbolic
        (size("y.size(0)"), size("w.size(0)")),  # other sizes
        (),
    ],
)
def test_other_sizes_are_not_said_to_be_one(symbols: tuple[Symbol, ...]) -> None:
    told = [
        item for item in findings(run(*symbols, difference="x.size(0) was 6, now 7")) if item.code == "FL201"
    ]
    assert len(told) == 1
    assert CAUSE not in told[0].message
    assert CureKind.SETTING not in {cure.kind for cure in told[0].cures}


def test_a_guard_that_only_duck_sizing_made_has_the_setting_as_a_cure() -> None:
    words = "y.size(0) == x.size(0) no longer holds: y.size(0) is 4, x.size(0) is 5 (they had the same size when it "
    given = run(difference=f"{words}was compiled, so torch took them for equal)", cause=GuardCause.RELATION)
    (setting,) = (cure for cure in only(given).cures if cure.kind is CureKind.SETTING)
    assert only(given).title == (
        "recompiled: y.size(0) and x.size(0) were equal, now 4 and 5 (torch takes equal sizes for one)"
    )
    cured = only(replace(given, trials=(CureTrial(setting, 3, 2),)))
    assert cured.hints == (f"{SETTING}: equal sizes then stay two sizes (tried: 3 → 2 compiles)",)
    refused = only(replace(given, trials=(CureTrial(setting, 3, 3, "there are still 3 compiles"),)))
    assert not any("use_duck_shape" in hint for hint in refused.hints)
    without = run(difference="y.size(0) == 2*x.size(0) no longer holds", cause=GuardCause.RELATION)
    assert CureKind.SETTING not in {cure.kind for cure in only(without).cures}


def test_sizes_that_are_fixed_together_in_the_only_compile_are_one_finding() -> None:
    finding = only(run(size("x.size(0)"), size("y.size(1)")))
    assert (finding.code, finding.span.line) == ("FL301", LOOP.line)
    assert f"`x.size(0)` and `y.size(1)` were both 6, {CAUSE}" in finding.message
    assert "The same line fixes" not in finding.message
    (hint,) = finding.hints
    assert hint.startswith("If these sizes are not always equal, make the first call with sizes that differ")
    assert hint.endswith("Another first call cannot be tried here")
    assert finding.cures == ()


LINEAR = at(90, path="/env/lib/torch/nn/modules/linear.py", function="forward")
CONV = at(90, path="/env/lib/torch/nn/modules/conv.py", function="forward")


@pytest.mark.parametrize(
    ("names", "layer", "told"),
    [
        (("x.size(1)", "y.size(1)"), LINEAR, []),  # the features of two inputs
        (("x.size(0)", "x.size(1)"), LINEAR, ["x.size(0)"]),  # as many rows as features
        (("x.size(1)", "y.size(1)"), CONV, []),  # channels
        (("x.size(0)", "y.size(0)"), CONV, ["x.size(0)"]),
    ],
)
def test_a_weight_fixes_the_features_alone(names: tuple[str, str], layer: Location, told: list[str]) -> None:
    inside = [replace(size(name), stack=(LOOP, layer)) for name in names]
    free = [size(f"{name}.size({n})", name=f"t{n}{name}", value=None) for name in "xy" for n in (0, 1)]
    others = [item for item in free if item.source not in names]
    if layer is CONV:
        others.append(size("x.size(3)", name="w", value=None))
        others.append(size("y.size(3)", name="w", value=None))
    assert [item.subject for item in findings(run(*inside, *others))] == told
