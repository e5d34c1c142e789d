"""Folding and locations of graph breaks."""

from __future__ import annotations

import pytest

from fuselight.shared.report import Break, Location
from fuselight_server.base.finding import Severity
from fuselight_server.explain.findings import findings, fold
from tests.support.breaks import FORWARD, HELPER
from tests.support.reports import FILE, LIBRARY, at, broken, report


@pytest.mark.parametrize("call", ["h.register_hook(keep)", "w.register_post_accumulate_grad_hook(keep)"])
def test_what_breaks_the_graph_in_a_hook_is_the_hooks_to_leave(call: str) -> None:
    (finding,) = findings(
        report(breaks=(broken(FORWARD, HELPER, gb="GB0124"),)),
        read_line=lambda _path, line: call if line == FORWARD.line else "seen.append(grad.sum().item())",
    )
    assert finding.hints[0].startswith("Let the hook only compute with tensors: torch traces it")
    assert not any("outside the compiled code (" in hint for hint in finding.hints)


def test_one_cause_on_one_line_is_one_finding_however_often_it_was_met() -> None:
    # Inlined into forward, then met again in helper's own frame, then in a second compile of forward.
    breaks = (
        broken(FORWARD, HELPER, compile_id="0/0"),
        broken(HELPER, compile_id="1/0", above=(FORWARD,)),
        broken(FORWARD, HELPER, compile_id="0/1"),
    )
    (finding,) = findings(report(breaks=breaks))
    assert (finding.span.path, finding.span.line, finding.span.column, finding.span.end_column) == (
        FILE,
        5,
        4,
        15,
    )
    assert finding.count == 3
    assert [(item.span.line, item.message) for item in finding.related] == [(30, "called from `forward`")]


def test_pythons_own_files_are_on_no_trail() -> None:
    """As contextlib, through which a context manager of the user's is called."""
    own = at(111, path="/usr/lib/python3.11/contextlib.py", function="__init__")
    (finding,) = findings(report(breaks=(broken(FORWARD, own, HELPER),)))
    assert [item.span.line for item in finding.related] == [30]


def test_retries_of_one_compile_are_no_repeats() -> None:
    (finding,) = findings(report(breaks=(broken(FORWARD), broken(FORWARD))))
    assert finding.count == 1


def test_two_causes_on_one_line_are_two() -> None:
    both = findings(report(breaks=(broken(FORWARD), broken(FORWARD, gb="GB0124"))))
    assert [finding.code for finding in both] == ["GB0124", "GB0170"]


def test_two_places_on_one_line_are_two() -> None:
    both = findings(report(breaks=(broken(at(30, (8, 12))), broken(at(30, (16, 20))))))
    assert [finding.span.column for finding in both] == [8, 16]


def test_a_break_in_a_library_shows_on_the_line_that_led_there() -> None:
    inside = at(400, (0, 9), path=LIBRARY, function="attend")
    breaks = (broken(FORWARD, inside), broken(inside, compile_id="1/0", above=(FORWARD,)))
    (finding,) = findings(report(breaks=breaks))
    assert (finding.span.path, finding.span.line) == (FILE, 30)
    assert [(item.span.path, item.message) for item in finding.related] == [
        (LIBRARY, "breaks here, in `attend`")
    ]
    assert "inside a library, at layers.py:400" in finding.message


@pytest.mark.parametrize("path", ["<string>", "<ipython-input-3-ad13>", "<attrs generated init Net>"])
def test_code_without_a_file_is_no_library(path: str) -> None:
    inside = at(4, (0, 9), path=path, function="made")
    breaks = (broken(FORWARD, inside), broken(inside, compile_id="1/0", above=(FORWARD,)))
    (finding,) = findings(report(breaks=breaks))
    assert (finding.span.path, finding.span.line) == (FILE, 30)
    assert f"in code without a file, at {path}:4" in finding.message
    assert "library" not in finding.message


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("    loss = x.sum().item()", ".item()"),
        ("    loss = float(x.sum())", "float()"),
        ("    size = int(x.sum())", "int()"),
        ("    loss = floatify(x.sum())", ".item()"),
    ],
)
def test_a_conversion_has_the_name_that_the_code_has_for_it(line: str, named: str) -> None:
    graph_break = broken(at(21, (11, len(line)), function="forward"), gb="GB0124", hints=())
    (finding,) = findings(report(breaks=(graph_break,)), read_line=lambda _path, _line: line)
    assert finding.title == f"graph break: `{named}` converts a tensor to a Python number"


def test_to_remove_a_disable_is_said_once() -> None:
    torchs = ("Remove the `torch.compiler.disable` call",)
    (finding,) = findings(
        report(breaks=(broken(at(21, (4, 9), function="forward"), gb="GB0098", hints=torchs),))
    )
    assert len(finding.hints) == 1
    assert finding.hints[0] == "Call it before or after the compiled code"


@pytest.mark.parametrize(
    ("line", "columns", "is_used"),
    [
        ("    logger.info('%s', x)", (10, 15), False),
        ("    meter.update(x.item())", (4, 26), False),
        ("    meter.update(x.item())", (17, 25), True),
        ("    y = meter.update(x)", (8, 23), True),
    ],
)
def test_only_a_call_whose_result_is_used_is_to_pass_its_result_in(
    line: str, columns: tuple[int, int], *, is_used: bool
) -> None:
    lines = {20: "def forward(self, x):", 21: line}
    inside = at(400, (0, 9), path=LIBRARY, function="update")
    graph_break = broken(at(21, columns, function="forward"), inside, gb="GB0291", hints=())
    (finding,) = findings(report(breaks=(graph_break,)), read_line=lambda _path, number: lines.get(number))
    assert ("pass in its result" in finding.hints[0]) is is_used
    assert ("with values that the compiled code returns" in finding.hints[0]) is not is_used


SOURCES = {
    "    y = model.layers[0].generate(x, n=2)": ((8, 40), "generate"),
    "    y = attend(x)": ((8, 17), "attend"),
    "    größe = module.größe_von(x)": ((14, 35), "größe_von"),
    "    return x + weights": ((11, 22), "x + weights"),  # no call: the operator's method is the library's
    "    y = layers[0](x)": ((8, 20), "layers[0](x)"),
}


@pytest.mark.parametrize("source", SOURCES)
def test_a_break_in_a_library_marks_the_name_that_is_called(source: str) -> None:
    columns, marked = SOURCES[source]
    call = at(30, columns, function="forward")
    inside = at(400, (0, 9), path=LIBRARY, function="attend")
    (finding,) = findings(report(breaks=(broken(call, inside),)), read_line=lambda _path, _line: source)
    assert source.encode()[finding.span.column : finding.span.end_column].decode() == marked


def test_a_call_over_several_lines_is_marked_by_its_name_alone() -> None:
    lines = {30: "    y = (model", 31: "        .generate(", 32: "            x,", 33: "    ))"}
    call = Location(FILE, 30, 9, 33, 5, function="forward")
    inside = at(400, (0, 9), path=LIBRARY, function="attend")

    def read(_path: str, line: int) -> str | None:
        return lines.get(line)

    (finding,) = findings(report(breaks=(broken(call, inside),)), read_line=read)
    assert (finding.span.line, finding.span.column, finding.span.end_line, finding.span.end_column) == (
        31,
        9,
        31,
        17,
    )
    closing = Location(FILE, 33, function="forward")
    (finding,) = findings(report(breaks=(broken(closing, inside),)), read_line=read)
    assert (finding.span.line, finding.span.column, finding.span.end_line, finding.span.end_column) == (
        31,
        9,
        31,
        17,
    )


def test_dynamos_placeholders_are_not_shown_as_locations() -> None:
    stand_in = at(
        505, path="/env/lib/python3.11/site-packages/torch/_dynamo/polyfills/__init__.py", function="new"
    )
    (finding,) = findings(report(breaks=(broken(FORWARD, stand_in),)))
    assert finding.span.line == FORWARD.line
    assert finding.related == ()
    assert "library" not in finding.message


def test_the_called_function_is_named_if_torch_names_it() -> None:
    text = (
        "Skip calling function `tokenize` since it was wrapped with `torch.compiler.disable` (reason: None)"
    )
    (finding,) = findings(report(breaks=(broken(FORWARD, gb="GB0098", explanation=text),)))
    assert finding.title == "graph break: calls `tokenize`, which is marked torch.compiler.disable"
    text = "Dynamo does not know how to trace the function `None`"
    (finding,) = findings(report(breaks=(broken(FORWARD, gb="GB0147", explanation=text),)))
    assert finding.title == "graph break: this call cannot be traced"
    text = "Dynamo does not know how to trace the builtin `time.time.` This function is either"
    (finding,) = findings(report(breaks=(broken(FORWARD, gb="GB0007", explanation=text),)))
    assert finding.title == "graph break: `time.time` is not traced by torch.compile"


def test_two_lines_that_lead_to_one_library_line_are_two_findings() -> None:
    inside = at(400, (0, 9), path=LIBRARY)
    both = findings(report(breaks=(broken(FORWARD, inside), broken(at(31, (8, 20)), inside))))
    assert [finding.span.line for finding in both] == [30, 31]


def test_a_library_break_without_a_user_frame_joins_the_one_with_a_line() -> None:
    inside = at(400, (0, 9), path=LIBRARY)
    (finding,) = findings(report(breaks=(broken(inside, compile_id="1/0"), broken(FORWARD, inside))))
    assert (finding.span.line, finding.count) == (30, 2)


def test_without_any_line_of_the_user_it_is_on_the_target() -> None:
    (finding,) = findings(report(breaks=(broken(at(400, path=LIBRARY)),)))
    assert (finding.span.path, finding.span.line) == (FILE, 10)
    assert finding.related[0].span.path == LIBRARY


def test_an_environment_inside_the_workspace_is_not_user_code() -> None:
    inside = at(1, path="/project/.venv/lib/python3.11/site-packages/lib.py")
    (finding,) = findings(report(breaks=(broken(FORWARD, inside),)))
    assert finding.span.line == 30


def test_the_code_is_the_cause_and_the_rest_of_the_chain_is_related() -> None:
    chain = broken(
        FORWARD, ids=("GB0059", "GB7000"), types=("Failed to trace builtin operator", "graph break in loop")
    )
    (finding,) = findings(report(breaks=(chain,)))
    assert (finding.code, finding.gb_ids) == ("GB0059", ("GB7000",))
    assert "inside of which torch.compile cannot stop and resume" in finding.message


def test_the_calls_of_a_disabled_function_are_one_finding_with_their_lines() -> None:
    def call(line: int, name: str, function: str = "forward") -> Break:
        text = f"Skip calling function `{name}` since it was wrapped with `torch.compiler.disable` (reason: None)"
        return broken(at(line, function=function), gb="GB0098", explanation=text, context=f"function {name}")

    calls = (call(31, "log"), call(33, "log"), call(35, "save"), call(45, "log", "other"))
    full, *others = fold(findings(report(breaks=calls)))
    assert (full.span.line, [finding.span.line for finding in full.also_at]) == (31, [33])
    assert "1 more place has the same cause: line 33." in full.message
    assert "(reason: None)" not in full.message
    assert [other.span.line for other in others] == [35, 45], "another function may disable another `log`"


def test_a_break_without_an_id_has_a_fuselight_code() -> None:
    (finding,) = findings(report(breaks=(broken(FORWARD, ids=(None,), types=("old words",)),)))
    assert (finding.code, finding.title) == ("FL107", "graph break: old words")


def test_a_deliberate_break_is_not_a_warning() -> None:
    (finding,) = findings(report(breaks=(broken(FORWARD, gb="GB0025"),)))
    assert finding.severity is Severity.INFORMATION


@pytest.mark.parametrize(
    ("function", "is_drawn"), [("RandomState.beta", True), ("Generator.normal", True), ("interp", False)]
)
def test_a_number_that_numpy_draws_is_drawn_outside(function: str, *, is_drawn: bool) -> None:
    """torch has no function for most distributions of NumPy."""
    text = f"Can't find numpy numpy function {function} in torch._numpy."
    (finding,) = findings(report(breaks=(broken(FORWARD, gb="GB0294", explanation=text),)))
    assert finding.hints[0].startswith("Draw the number outside the compiled code") is is_drawn


def test_a_message_of_a_logger_has_no_result_to_pass_in() -> None:
    inside = Location("/usr/lib/python3.11/logging/__init__.py", 1488, function="info")
    graph_break = broken(inside, gb="GB0291", hints=(), above=(at(21, function="forward"),))
    (finding,) = findings(report(breaks=(graph_break,)))
    assert finding.hints[0] == "Log outside the compiled code, with values that the compiled code returns"
    assert "logging.Logger.info" in finding.hints[1]
    assert "ignore_logging_functions" in finding.hints[1]


@pytest.mark.parametrize(("second", "is_told"), [(23, True), (25, False)])
def test_graph_breaks_in_one_loop_are_named_together(second: int, *, is_told: bool) -> None:
    lines = {20: "def forward(self, x):", 21: "    for i in range(3):", 22: "        x = draw(x)",
             23: "        x = show(x)", 24: "    x = x + 1", 25: "    x = show(x)"}  # fmt: skip
    skipping = broken(at(22, function="forward"), gb="GB0055", frame_skipped=True)
    called = broken(at(90, function="show"), gb="GB0059", above=(at(second, function="forward"),))
    first, other = findings(
        report(breaks=(skipping, called)), read_line=lambda _path, number: lines.get(number)
    )
    texts = f"{first.message} {other.message}"
    assert ("the graph breaks on lines 22 and 23 are in loops: all of them have to go" in texts) is is_told
    assert ("this line is called in the same loop as line 22" in texts) is is_told
