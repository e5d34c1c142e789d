"""What the finding says of an exception that eager mode catches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuselight.shared.report import Culprit, EagerHandler, Failure, Frame
from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings import findings
from tests.support.reports import at, report

HANDLER = EagerHandler(
    location=replace(at(9), function="pool"),
    text="except IndexError",
    exception="IndexError",
    is_compiled=True,
    catches_outside=True,
    is_tried=True,
)
FAILURE = Failure(
    Culprit.USER,
    "exception",
    "IndexError: no such dimension",
    "",
    "IndexError",
    (at(5), at(8)),
    handler=HANDLER,
)


def finding_of(handler: EagerHandler, *, fullgraph: bool = False, exception: str = "IndexError") -> Finding:
    """The finding of the failure with this handler."""
    failure = replace(FAILURE, handler=handler, exception=exception)
    (finding,) = findings(replace(report(failures=(failure,)), fullgraph=fullgraph))
    return finding


def test_it_is_on_the_line_that_raises_and_names_the_handler() -> None:
    finding = finding_of(HANDLER)
    assert (finding.code, finding.span.line) == ("FL410", 8)
    assert finding.title == "compiled code does not run `except IndexError` on line 9"
    assert (finding.related[0].span.line, finding.related[0].message) == (9, "the handler")
    assert "IndexError: no such dimension. Eager mode goes on there." in finding.message
    assert len(finding.hints) == 3
    assert "torch.compiler.disable on `pool`" in finding.hints[1]


def test_it_says_what_eager_mode_does_only_if_that_was_tried() -> None:
    untried = finding_of(replace(HANDLER, is_tried=False)).message
    assert "Eager mode goes on there" not in untried
    assert "If the line fails in eager mode, it goes on there." in untried


@pytest.mark.parametrize(
    ("handler", "fullgraph", "absent"),
    [
        (HANDLER, True, "torch.compiler.disable"),
        (replace(HANDLER, catches_outside=False), False, "Or move the `try`"),
        (replace(HANDLER, is_compiled=False), False, "torch.compiler.disable"),
        (
            replace(HANDLER, exception="AssertionError", catches_outside=False),
            False,
            "makes the operator fail",
        ),
    ],
)
def test_a_cure_that_would_not_work_is_not_named(
    handler: EagerHandler, fullgraph: bool, absent: str  # noqa: FBT001 - pytest's
) -> None:  # fmt: skip
    hints = finding_of(handler, fullgraph=fullgraph).hints
    assert hints
    assert not any(absent in hint for hint in hints)


def test_a_handler_outside_names_what_compiled_code_raises() -> None:
    finding = finding_of(replace(HANDLER, is_compiled=False), exception="TorchRuntimeError")
    assert finding.title == "`except IndexError` on line 9 does not catch what compiled code raises"
    assert "compiled code raises TorchRuntimeError." in finding.message
    assert finding.hints[-1] == "Or catch RuntimeError too, which compiled code raises"


COMPILED = "Or remove torch.compile from `pool`: eager mode runs the handler in it"
CALLED = "Or put torch.compiler.disable on `pool`: eager mode runs the handler in it"
WITHOUT = "Or call `pool` without torch.compile: eager mode runs the handler in it"


@pytest.mark.parametrize(
    ("decorator", "outermost", "step"),
    [
        ("@torch.compile", "pool", COMPILED),
        ("@torch.compile(dynamic=True)", "pool", COMPILED),
        ("@torch.no_grad()", "pool", WITHOUT),
        ("@torch.no_grad()", "step", CALLED),
    ],
)
def test_disable_is_advised_only_for_a_function_that_compiled_code_calls(
    decorator: str, outermost: str, step: str
) -> None:
    lines = {
        6: decorator,
        7: "def pool(x):",
        8: "    try:",
        9: "        return x.max(5)",
        10: "    except IndexError:",
    }
    handler = replace(HANDLER, location=replace(at(10), function="pool"))
    stack = (at(3, function="main"), at(5, function=outermost), at(9, function="pool"))
    failure = replace(FAILURE, handler=handler, stack=stack if outermost != "pool" else stack[::2])
    frames = (Frame(outermost, at(4)), Frame("pool", at(7)))
    (finding,) = findings(
        replace(report(failures=(failure,)), frames=frames), read_line=lambda _path, number: lines.get(number)
    )
    assert finding.hints[1] == step


def test_a_failure_of_the_compiler_in_the_compiled_function_names_what_leaves_it_uncompiled() -> None:
    lines = {6: "@torch.compile", 7: "def pool(x):", 8: "    return x.max(5)"}
    failure = Failure(
        Culprit.COMPILER,
        "internal",
        "it failed",
        next_step="torch.compile itself failed. Put torch.compiler.disable on the function, and report it.",
        stack=(at(8, function="pool"),),
    )
    (finding,) = findings(report(failures=(failure,)), read_line=lambda _path, number: lines.get(number))
    assert finding.hints[0] == "torch.compile itself failed. Remove torch.compile from `pool`, and report it."
