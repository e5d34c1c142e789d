"""Eager frames, specializations, guards, failures and notes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fuselight.shared.report import (
    Call,
    Compile,
    Culprit,
    Failure,
    Frame,
    Graph,
    GuardCause,
    GuardPlace,
    Inputs,
    Location,
    NotCompiled,
    NotCompiledKind,
    Note,
    Outcome,
    Recompile,
    Rung,
    Symbol,
)
from fuselight.worker.child.run_failures import timeout_failure
from fuselight_server.base.finding import Severity
from fuselight_server.base.option_names import with_options
from fuselight_server.explain.findings import Thresholds, findings
from fuselight_server.explain.findings.common.counts import Counts, counts
from tests.support.recompilations import SIZE, again, failed, untried
from tests.support.reports import FILE, LIBRARY, at, broken, report


@pytest.mark.parametrize(
    ("kind", "code", "severity"),
    [
        (NotCompiledKind.SKIPPED, "FL101", Severity.WARNING),
        (NotCompiledKind.RECOMPILE_LIMIT, "FL102", Severity.WARNING),
        (NotCompiledKind.ACCUMULATED_LIMIT, "FL102", Severity.WARNING),
        (NotCompiledKind.GENERATOR, "FL103", Severity.WARNING),
        (NotCompiledKind.DISABLED, "FL104", Severity.INFORMATION),
        (NotCompiledKind.COMPILER_ERROR, "FL105", Severity.ERROR),
        (NotCompiledKind.NO_TENSORS, "FL106", Severity.HINT),
    ],
)
def test_an_eager_frame_is_reported_on_its_def_line(
    kind: NotCompiledKind, code: str, severity: Severity
) -> None:
    left = NotCompiled(kind=kind, function="Net.forward", location=at(20), reason="because", gb_id="GB0003")
    (finding,) = findings(report(not_compiled=(left, left)))
    assert (finding.code, finding.severity, finding.span.line, finding.count) == (code, severity, 20, 2)
    assert "Net.forward" in finding.title
    assert finding.gb_ids == ("GB0003",)
    assert finding.hints


def test_a_resumption_that_was_skipped_is_called_the_rest_of_its_function() -> None:
    left = NotCompiled(
        kind=NotCompiledKind.SKIPPED,
        function="f",
        location=at(20),
        reason="loop",
        stack=(at(24, function="f"),),
    )
    compiled = Compile("0/0", 0, Outcome.COMPILED, graph=Graph(operators=2))
    (finding,) = findings(report(frames=(Frame("f", at(20)),), compiles=(compiled,), not_compiled=(left,)))
    assert finding.title == "the rest of `f` is not compiled: torch skipped it"
    assert finding.cost == ("the part with line 24 runs in eager mode",)


@pytest.mark.parametrize(
    ("caller", "cost"),
    [
        ((), "all of it runs in eager mode"),
        ((at(22, function="g"),), "all of it runs in eager mode"),
        (
            (at(22, function="f"),),
            "its own lines run in eager mode; of what it calls, only `inner` is compiled",
        ),
    ],
)
def test_a_disabled_function_may_call_compiled_ones(caller: tuple[Location, ...], cost: str) -> None:
    left = NotCompiled(kind=NotCompiledKind.DISABLED, function="f", location=at(20), reason="disabled")
    compiled = Compile("0/0", 0, Outcome.COMPILED, graph=Graph(operators=2), caller=caller)
    (finding,) = findings(
        report(frames=(Frame("inner", at(30)),), compiles=(compiled,), not_compiled=(left,))
    )
    assert finding.cost == (cost,)


def test_a_frame_without_tensors_called_by_eager_code_is_not_reported() -> None:
    left = NotCompiled(
        kind=NotCompiledKind.NO_TENSORS,
        function="CM.__enter__",
        location=at(3),
        reason="",
        caller=(at(24, function="forward"),),
    )
    assert findings(report(frames=(Frame("Net.forward", at(20)),), not_compiled=(left,))) == ()


def test_a_frame_whose_other_call_gave_a_graph_has_something_to_compile() -> None:
    left = NotCompiled(kind=NotCompiledKind.NO_TENSORS, function="f", location=at(20), reason="")
    compiled = Compile("0/0", 0, Outcome.COMPILED, graph=Graph(operators=2))
    frames = (Frame("f", at(20)),)
    assert findings(report(frames=frames, compiles=(compiled,), not_compiled=(left,))) == ()


@pytest.mark.parametrize("kind", [NotCompiledKind.GENERATOR, NotCompiledKind.SKIPPED])
@pytest.mark.parametrize(("path", "is_reported"), [(LIBRARY, False), (FILE, True)])
def test_breaks_inside_a_library_after_a_break_are_not_reported(
    kind: NotCompiledKind, path: str, *, is_reported: bool
) -> None:
    left = NotCompiled(
        kind=kind,
        function="tokens",
        location=at(3, path=path),
        reason="because",
        caller=(at(24, function="forward"), at(9, path=LIBRARY, function="save")),
    )
    actual_findings = findings(report(frames=(Frame("Net.forward", at(20)),), not_compiled=(left,)))
    assert bool(actual_findings) is is_reported


def test_a_frame_that_the_code_asks_to_skip_is_no_warning() -> None:
    left = NotCompiled(kind=NotCompiledKind.SKIPPED, function="f", location=at(20), reason="", gb_id="GB4297")
    (finding,) = findings(report(not_compiled=(left,)))
    assert finding.severity is Severity.INFORMATION


def test_a_break_in_a_higher_order_operator_is_not_blamed_on_fullgraph() -> None:
    failure = Failure(
        Culprit.USER,
        "fullgraph",
        "Failed to trace builtin operator (torch.cond)",
        "Change this line, or move it out of that function.",
        exception="UncapturedHigherOrderOpError",
        stack=(at(24, (4, 9)),),
        gb_id="GB0059",
        explanation="Dynamo does not know how to trace builtin operator `print`",
        hints=("Avoid calling builtin `print`.",),
    )
    (finding,) = findings(report(failures=(failure,)))
    assert (finding.code, finding.span.line) == ("FL404", 24)
    assert "`print` cannot be traced" in finding.title
    assert "fullgraph" not in finding.title + finding.message
    assert "does not know how to trace builtin operator `print`" in finding.message
    assert not any("Avoid calling" in hint for hint in finding.hints)


def test_an_eager_library_frame_shows_the_users_call() -> None:
    left = NotCompiled(
        kind=NotCompiledKind.SKIPPED,
        function="lib",
        location=at(3, path=LIBRARY),
        reason="",
        caller=(at(24),),
    )
    (finding,) = findings(report(not_compiled=(left,)))
    assert (finding.span.path, finding.span.line) == (FILE, 24)
    assert finding.related[0].span.path == LIBRARY


def symbol(source: str, **changes: object) -> Compile:
    values: dict[str, object] = {
        "name": "s0",
        "source": source,
        "specialized_to": "4",
        "stack": (at(23, (4, 9)),),
    }
    return Compile("0/0", 0, Outcome.COMPILED, symbols=(Symbol(**{**values, **changes}),))  # type: ignore[arg-type] # a test's own keywords


def test_a_fixed_dimension_is_distinguished_from_a_fixed_number() -> None:
    (size,) = findings(report(compiles=(symbol("x.size(0)", marked=True),)))
    (number,) = findings(report(compiles=(symbol("n"),)))
    assert (size.code, size.title) == (
        "FL301",
        "`x.size(0)` is fixed to 4 although it was marked dynamic",
    )
    assert (number.code, number.title) == ("FL302", "`n` is fixed to 4")
    assert (size.span.line, size.span.column) == (23, 4)


NEEDED = "this line needs the number itself, or that it equals one that is fixed"


@pytest.mark.parametrize(
    ("source", "stack", "hint"),
    [
        ("steps", (at(23),), f"Expect one compile for each value of `steps`: {NEEDED}"),
        ("self.rate", (at(23),), f"Expect one compile for each value of `self.rate`: {NEEDED}"),
        ("steps", (), "Expect one compile for each value of `steps`"),
    ],
)
def test_a_fixed_number_has_no_advice_that_was_not_tried(
    source: str, stack: tuple[Location, ...], hint: str
) -> None:
    """Whether a tensor could replace the number depends on the code; that no line names it, too."""
    (finding,) = findings(report(compiles=(symbol(source, stack=stack),)))
    assert (finding.code, finding.hints) == ("FL302", (hint,))


@pytest.mark.parametrize("count", [1, 5, 24])
def test_sizes_of_one_that_torch_fixes_in_one_function_are_one_note(count: int) -> None:
    symbols = tuple(Symbol(f"s{n}", f"mask.size({n})", specialized_to="1", marked=True) for n in range(count))
    (finding,) = findings(report(compiles=(Compile("0/0", 0, Outcome.COMPILED, symbols=symbols),)))
    assert (finding.code, finding.severity) == ("FL301", Severity.INFORMATION)
    assert ("torch fixes `mask.size(1)` to 1" in finding.message) is (count > 1)
    other = Symbol("s99", "other.size(0)", specialized_to="1", marked=True)
    of_two = tuple(
        Compile(f"{n}/0", n, Outcome.COMPILED, symbols=of_one) for n, of_one in enumerate((symbols, (other,)))
    )
    frames = tuple(Frame(name, at(line)) for name, line in (("f", 3), ("g", 9)))
    assert len(findings(report(frames=frames, compiles=of_two))) == 2


@pytest.mark.parametrize(
    ("text", "is_static"), [("torch._dynamo.mark_static(x, -3)", True), ("if n == 2:", False)]
)
def test_a_size_that_a_library_marks_static_needs_no_change(text: str, *, is_static: bool) -> None:
    inside = at(90, path=LIBRARY, function="attend")
    (finding,) = findings(
        report(compiles=(symbol("x.size(1)", marked=True, stack=(at(23), inside)),)),
        read_line=lambda path, _line: text if path == LIBRARY else "y = attend(x)",
    )
    assert (finding.severity is Severity.INFORMATION) is is_static
    words = "Expect one compile for each value of `x.size(1)`: `attend` marks it static"
    assert (finding.hints[0] == words) is is_static


def test_what_has_to_hold_between_numbers_is_a_relation_of_values() -> None:
    relation = failed(
        "n > limit no longer holds: n is 4, limit is 9",
        source="",
        cause=GuardCause.RELATION,
        code="n > limit",
    )
    (finding,) = findings(report(recompiles=(again(relation),)))
    (hint,) = (hint for hint in finding.hints if hint.startswith("Expect"))
    assert hint.startswith("Expect one compile for the calls for which `n > limit` holds")
    assert hint.endswith("also where these values are dynamic")
    assert "size" not in hint


def test_a_symbol_that_stayed_symbolic_has_no_finding() -> None:
    assert findings(report(compiles=(symbol("x.size(0)", specialized_to=None),))) == ()


def test_a_size_that_a_later_version_keeps_symbolic_is_of_the_recompilation() -> None:
    """The first version of a part after a break may meet a constant that later is symbolic too."""
    fixed, free = symbol("out.size(0)"), symbol("out.size(0)", specialized_to=None)
    assert findings(report(compiles=(fixed, dataclasses.replace(free, id="0/1")))) == ()
    assert findings(report(compiles=(symbol("x.stride(0)"), symbol("i.item()")))) == ()
    of_other_code = dataclasses.replace(free, id="1/0", frame=1)
    assert len(findings(report(compiles=(fixed, of_other_code)))) == 1


def test_guards_above_a_threshold_name_their_lines() -> None:
    places = (GuardPlace((at(33), at(9, path=LIBRARY)), 700), GuardPlace((at(34),), 500))
    compiled = Compile("0/0", 0, Outcome.COMPILED, guard_count=1200, guard_us=80.0, guard_places=places)
    given = report(frames=(Frame("Net.forward", at(20)),), compiles=(compiled,))
    (finding,) = findings(given, thresholds=Thresholds(guard_count=1200))
    assert (finding.code, finding.span.line) == ("FL203", 20)
    assert finding.title == "`Net.forward` has 1,200 guards to check before each call"
    assert finding.cost == ("all guards are checked at every call",)
    assert [(item.span.line, item.message) for item in finding.related] == [
        (33, "this line created 700 guards"),
        (34, "this line created 500 guards"),
    ]
    assert findings(given, thresholds=Thresholds(guard_count=1201)) == ()
    assert findings(given, thresholds=Thresholds(guard_count=0, guard_us=0)) == ()


def test_a_usual_large_model_has_no_guard_warning() -> None:
    gpt2 = Compile("0/0", 0, Outcome.COMPILED, guard_count=2969, guard_us=121.0)
    given = report(frames=(Frame("GPT2.forward", at(20)),), compiles=(gpt2,))
    assert findings(given) == ()
    assert findings(given, thresholds=Thresholds(guard_us=121.5)) == ()
    assert [finding.code for finding in findings(given, thresholds=Thresholds(guard_us=121.0))] == ["FL203"]


def test_measured_times_do_not_choose_the_compile_that_is_shown() -> None:
    """Two runs of one text: the counts are equal, the times are not."""

    def shown(*times: float) -> tuple[Any, ...]:
        compiles = tuple(
            Compile(
                f"0/{index}",
                0,
                Outcome.COMPILED,
                guard_count=count,
                guard_us=us,
                guard_places=(GuardPlace((at(30 + index),), count),),
            )
            for index, (count, us) in enumerate(zip((6000, 7000, 7000, 5000), times, strict=True))
        )
        actual_findings = findings(report(frames=(Frame("Net.forward", at(20)),), compiles=compiles))
        return tuple(
            (finding.code, finding.title, finding.message, finding.related, finding.span)
            for finding in actual_findings
        )

    assert shown(9.0, 1.0, 2.0, 3.0) == shown(1.0, 2.0, 9.0, 700.0)
    ((_, title, _, (related,), _),) = shown(1.0, 1.0, 1.0, 1.0)
    assert (title, related.span.line) == ("`Net.forward` has 7,000 guards to check before each call", 31)


@pytest.mark.parametrize(
    ("culprit", "kind", "code"),
    [
        (Culprit.USER, "exception", "FL401"),
        (Culprit.USER, "import", "FL401"),
        (Culprit.COMPILER, "exception", "FL402"),
        (Culprit.COMPILER, "backend", "FL402"),
        (Culprit.FUSELIGHT, "internal", "FL403"),
        (Culprit.USER, "fullgraph", "FL404"),
        (Culprit.USER, "timeout", "FL405"),
        (Culprit.USER, "memory", "FL406"),
        (Culprit.USER, "signal", "FL407"),
        (Culprit.USER, "exit", "FL408"),
        (Culprit.FUSELIGHT, "damaged_answer", "FL409"),
        (Culprit.USER, "inputs", "FL502"),
        (Culprit.ENVIRONMENT, "no_torch", "FL504"),
        (Culprit.ENVIRONMENT, "other", "FL504"),
    ],
)
def test_a_failure_is_reported_with_its_culprit_and_kind(culprit: Culprit, kind: str, code: str) -> None:
    inside = Location(LIBRARY, 9)
    (finding,) = findings(report(failures=(Failure(culprit, kind, "it failed", stack=(at(24), inside)),)))
    assert (finding.code, finding.span.line) == (code, 24)
    assert finding.hints
    assert [item.span.path for item in finding.related] == [LIBRARY]


@pytest.mark.parametrize(
    ("line", "called"),
    [
        ('        self.log("loss", loss)', "self.log"),
        ("    x = log(log(x))", "log"),
        ("    out = [trainer.loggers[0].log(x)]", ".log"),
    ],
)
def test_nobody_puts_a_decorator_into_a_library(line: str, called: str) -> None:
    step = (
        "torch.compile itself failed. Put torch.compiler.disable on the function, and report the traceback."
    )
    inside = (Location(LIBRARY, 9, function="log"), Location(LIBRARY, 31, function="is_in_signature"))
    failure = Failure(Culprit.COMPILER, "internal", "it failed", next_step=step, stack=(at(24), *inside))
    (finding,) = findings(report(failures=(failure,)), read_line=lambda _path, _line: line)
    changed = f"Call `torch.compiler.disable({called})(...)` on this line, which breaks the graph, and report"
    assert (changed in finding.hints[0]) == (not called.startswith("."))
    own = dataclasses.replace(failure, stack=(at(24),))
    (finding,) = findings(report(failures=(own,)), read_line=lambda _path, _line: line)
    assert "Put torch.compiler.disable on the function" in finding.hints[0]


def test_a_failure_without_a_frame_of_the_user_is_on_its_directive_else_on_the_target() -> None:
    (finding,) = findings(report(failures=(Failure(Culprit.USER, "inputs", "bad", directive_line=9),)))
    assert (finding.code, finding.span.line) == ("FL501", 9)
    (finding,) = findings(report(failures=(Failure(Culprit.USER, "signal", "died"),)))
    assert finding.span.line == 10


def test_a_missing_module_is_not_a_broken_interpreter() -> None:
    missing = Failure(
        Culprit.ENVIRONMENT,
        "import",
        "No module named 'einops.layers'",
        exception="ModuleNotFoundError",
        stack=(at(3),),
    )
    (finding,) = findings(report(failures=(missing,)))
    assert (finding.code, finding.span.line) == ("FL401", 3)
    assert finding.hints == ("Install einops in /env/bin/python, or choose another interpreter",)
    torch = dataclasses.replace(missing, kind="no_torch", message="No module named 'torch'")
    assert [finding.code for finding in findings(report(failures=(torch,)))] == ["FL504"]


@pytest.mark.parametrize(
    ("rung", "text", "asked_for"),
    [
        (Rung.DIRECTIVE, "step(f32[4])", True),
        (Rung.DIRECTIVE, "step(f32[4], no_grad=False)", False),
        (Rung.DIRECTIVE, "step(f32[4], train=True)", False),
        (Rung.MAIN, "", False),
    ],
)
def test_a_training_step_called_as_inference_says_how_to_enable_gradients(
    rung: Rung, text: str, *, asked_for: bool
) -> None:
    message = "element 0 of tensors does not require grad and does not have a grad_fn"
    failure = Failure(Culprit.USER, "exception", message, exception="RuntimeError", stack=(at(24),), call=0)
    inputs = Inputs(rung=rung, path=FILE, line=9, calls=(Call(0, text, at(9)),))
    (finding,) = findings(report(failures=(failure,), inputs=inputs))
    assert ("no_grad=False" in finding.hints[0]) is asked_for


def test_the_recompile_limit_as_an_error_has_the_cause_and_the_cure() -> None:
    failure = Failure(
        Culprit.USER, "recompile_limit", "Hard failure due to fullgraph=True", exception="FailOnRecompileLimitHit",
        stack=(at(40, function="train"),), gb_id="GB0039", call=0, next_step="Raise the limit.",
    )  # fmt: skip
    stopped = again(SIZE, compile_id=None)
    (finding,) = findings(report(failures=(failure,), recompiles=(stopped,)))
    assert (finding.code, finding.severity, finding.span.line) == ("FL102", Severity.ERROR, 40)
    assert finding.title == "`Net.forward` reached the recompile limit, which is an error with fullgraph=True"
    assert "The call that exceeded it: x.size(0) was 4, now 7." in finding.message
    assert any("mark_dynamic(x, 0)" in text for text in untried(finding))
    (unknown,) = findings(report(failures=(failure,)))
    assert (unknown.code, unknown.hints) == ("FL102", ("Raise the limit.",))


def test_an_operators_refusal_is_quoted() -> None:
    text = "x\n  Explanation: Dynamo failed: got RuntimeError('must match, but got [4, 7] X [8, 2].')\n"
    failure = Failure(Culprit.USER, "exception", "short", exception="TorchRuntimeError", traceback=text)
    (finding,) = findings(report(failures=(failure,)))
    assert finding.title == "RuntimeError: must match, but got [4, 7] X [8, 2]"


def test_only_notes_that_change_the_reading_are_findings() -> None:
    notes = (
        Note("device_redirected", "cuda became cpu", at(31)),
        Note("fake_tensors", "captured on fake tensors"),
        Note("writes_diverted", "this run on save did not write or change `out.pt`", at(32)),
        Note("ended_early", "this run on save ended at line 33", at(33)),
        Note("cell_left_out", "left out of the run: this cell does not parse: invalid syntax", at(34)),
        Note(
            "kernel_values_unknown",
            "values that the Triton kernel `k` writes are not known: too long",
            at(37),
        ),
        Note("statement_left_out", "left out of the run: this statement trains", at(35)),
        Note(
            "own_module", "`compile()` does not compile this `Sequential`: its class is torch's own", at(36)
        ),
        Note("output_truncated", "long"),
    )
    assert [(finding.code, finding.span.line) for finding in findings(report(notes=notes))] == [
        ("FL602", 10),
        ("FL601", 31),
        ("FL603", 32),
        ("FL604", 33),
        ("FL605", 34),
        ("FL101", 36),
        ("FL606", 37),
    ]


def test_a_phase_is_explained_and_a_title_stays_readable() -> None:
    long = Failure(
        Culprit.USER, "exception", "x" * 1_000_000, exception="ValueError", stack=(at(20),), phase="main"
    )
    (finding,) = findings(report(failures=(long,)))
    assert len(finding.title) < 400
    assert finding.message.startswith("The exception was raised while running the `__main__` block.")


def test_the_time_limit_is_named_as_in_each_interface() -> None:
    late = timeout_failure(9, (), "trace", None)
    (finding,) = findings(report(failures=(late,)))
    assert "raise the setting `fuselight.limits.seconds`" in finding.message
    assert "raise `--time-limit`" in with_options(finding.message)


def test_a_caller_is_named_with_its_class() -> None:
    source = "class Net:\n    def forward(self, x):\n        return self.block(x)\n\ndef run(x):\n    return net(x)\n"
    source += "class Block:\n    # a block\n\n    async def forward(self, x):\n        print(x)\n"
    lines = source.splitlines()

    def read_line(_path: str, line: int) -> str | None:
        return lines[line - 1] if line <= len(lines) else None

    callers = (at(6, function="run"), at(3, function="forward"), at(11, function="forward"))
    (finding,) = findings(report(breaks=(broken(*callers),)), read_line=read_line)
    assert [item.message for item in finding.related] == ["called from `Net.forward`", "called from `run`"]
    (finding,) = findings(report(breaks=(broken(*callers),)))
    assert [item.message for item in finding.related] == ["called from `forward`", "called from `run`"], (
        "without the source"
    )


def test_a_break_in_another_file_that_left_a_function_to_eager_is_named_with_its_file() -> None:
    left = NotCompiled(
        NotCompiledKind.SKIPPED, "f", at(20), "loop", stack=(at(10, path="/project/layers.py"),)
    )
    (finding,) = findings(report(not_compiled=(left,)))
    assert finding.hints[0].startswith("See the graph break at layers.py:10, or move")


def test_a_break_in_a_library_that_left_a_function_to_eager_is_named_by_the_line_that_led_there() -> None:
    library = at(997, path="/lib/python3.11/functools.py", function="__get__")
    left = NotCompiled(NotCompiledKind.SKIPPED, "f", at(20), "a lock", stack=(at(22), library))
    (finding,) = findings(report(not_compiled=(left,)))
    assert finding.hints[0].startswith("See the graph break on line 22, or move")


def test_the_lens_and_the_terminal_count_a_graph_once_and_no_recompilation_that_the_limit_stopped() -> None:
    graph = Graph(operators=1)
    compiles = tuple(Compile(f"0/{n}", 0, Outcome.COMPILED, graph=graph) for n in range(3))
    again = tuple(Recompile("f", at(20), (), name) for name in ("0/1", "0/2", None))
    facts = report(frames=(Frame("f", at(20)),), compiles=compiles, recompiles=again)
    assert str(counts(facts)) == "1 graph, 0 breaks, 2 recompilations"
    assert counts(facts, lambda location: location.line > 20) == Counts(0, 0, 0)


def test_a_mark_that_code_contradicts_is_one_finding_with_the_line_of_the_mark() -> None:
    lines = {9: "    torch._dynamo.mark_dynamic(x, 0)\n", 10: "    torch._dynamo.mark_dynamic(x, 1)\n"}
    symbol = Symbol("s0", "x.size(0)", specialized_to="6", marked=True, stack=(at(22, function="forward"),))
    compiled = Compile("0/0", 0, Outcome.FAILED, call=0, symbols=(symbol,), caller=(at(12, function="main"),))
    raised = Failure(
        Culprit.USER,
        "call",
        "marked x.size(0)",
        exception="ConstraintViolationError",
        call=0,
        stack=(at(22),),
    )
    facts = report(frames=(Frame("f", at(20)),), compiles=(compiled,), failures=(raised,))
    (finding,) = findings(
        facts, read_line=lambda _path, line: lines.get(line, "pass\n") if line < 40 else None
    )
    assert (finding.code, finding.severity, finding.span.line) == ("FL301", Severity.ERROR, 22)
    assert [item.span.line for item in finding.related if item.message == "marked dynamic here"] == [9]
    # an error of another call has its own finding
    other = dataclasses.replace(raised, call=1)
    both = findings(dataclasses.replace(facts, failures=(other,)))
    assert {item.code for item in both} == {"FL301", "FL401"}
