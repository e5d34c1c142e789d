"""Graph breaks as the Recorder gives them."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

from fuselight.adapters.torch_api.dynamo import frames, hooks
from fuselight.capture.dynamo import stacks
from tests.support.recording import record

pytestmark = pytest.mark.torch
COLUMNS = sys.version_info >= (3, 11)


def test_a_break_carries_its_line_columns_and_reason(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        @torch.compile
        def step(x):
            y = x + 1
            print("here")
            return y * 2

        def main():
            step(torch.ones(3))
        """,
    )
    (graph_break,) = got.parts.breaks
    assert graph_break.ids == ("GB0059",)
    place = graph_break.stack[-1]
    assert (place.path, place.line, place.function) == (got.path, got.line("print"), "step")
    if COLUMNS:
        assert (place.column, place.end_column) == (4, 17)
    assert "print" in graph_break.explanation
    assert graph_break.hints
    assert graph_break.context
    assert "Developer debug context" not in graph_break.explanation
    assert graph_break.frame_function == "step"
    assert graph_break.frame_line == got.line("@torch.compile")
    assert [above.line for above in graph_break.above][-1] == got.line("step(torch")
    assert not graph_break.frame_skipped
    assert got.failure is None
    assert not got.parts.problems


def test_a_break_in_a_helper_is_reported_for_its_caller_and_its_own_frame(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        def helper(x):
            print("hi")
            return x + 1

        @torch.compile
        def step(x):
            return helper(x) * 2

        def main():
            step(torch.ones(3))
        """,
    )
    stacks = [[place.line for place in graph_break.stack] for graph_break in got.parts.breaks]
    assert stacks == [[got.line("return helper"), got.line("print")], [got.line("print")]]
    assert got.parts.breaks[1].above[-1].line == got.line("return helper")


def test_an_error_while_handling_a_break_follows_its_cause_and_skips_the_frame(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        @torch.compile
        def step(x):
            for index in range(2):
                print(index)
                x = x + 1
            return x

        def main():
            step(torch.ones(3))
        """,
    )
    (graph_break,) = got.parts.breaks
    assert graph_break.ids == ("GB0059", "GB7000")
    assert graph_break.frame_skipped
    (refused,) = [
        uncompiled_code
        for uncompiled_code in got.parts.not_compiled
        if uncompiled_code.kind.value == "skipped"
    ]
    assert (refused.location.line, refused.gb_id) == (got.line("def step"), "GB0059")
    assert refused.stack[-1].line == got.line("print")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("for index in range(2):\n                print(index)\n                x = x + 1", "skipped"),
        ("with torch.no_grad():\n                print(x.shape)\n                x = x + 1", None),
        ("yield x + 1", "generator"),
    ],
)
def test_a_frame_that_falls_back_is_reported_once_whatever_words_torch_has_for_its_skip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, reason: str | None
) -> None:
    convert_frame = sys.modules["torch._dynamo.convert_frame"]
    if not hasattr(convert_frame, "add_skip_reason"):
        pytest.skip("this torch names only the files that it skips")
    handle_skip = convert_frame.CatchErrorsWrapper._handle_skip

    def reworded(self: Any, result: Any, frame: Any) -> Any:
        if result.skip_reason is not None:
            result.skip_reason = "words of a release to come"
        return handle_skip(self, result, frame)

    monkeypatch.setattr(convert_frame.CatchErrorsWrapper, "_handle_skip", reworded)
    got = record(
        tmp_path,
        f"""
        @torch.compile
        def step(x):
            {body}
            return x

        def main():
            step(torch.ones(3))
        """,
    )
    kinds = [uncompiled_code.kind.value for uncompiled_code in got.parts.not_compiled]
    assert kinds == ([] if reason is None else [reason])


def test_resume_functions_fold_into_the_function_they_resume(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        class Net(nn.Module):
            def forward(self, x):
                x = x + 1
                print("one")
                x = x + 2
                print("two")
                return x * 3

        net = torch.compile(Net())

        def main():
            net(torch.ones(3))
        """,
    )
    frames = got.parts.frames
    assert {frame.location.line for frame in frames} == {got.line("def forward")}
    assert [frame.resumes_at for frame in frames] == [
        None,
        got.line('print("one")'),
        got.line('print("two")'),
    ]
    assert {place.function for graph_break in got.parts.breaks for place in graph_break.stack} == {"forward"}
    for graph_break in got.parts.breaks:
        assert [place.function for place in graph_break.above][-1] == "main"
    compiled = [
        compile_record.graph.operators
        for compile_record in got.parts.compiles
        if compile_record.graph is not None
    ]
    assert compiled == [1, 1, 1]


def test_facts_belong_to_their_call(tmp_path: Path) -> None:
    import torch  # noqa: PLC0415

    from fuselight.capture.dynamo import Recorder, capture_only  # noqa: PLC0415 - only here by hand

    def step(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x + 1

    torch._dynamo.reset()
    with capture_only(), Recorder(roots=(str(tmp_path),)) as recorder:
        compiled = torch.compile(step)
        for index, size in enumerate((3, 4)):
            with recorder.call(index):
                compiled(torch.ones(size, 2))
    parts = recorder.parts()
    assert {graph_break.call for graph_break in parts.breaks} <= {0, 1}
    assert parts.breaks[0].call == 0
    assert [recompilation.call for recompilation in parts.recompiles] == [1]


def test_frames_and_calls_are_reported_as_they_start(tmp_path: Path) -> None:
    frames: list[tuple[int, str, int]] = []
    calls: list[tuple[str, list[str]]] = []
    got = record(
        tmp_path,
        """
        @torch.compile
        def step(x, scale):
            print("a")
            return x * scale

        def main():
            step(torch.ones(3), 2)
        """,
        on_frame=lambda count, path, line: frames.append((count, path, line)),
        on_call=lambda code, inputs: calls.append((code.co_name, sorted(inputs))),
    )
    assert [count for count, _, _ in frames] == [1, 2]
    assert {path for _, path, _ in frames} == {got.path}
    assert calls[0] == ("step", ["scale", "x"])


def test_an_observer_that_raises_costs_a_fact_and_not_the_compile(tmp_path: Path) -> None:
    def broken(*frame: object) -> None:
        raise ValueError(f"observer of {frame}")

    got = record(
        tmp_path,
        """
        @torch.compile
        def step(x):
            return x + 1

        def main():
            assert step(torch.ones(3)).sum() == 6
        """,
        on_frame=broken,
    )
    assert got.failure is None
    assert [compile_record.outcome.value for compile_record in got.parts.compiles] == ["compiled"]
    assert any("observer" in problem.why for problem in got.parts.problems)


def test_the_code_after_a_break_keeps_its_lines_and_its_ends(tmp_path: Path) -> None:
    """torch counts each step of a method chain's lines twice where a method is loaded."""
    got = record(
        tmp_path,
        """
        @torch.compile
        def step(x):
            print("first")
            y = (
                x.float()
                .mul(2)
                .add(1)
                .relu()
            )
            n = y.sum().item()
            z = torch.nonzero(
                y
            )
            return z * n

        def main():
            step(torch.ones(3))
        """,
    )
    places = [graph_break.stack[-1] for graph_break in got.parts.breaks]
    item, nonzero = got.line(".item()"), got.line("torch.nonzero(")
    assert [place.line for place in places] == [got.line("print"), item, nonzero]
    assert [frame.resumes_at for frame in got.parts.frames] == [None, got.line("print"), item, nonzero]
    if COLUMNS:
        assert (places[1].column, places[1].end_line, places[1].end_column) == (8, item, 22)
        assert (places[2].column, places[2].end_line, places[2].end_column) == (8, nonzero + 2, 5)
    assert not got.parts.problems


def test_a_traceback_through_the_code_after_a_break_has_the_lines_of_the_source(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        @torch.compile
        def step(x):
            print("first")
            y = (
                x.float()
                .mul(2)
                .relu()
            )
            return y.view(2, 2)

        def main():
            step(torch.ones(3))
        """,
    )
    assert got.failure is not None
    assert got.failure.stack[-1].line == got.line("y.view")


def test_an_unknown_end_is_omitted() -> None:
    """A call over several lines, in the words of a torch that names no end line."""
    summary = traceback.FrameSummary("/project/net.py", 7, "forward", lookup_line=False)
    if COLUMNS:
        summary.colno, summary.end_colno = 8, 5  # type: ignore[attr-defined]  # younger than Python 3.10
    (place,) = stacks.from_summaries([summary])
    assert (place.line, place.end_line, place.end_column) == (7, None, None)
    assert place.column == (8 if COLUMNS else None)


def test_columns_are_found_for_a_torch_whose_summaries_lack_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Bare:
        """A `FrameSummary` of torch 2.11."""

        def __init__(self, frame: Any) -> None:
            self.filename, self.lineno, self.name = frame.filename, frame.lineno, frame.name

    source = """
        def helper(x):
            print("hi")
            return x + 1

        @torch.compile(fullgraph=FULL)
        def step(x):
            return helper(x) * 2

        def main():
            step(torch.ones(3))
        """
    real_stack = frames.real_stack
    summaries = stacks.from_summaries
    monkeypatch.setattr(frames, "real_stack", lambda error: [Bare(value) for value in real_stack(error)])
    monkeypatch.setattr(
        stacks, "from_summaries", lambda stack, *rest: summaries([Bare(value) for value in stack], *rest)
    )
    got = record(tmp_path, source.replace("FULL", "False"))
    columns = [(place.column, place.end_column) for place in got.parts.breaks[0].stack]
    assert columns == ([(11, 20), (4, 15)] if COLUMNS else [(None, None)] * 2)
    failed = record(tmp_path, source.replace("FULL", "True")).failure
    assert failed is not None
    assert [(place.column, place.end_column) for place in failed.stack[-2:]] == columns


def test_the_line_that_is_being_traced_is_reported_as_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "LINE_EVERY", 0.0)
    lines: list[tuple[str, int]] = []
    got = record(
        tmp_path,
        """
        net = nn.Linear(3, 3)

        @torch.compile
        def step(x):
            y = net(x)
            return y * 2

        def main():
            step(torch.ones(3))
        """,
        on_line=lambda path, line: lines.append((path, line)),
    )
    user_lines = [line for path, line in lines if path == got.path]
    assert len(user_lines) == len(lines), "a line of torch's own"
    assert list(dict.fromkeys(user_lines))[-2:] == [got.line("y = net"), got.line("return y")]
    assert user_lines.count(got.line("y = net")) > 1, (
        "while it traces torch's own modules, the user's line is reported"
    )
    assert not got.parts.problems


def test_a_backend_that_fails_has_the_line_of_the_operator(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        @torch.compile
        def picked(x, index):
            y = x + 1
            return y[index] * 2

        def main():
            picked(torch.arange(10.0), torch.tensor(3))
        """,
        aot_autograd=True,
    )
    assert got.failure is None
    broke = next(item for item in got.parts.breaks if "_local_scalar_dense" in item.explanation)
    assert (broke.stack[-1].line, broke.stack[-1].function) == (got.line("y[index]"), "picked")


def test_a_function_that_waits_at_a_break_for_its_own_rest_calls_nothing_there(tmp_path: Path) -> None:
    got = record(
        tmp_path,
        """
        def scaled(x):
            print("scaled")
            return x * 2

        @torch.compile
        def step(x):
            y = x + 1
            print("first")
            y = y.sin()
            print("second")
            return scaled(y)

        def main():
            step(torch.ones(3))
        """,
    )
    above = [item.above for item in got.parts.breaks if item.frame_function == "scaled"]
    lines = [[place.line for place in stack][-2:] for stack in above]
    assert lines == [[got.line("    step(torch"), got.line("return scaled")]]
