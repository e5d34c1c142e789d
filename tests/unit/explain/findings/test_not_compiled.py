"""Which frames that run in eager mode are findings, and what is said of a part of one."""

from __future__ import annotations

import pytest

from fuselight.shared.report import (
    Compile,
    Environment,
    Frame,
    Graph,
    NotCompiled,
    NotCompiledKind,
    Outcome,
    is_pythons_own,
)
from fuselight_server.base.finding import Severity
from fuselight_server.explain.findings import findings
from tests.support.reports import FILE, LIBRARY, at, broken, report

FORWARD = at(30, function="forward")


@pytest.mark.parametrize(
    "path",
    [
        "/usr/lib/python3.11/typing.py",
        "/opt/python/versions/3.11.7/lib/python3.11/contextlib.py",
        r"C:\Python311\Lib\typing.py",
        "<frozen _collections_abc>",
    ],
)
def test_a_frame_of_pythons_own_is_no_finding(path: str) -> None:
    assert is_pythons_own(path)
    frame = NotCompiled(NotCompiledKind.GENERATOR, "Union.<genexpr>", at(7, path=path), "", caller=(FORWARD,))
    assert findings(report(not_compiled=(frame,))) == ()


@pytest.mark.parametrize("path", [FILE, LIBRARY, r"C:\Python311\Lib\site-packages\lib\layers.py"])
def test_a_generator_of_the_user_or_of_a_library_that_user_code_compiles_is_one(path: str) -> None:
    assert not is_pythons_own(path)
    frame = NotCompiled(NotCompiledKind.GENERATOR, "batches", at(7, path=path), "", caller=(FORWARD,))
    (finding,) = findings(report(not_compiled=(frame,)))
    assert finding.code == "FL103"


def test_a_generator_whose_caller_torch_could_not_compile_is_no_warning() -> None:
    frame = NotCompiled(NotCompiledKind.GENERATOR, "Net.layers", at(7), "", caller=(FORWARD,))
    forward = Frame("Net.forward", at(FORWARD.line, function="forward"))
    (finding,) = findings(report(not_compiled=(frame,), frames=(forward,)))
    assert finding.severity is Severity.INFORMATION
    assert "its caller" in finding.hints[0]


def test_the_cost_of_a_skipped_function_is_that_of_its_own_lines() -> None:
    """What it calls was compiled separately, and so was the line that broke, which is in another function."""
    inside, own = at(35, function="attend"), at(49, function="forward")
    skipped = NotCompiled(
        NotCompiledKind.SKIPPED,
        "LM.forward",
        at(46, function="forward"),
        "no",
        gb_id="GB0112",
        stack=(own, inside),
    )
    frames = (Frame("LM.forward", at(46, function="forward")), Frame("attend", at(30, function="attend")))
    called = Compile("1/0", 1, Outcome.COMPILED, graph=Graph(4), caller=(own,))
    before = Compile("0/0", 0, Outcome.COMPILED, graph=Graph(2))

    def cost(*compiles: Compile) -> tuple[str, ...]:
        every = findings(report(not_compiled=(skipped,), frames=frames, compiles=compiles))
        return next(finding.cost for finding in every if finding.code == "FL101")

    separately = "; of what it calls, only `attend` is compiled"
    assert cost() == ("all of it runs in eager mode",)
    assert cost(called) == (f"its own lines run in eager mode{separately}",)
    assert cost(called, before) == (f"the part with line 49 runs in eager mode{separately}",)
    assert cost(before) == ("the part with line 49 runs in eager mode",)


def test_a_function_that_was_skipped_for_a_break_leaves_what_to_do_to_that_break() -> None:
    """In the words of the break's finding, which says that functions called by this one are compiled."""
    place = at(35, function="attend")
    own = at(49, function="forward")
    stack = (own, place)
    skipped = NotCompiled(
        NotCompiledKind.SKIPPED, "LM.forward", at(46, function="forward"), "no", gb_id="GB0059", stack=stack
    )
    broke = broken(
        *stack,
        gb="GB0059",
        frame_skipped=True,
        frame_function="LM.forward",
        explanation="Dynamo does not know how to trace builtin operator `print` with argument types ['str']",
    )
    called = Compile("1/0", 0, Outcome.COMPILED, graph=Graph(4), caller=(own,))
    frames = (Frame("attend", at(30, function="attend")),)
    given = report(not_compiled=(skipped,), breaks=(broke,), frames=frames, compiles=(called,))
    reference, full = sorted(findings(given), key=lambda finding: finding.code)
    words = full.title.removeprefix("graph break: ")
    assert "`print`" in words
    assert reference.message == f"The cause is the graph break on line 35: {words}."
    assert (reference.severity, reference.remedies) == (Severity.INFORMATION, ())
    assert [item.span.line for item in reference.related] == [35]
    assert full.severity is Severity.WARNING
    assert full.remedies
    assert full.cost[0] == (
        "all of `LM.forward` runs in eager mode, not only this line; of what it calls, only `attend` is compiled"
    )


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("overlap",), "only `overlap` is compiled"),
        (("overlap", "decode", "overlap"), "only `overlap` and `decode` are compiled"),
        (("a", "b", "c", "d", "e"), "only `a`, `b`, `c` and 2 more are compiled"),
    ],
)
def test_the_cost_names_what_is_compiled_of_a_function_in_eager_mode(
    names: tuple[str, ...], shown: str
) -> None:
    """Layers of torch, and what gave no graph, are not compiled: the names are all there is."""
    own = at(35, function="detect")
    broke = broken(own, gb="GB0036", frame_skipped=True, frame_function="Net.detect", explanation="")
    every = (*names, "no_graph")
    compiles = tuple(
        Compile(
            f"{index}/0", index, Outcome.COMPILED, graph=Graph(4) if name in names else None, caller=(own,)
        )
        for index, name in enumerate(every)
    )
    frames = tuple(Frame(name, at(index)) for index, name in enumerate(every, 1))
    (finding,) = findings(report(breaks=(broke,), frames=frames, compiles=compiles))
    assert finding.cost[0].endswith(f"; of what it calls, {shown}")


def test_a_function_whose_callee_is_compiled_has_something_to_compile() -> None:
    step = NotCompiled(NotCompiledKind.NO_TENSORS, "train.step", at(12, function="step"), "")
    frames = (Frame("Adam.step", at(215, path=LIBRARY, function="step")),)
    called = Compile("1/0", 0, Outcome.COMPILED, graph=Graph(4), caller=(at(13, function="step"),))
    assert findings(report(not_compiled=(step,), frames=frames, compiles=(called,))) == ()
    (alone,) = findings(report(not_compiled=(step,)))
    assert alone.code == "FL106"


def test_the_rest_of_a_function_that_cannot_be_resumed_is_named_by_its_first_line() -> None:
    name, line = "Net.forward", at(30, function="forward")
    rest = NotCompiled(
        NotCompiledKind.SKIPPED, name, line, "it", stack=(at(35),), gb_id="GB0811", rest_from=34
    )
    compiled = Compile("0/0", 0, Outcome.COMPILED, graph=Graph(3))
    actual_findings = findings(
        report(
            not_compiled=(rest,),
            frames=(Frame(name, line),),
            compiles=(compiled,),
            breaks=(broken(at(35, function="forward"), gb="GB0811", rest_from=34),),
        )
    )
    skipped, break_ = sorted(actual_findings, key=lambda finding: finding.code)
    assert skipped.title.startswith("the rest of `Net.forward`, from line 34 on, is not compiled")
    assert skipped.cost == ("its graph ends there, after 3 operators",)
    assert "from line 34 on, runs in eager mode" in break_.cost[0]
    assert not any("this line runs in eager mode" in cost for cost in break_.cost)


@pytest.mark.parametrize(("in_thread", "set_on_main"), [(True, True), (True, False), (False, True)])
def test_a_setting_of_the_main_thread_is_not_advised_again_to_another(
    *, in_thread: bool, set_on_main: bool
) -> None:
    limit = NotCompiled(
        NotCompiledKind.RECOMPILE_LIMIT, "step", at(12), "torch._dynamo.config.recompile_limit (8)",
        in_thread=in_thread,
    )  # fmt: skip
    config = {"recompile_limit": "64"} if set_on_main else {}
    (finding,) = findings(report(not_compiled=(limit,), environment=Environment(config=config)))
    (hint,) = finding.hints
    if in_thread and set_on_main:
        assert "recompile_limit = 64 was set on the main thread only" in hint
        assert "initializer=" in hint
    else:
        assert hint.startswith("Raise torch._dynamo.config.recompile_limit")


def test_a_function_whose_trace_a_break_ended_has_something_to_compile() -> None:
    empty = NotCompiled(NotCompiledKind.NO_TENSORS, "SignSGD.step", at(9), "no tensors")
    inside = broken(at(15, function="step"), frame_function="SignSGD.step")
    assert {item.code for item in findings(report(not_compiled=(empty,)))} == {"FL106"}
    assert {item.code for item in findings(report(not_compiled=(empty,), breaks=(inside,)))} == {"GB0170"}
