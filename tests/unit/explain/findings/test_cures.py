"""Which changes are to be tried for a failed guard."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuselight.shared.report import (
    Break,
    Compile,
    Culprit,
    CureKind,
    CureTrial,
    Failure,
    Frame,
    Guard,
    GuardCause,
    GuardFailure,
    NotCompiled,
    NotCompiledKind,
    Outcome,
    Report,
    SizeChange,
    Symbol,
)
from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.common.compiled_callers import outer_frame
from fuselight_server.explain.findings.common.text import plain
from fuselight_server.fixes.verification.joint_trials import joint_cures
from tests.support.recompilations import DEF, SIZE, WHOLE, again, failed, finding_of, number, untried
from tests.support.reports import at, report


@pytest.mark.parametrize(
    ("failure", "kinds"),
    [
        (number("n"), [CureKind.TENSOR, CureKind.DYNAMIC]),
        (number(), [CureKind.TENSOR, CureKind.SETTING, CureKind.DYNAMIC]),
        (number("self.size"), [CureKind.TENSOR, CureKind.SETTING, CureKind.DYNAMIC]),
        (replace(number(), was="0.5", now="0.7"), [CureKind.TENSOR]),
        (replace(number(), difference="len(self.limit) was 2, now 3"), [CureKind.TENSOR]),
        (SIZE, [CureKind.MARK, CureKind.DYNAMIC]),
        (failed("x.size(0) was 4, now 1"), []),
    ],
)
def test_the_changes_to_try_are_those_of_the_kind_of_guard(
    failure: GuardFailure, kinds: list[CureKind]
) -> None:
    assert [cure.kind for cure in finding_of(failure).cures] == kinds


@pytest.mark.parametrize("size", ["x.size(0) was 4, now 1", "x.size(0) was 1, now 4"])
def test_a_size_of_one_beside_a_number_gets_a_mark_that_may_help_with_a_tensor_for_the_number(
    size: str,
) -> None:
    rate = failed("rate was 0.5, now 0.7", source="rate", cause=GuardCause.NUMBER)
    (finding,) = findings(report(recompiles=(again(failed(size), rate),)))
    cures = {cure.kind: cure for cure in finding.cures}
    assert cures.keys() == {CureKind.UNBACKED, CureKind.TENSOR}
    assert cures[CureKind.UNBACKED].text.endswith("torch._dynamo.decorators.mark_unbacked(x, 0)")
    trials = tuple(CureTrial(cure, 2, 2, "there are still 2 compiles") for cure in finding.cures)
    joint = [{*cures} for cures in joint_cures([finding], trials)]
    assert {*finding.cures} in joint


USES = """\
def forward(self, x, n):
    return {}
"""


@pytest.mark.parametrize(
    ("used", "is_named"),
    [
        ("x * n", True),
        ("torch.where(x < n, x, 0)", True),
        ("x if n > 1 else -x", False),
        ("x[:, n:]", False),
        ("x * torch.normal(0.0, n, x.shape)", False),
        ("huber_loss(x, x, delta=n)", False),
        ("x if x is None or n else -x", False),
        ("x * (not n)", False),
    ],
)
def test_a_tensor_is_not_named_where_the_code_needs_a_number(used: str, *, is_named: bool) -> None:
    """A trial of it is still made, after all others, and shown if it cures."""
    lines = dict(enumerate(USES.format(used).splitlines(), 20))
    given = again(number("n", born=(at(21, (11, 20), function="forward"),)))

    def finding(*trials: CureTrial) -> Finding:
        (item,) = findings(
            report(recompiles=(given,), trials=trials), read_line=lambda _path, line: lines.get(line)
        )
        return item

    assert ("Pass `n` as a tensor" in untried(finding())) is is_named
    (tensor,) = (cure for cure in finding().cures if cure.kind is CureKind.TENSOR)
    assert (finding().cures[-1] == tensor) is not is_named
    assert (
        finding(CureTrial(tensor, 3, 1)).hints[0].startswith("Pass `n` as a tensor (tried: 3 → 1 compiles)")
    )


def test_a_variable_of_a_function_around_it_is_kept_and_not_passed() -> None:
    total = failed("total was 3, now 4", source="total", cause=GuardCause.NUMBER)
    given = report(frames=(Frame("Net.forward", DEF, parameters=("x",)),), recompiles=(again(total),))
    (finding,) = findings(given)
    assert "Keep `total` as a tensor" in untried(finding)
    assert plain("the builtin `<unknown module>.Random.gauss`") == "the builtin `Random.gauss`"


def test_a_size_that_a_line_needs_is_not_marked_before_a_trial() -> None:
    """torch raises an exception for such a mark, and `dynamic=True` does not free the size."""
    fixed = Symbol("s0", "x.size(0)", specialized_to="4", stack=(at(22, (8, 14)),))
    compiled = Compile("0/1", 0, Outcome.COMPILED, symbols=(fixed,))
    (held, free) = (
        next(item for item in findings(given) if item.code == "FL201")
        for given in (
            report(frames=(WHOLE,), compiles=(compiled,), recompiles=(again(SIZE),)),
            report(frames=(WHOLE,), compiles=(replace(compiled, symbols=()),), recompiles=(again(SIZE),)),
        )
    )
    assert untried(held) == ()
    assert [text.partition(":")[0] for text in untried(free)] == [
        "Mark the size as dynamic before the call",
        "Compile with torch.compile(..., dynamic=True)",
    ]


@pytest.mark.parametrize(
    ("name", "was", "when"),
    [
        ("x", "", "before the call"),
        ("cache.k", "", "before each call that has it"),
        ("x", "None", "before each call that has it"),
    ],
)
def test_a_size_is_marked_where_a_call_has_the_tensor(name: str, was: str, when: str) -> None:
    """Done literally in a first call without a cache, the mark raised."""
    size = failed(f"{name}.size(0) was 4, now 7", source=name)
    none = [again(failed(f"{name} was None, now a tensor", source=name, was="None"))] if was else []
    given = report(frames=(WHOLE,), recompiles=(*none, again(size, compile_id="0/2")))
    texts = [cure.text for finding in findings(given) for cure in finding.cures if cure.kind is CureKind.MARK]
    assert [text.partition(":")[0] for text in texts] == [f"Mark the size as dynamic {when}"]


def test_many_sizes_are_marked_at_once_and_named_by_what_holds_them() -> None:
    sizes = [
        replace(
            SIZE, source=name, difference=name, sizes=(SizeChange(name, 2, 8, 9), SizeChange(name, 3, 7, 6))
        )
        for name in (*(f"features[{n}]" for n in range(7)), "mask")
    ]
    finding = finding_of(*sizes)
    (mark,) = (cure for cure in finding.cures if cure.kind is CureKind.MARK)
    assert len(mark.subjects) == 16
    assert mark.text == (
        "Mark dimensions 2 and 3 of 7 tensors in `features` and dimensions 2 and 3 of `mask` as dynamic before the "
        "call, with torch._dynamo.mark_dynamic"
    )


def test_a_setting_for_modules_is_not_named_for_an_integer_that_torch_made_dynamic() -> None:
    dynamic = Compile("0/1", 0, Outcome.COMPILED, symbols=(Symbol("s0", "self.limit"),))
    (finding,) = findings(report(frames=(WHOLE,), compiles=(dynamic,), recompiles=(again(number()),)))
    assert untried(finding) == (
        "Keep `self.limit` as a tensor",
        "Compile with torch.compile(..., dynamic=True)",
    )


@pytest.mark.parametrize("failure", [number("n"), number(), SIZE, failed("x.size(0) was 4, now 1")])
@pytest.mark.parametrize(
    "message", ["Hit the recompile limit with fullgraph=True", "Recompile limit reached"]
)
def test_a_limit_that_ends_the_call_has_the_changes_of_one_that_does_not(
    failure: GuardFailure, message: str
) -> None:
    """What the advice names is what a trial tries, and its result replaces the advice."""
    stopped = again(failure, compile_id=None, location=DEF)
    error = Failure(
        Culprit.USER, "recompile_limit", message, exception="FailOnRecompileLimitHit", stack=(at(40),)
    )
    limit = NotCompiled(NotCompiledKind.RECOMPILE_LIMIT, "Net.forward", DEF, "limit reached (8)")
    error = replace(error, call=stopped.call)
    (ends,) = (
        item for item in findings(report(recompiles=(stopped,), failures=(error,))) if item.code == "FL102"
    )
    (goes_on,) = (
        item
        for item in findings(report(recompiles=(stopped,), not_compiled=(limit,)))
        if item.code == "FL102"
    )
    assert ends.cures == goes_on.cures == finding_of(failure).cures
    trials = tuple(CureTrial(cure, 5, 2) for cure in ends.cures)
    tried = findings(report(recompiles=(stopped,), failures=(error,), trials=trials))
    hints = [hint for item in tried for hint in item.hints]
    assert not any("not tried yet" in hint for hint in hints)
    assert any("(tried: 5 → 2 compiles)" in hint for hint in hints) == bool(trials)


@pytest.mark.parametrize(
    ("operator", "is_asked"),
    [("nonzero", True), ("masked_select", True), ("_local_scalar_dense", False), ("histc", False)],
)
def test_the_setting_for_shapes_is_tried_where_a_backend_needs_the_shape(
    operator: str, *, is_asked: bool
) -> None:
    """The mask of an assignment breaks the graph in the backend, which needs its positions for the gradient."""
    text = f"Backend compiler `aot_eager` failed with aten.{operator}.default. Adding a graph break."
    broke = Break("0/0", ("GB0219",), ("Backend compiler exception",), (at(22),), explanation=text)
    settings = [name for cure in findings(report(breaks=(broke,)))[0].cures for name in cure.settings]
    assert ("capture_dynamic_output_shape_ops" in settings) is is_asked


def test_a_method_of_the_same_name_above_it_is_not_the_caller() -> None:
    """Two classes of a file have a `forward` each: the one whose lines the call is in leads to the compiled code."""
    first, second = (
        Frame(f"{name}.forward", replace(DEF, line=line, function=None))
        for name, line in (("A", 3), ("B", 30))
    )
    for function in ("B.forward", "forward"):
        caller = (replace(DEF, line=35, function=function),)
        assert outer_frame(report(frames=(first, second)), again(number("n"), caller=caller)) == second


OUTER = Frame("step", replace(DEF, line=60), parameters=("x", "n"))


CALLER = (at(70, function="main"), at(62, function="step"))


def inner(failure: GuardFailure) -> Report:
    """A function that `step` calls was compiled again by itself."""
    compiled = Compile("0/0", 0, Outcome.COMPILED)
    return report(
        frames=(OUTER, Frame("helper", DEF)),
        compiles=(compiled,),
        recompiles=(again(failure, location=DEF, function="helper", caller=CALLER),),
    )


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (number("n"), "Pass `n` to `step` as a tensor"),
        (number(), "Keep `self.limit` as a tensor"),
        (SIZE, "Mark the size as dynamic before the call to `step`: torch._dynamo.mark_dynamic(x, 0)"),
    ],
)
def test_what_compiled_code_passes_on_is_changed_in_the_calls_of_the_user(
    failure: GuardFailure, text: str
) -> None:
    (finding,) = findings(inner(failure))
    assert text in untried(finding)
    (changed,) = {(cure.outer_path, cure.outer_line) for cure in finding.cures if cure.subjects}
    assert changed == (OUTER.location.path, OUTER.location.line)


def test_a_size_that_no_call_passes_is_not_marked_inside_compiled_code() -> None:
    renamed = replace(SIZE, source="hidden", sizes=tuple(replace(size, name="hidden") for size in SIZE.sizes))
    (finding,) = findings(inner(renamed))
    assert CureKind.MARK not in {cure.kind for cure in finding.cures}


@pytest.mark.parametrize(
    ("call", "is_marked"),
    [
        ("y = helper(x, n)", True),
        ("y = helper(n=n, x=x)", True),
        ("y = helper(x[keep], n)", False),
        ("y = helper(other, n)", False),
        ("y = x + 1", True),
    ],
)
def test_a_size_is_marked_only_where_the_call_hands_the_tensor_on(call: str, *, is_marked: bool) -> None:
    source = {60: "def step(x, n):", 61: "    keep = x > 0", 62: f"    {call}", 63: "    return y"}
    (finding,) = findings(inner(SIZE), read_line=lambda _path, line: source.get(line))
    assert (CureKind.MARK in {cure.kind for cure in finding.cures}) is is_marked


@pytest.mark.parametrize(
    ("guards", "is_stacked"),
    [
        ({}, True),
        ({"parts[0]": "TENSOR_MATCH"}, True),
        ({"parts[0]": "EQUALS_MATCH", "parts[1]": "TENSOR_MATCH"}, True),
        ({"parts[0]": "EQUALS_MATCH"}, False),
        ({"parts[-1]": "TYPE_MATCH"}, False),
        ({"parts[0].x": "EQUALS_MATCH", "others[0]": "CONSTANT_MATCH"}, True),
    ],
)
def test_only_a_list_that_may_hold_tensors_is_stacked(guards: dict[str, str], *, is_stacked: bool) -> None:
    length = failed("len(parts) was 2, now 3", "LENGTH_CHECK", "parts", cause=GuardCause.LENGTH)
    compiled = Compile(
        "0/1", 0, Outcome.COMPILED, guards=tuple(Guard(kind, source, ()) for source, kind in guards.items())
    )
    (finding,) = findings(report(frames=(WHOLE,), compiles=(compiled,), recompiles=(again(length),)))
    assert (CureKind.STACK in {cure.kind for cure in finding.cures}) is is_stacked


@pytest.mark.parametrize(
    ("source", "was", "now", "is_tried"),
    [
        ("token", "a normal tensor", "an inference tensor", True),
        ("token", "an inference tensor", "a normal tensor", True),
        ("token", "a normal tensor", "a lazily conjugated tensor", False),
        ("self.state", "a normal tensor", "an inference tensor", False),
    ],
)
def test_a_tensor_of_inference_mode_is_created_in_it(
    source: str, was: str, now: str, *, is_tried: bool
) -> None:
    failure = failed(
        f"{source} was {was}, now {now}", source=source, cause=GuardCause.DISPATCH, was=was, now=now
    )
    (finding,) = findings(report(recompiles=(again(failure),)))
    assert [cure.kind for cure in finding.cures] == [CureKind.INFERENCE] * is_tried


def test_what_torch_makes_of_a_numpy_array_is_not_marked() -> None:
    array = replace(SIZE, expression=f"___from_numpy(L['{SIZE.source}'])")
    kinds = [
        {cure.kind for cure in finding.cures}
        for failure in (SIZE, array)
        for finding in findings(report(recompiles=(again(failure),)))
    ]
    assert kinds == [{CureKind.MARK, CureKind.DYNAMIC}, {CureKind.DYNAMIC}]


def test_a_float_under_dynamic_false_may_vary_without_it() -> None:
    given = again(replace(number("scale"), was="0.5", now="0.7"))
    (finding,) = findings(report(recompiles=(given,), static_compiles=(at(63),)))
    assert untried(finding)[1:] == ("Remove dynamic=False from torch.compile (line 63)",)
