"""What makes findings, functions, code and conditions of two jobs the same, and which differences are noise."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fuselight.shared.report import Location
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.commands.comparison import ComparedJobs, compare_opened
from fuselight_server.commands.open import OpenRequest, open_jobs
from fuselight_server.commands.opened_job import OpenedJob
from fuselight_server.jobs.comparison.generated_code import read_generated
from fuselight_server.jobs.comparison.model import (
    ChangeVerdict,
    ConditionKind,
    FindingState,
    FunctionChange,
    FunctionFacts,
    JobComparison,
    TimeChange,
)
from fuselight_server.jobs.comparison.rows import change_rows
from fuselight_server.jobs.comparison.sides import common_paths
from tests.support.job_logs import REASON, SOURCE, project, written
from tests.support.trace_logs import artifact, record

REGRESSION, IMPROVEMENT, CHANGE, SAME = ChangeVerdict
PATH = "/job/net.py"
STARTS = Path(__file__).parents[3] / "recordings" / "caches" / "torch-2.13"
Compare = Callable[[bytes, bytes], ComparedJobs]


def broken(
    *lines: int, text: str = "print(x)", function: str = "forward", at: str = "0/0/0", first: int = 5
) -> bytes:
    """A function that compiles with a break on each line."""
    stack = [{"line": first, "name": function, "filename": PATH}]
    metrics = {"co_name": function, "co_filename": PATH, "co_firstlineno": first, "graph_op_count": 1}
    breaks = [
        REASON.replace("{path}:7", f"{PATH}:{line}")
        .replace("line 7, in forward", f"line {line}, in {function}")
        .format(path=PATH, root="/job", text=text)
        for line in lines
    ]
    return b"".join(
        (
            record("dynamo_start", {"stack": stack}, at=at),
            *(artifact("dynamo_graph_break_reason", reason, at=at) for reason in breaks),
            record("compilation_metrics", metrics, at=at),
        )
    )


@pytest.fixture
def opened(tmp_path: Path) -> Compare:
    source = project(tmp_path / "source", {"net.py": SOURCE})

    def open_log(name: str, log: bytes) -> OpenedJob:
        request = OpenRequest((written(tmp_path / name, {"a": log}),), (source,))
        (job,) = asyncio.run(open_jobs(request, lambda _text: None, CancelToken()))
        return job

    def compare(after: bytes, before: bytes) -> ComparedJobs:
        return compare_opened(open_log("today", after), open_log("yesterday", before))

    return compare


def states(compared: ComparedJobs) -> list[tuple[str, int, int | None]]:
    return [
        (change.state.value, change.finding.span.line, change.before.span.line if change.before else None)
        for change in compared.comparison.findings
    ]


@pytest.mark.parametrize(
    ("after", "before", "expected"),
    [
        (broken(7), broken(7), [("same", 7, 7)]),
        (broken(9, text="print(z)"), broken(7, text="print(z)"), [("moved", 9, 7)]),
        (broken(9), broken(7), [("same", 7, 7)]),
        (broken(7, 9), broken(5, 7), [("moved", 9, 5), ("same", 7, 7)]),
        (broken(7, 9), broken(7), [("new", 9, None), ("same", 7, 7)]),
        (broken(7), broken(7, 9), [("fixed", 9, 9), ("same", 7, 7)]),
        (broken(7, text="print(y)"), broken(7), [("new", 7, None), ("fixed", 7, 7)]),
        (broken(7, text="print( x )"), broken(7, text="print( x  )"), [("same", 7, 7)]),
        (
            broken(8, function="other", first=6),
            broken(7),
            [("new", 8, None), ("fixed", 7, 7)],
        ),
    ],
    ids=[
        "equal",
        "moved",
        "moved, on one line of the source that is here",
        "the equal line first",
        "one more of the same text",
        "one less of the same text",
        "the line was edited",
        "blanks do not count",
        "another function",
    ],
)
def test_findings(after: bytes, before: bytes, expected: object, opened: Compare) -> None:
    assert states(opened(after, before)) == expected


def test_new_warnings_alone_fail(opened: Compare) -> None:
    fails = opened(broken(7, 9), broken(7))
    assert (fails.exit_code, [finding.span.line for finding in fails.outcome.findings]) == (1, [9])
    assert fails.outcome.known == 1
    assert opened(broken(7), broken(7, 9)).exit_code == 0


def test_functions_of_one_name_are_paired_by_line_then_by_order(opened: Compare) -> None:
    def broken_once(first: int, at: str = "0/0/0") -> bytes:
        return broken(function="not_here", first=first, at=at)

    def two(first: int, second: int) -> bytes:
        return broken_once(first) + broken_once(second, at="1/0/0")

    def lines(after: bytes, before: bytes) -> set[tuple[int | None, int | None]]:
        return {
            (
                change.after.location.line if change.after else None,
                change.before.location.line if change.before else None,
            )
            for change in opened(after, before).comparison.functions
        }

    assert lines(two(20, 40), two(22, 42)) == {(20, 22), (40, 42)}
    assert lines(two(20, 40), two(10, 20)) == {(20, 20), (40, 10)}
    assert lines(two(20, 40), broken_once(40)) == {(20, None), (40, 40)}
    assert lines(two(20, 40), broken_once(60)) == {(20, None), (40, None), (None, 60)}


@pytest.mark.parametrize(
    ("before", "after", "verdict", "is_noise"),
    [
        (10.0, 10.9, SAME, True),
        (10.0, 11.1, REGRESSION, False),
        (10.0, 8.9, IMPROVEMENT, False),
        (0.1, 0.14, SAME, True),
        (0.1, 0.16, REGRESSION, False),
        (0.0, 0.06, REGRESSION, False),
        (None, 5.0, SAME, False),
        (5.0, None, SAME, False),
    ],
)
def test_small_differences_of_single_runs_are_noise(
    before: float | None, after: float | None, verdict: ChangeVerdict, *, is_noise: bool
) -> None:
    change = TimeChange(before, after)
    assert (change.verdict, change.is_noise) == (verdict, is_noise)


def facts(kernels: tuple[str, ...] | None, operators: tuple[int, ...] = (4,)) -> FunctionFacts:
    return FunctionFacts(Location(PATH, 5), 1, operators, 0, (), 1.0, kernels, None)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (facts(("a",)), facts(("a", "b")), REGRESSION),
        (facts(("a", "b")), facts(("a",)), IMPROVEMENT),
        (facts(("a",)), facts(("b",)), CHANGE),
        (facts(("a",)), facts(("a", "b"), (6,)), CHANGE),
        (facts(("a",)), facts(("a",), (6,)), SAME),
        (facts(None), facts(("a",)), SAME),
        (None, facts(("a",)), SAME),
    ],
    ids=["more", "fewer", "other names", "another graph", "equal names", "not recorded", "a new function"],
)
def test_more_kernels_of_the_same_graph_are_a_regression(
    before: FunctionFacts | None, after: FunctionFacts, verdict: ChangeVerdict
) -> None:
    assert FunctionChange("f", False, Location(PATH, 5), before, after).kernels is verdict  # noqa: FBT003


CODE = """\
# AOT ID: ['0_{phase}']
async_compile = AsyncCompile()

# kernel path: /tmp/cache/{folder}/ab.py
triton_poi_fused_add_0 = async_compile.triton('triton_poi_fused_add_0', '''
    # Source node: model.py:{line}
    extern_kernels.not_a_call(x)
    inductor_meta={{'backend_hash': '{folder}', 'size': 4}}
''', device_str='cuda')
cpp_fused_mul_1 = async_compile.cpp_pybinding(['float*'], r'''#include "/tmp/{folder}/prefix.h"
''')

def call(args):
    extern_kernels.mm(arg0, arg1, out=buf0)
    triton_poi_fused_add_0.run(buf0, {size}, stream=stream0)
    buf1 = torch.ops.aten.convolution.default(buf0)
    cpp_fused_mul_1(buf1)
    triton_poi_fused_add_0.run(buf1, {size}, stream=stream0)
    return (buf1, )
"""


def code(phase: str = "forward", folder: str = "x", line: int = 3, size: int = 4) -> str:
    return CODE.format(phase=phase, folder=folder, line=line, size=size)


def test_generated_code_is_the_same_without_its_paths_and_comments() -> None:
    generated = read_generated([code()])
    assert generated.kernels == (
        "extern_kernels.mm",
        "triton_poi_fused_add_0",
        "aten.convolution.default",
        "cpp_fused_mul_1",
        "triton_poi_fused_add_0",
    )
    assert generated.keys == read_generated([code(folder="y", line=9)]).keys
    assert generated.keys != read_generated([code(size=8)]).keys
    both = [code(), code("backward", size=8)]
    assert read_generated(both) == read_generated(reversed(both)), "a hit can log the backward first"


def test_files_of_both_jobs_are_the_same_by_their_common_end() -> None:
    base = ["/a/net.py", "/a/x/layer.py", "/a/two.py", "/both.py"]
    later = ["/b/net.py", "/b/x/layer.py", "/b/y/layer.py", "/b/1/two.py", "/b/2/two.py", "/both.py"]
    assert common_paths(base, later) == {"/a/net.py": "/b/net.py", "/a/x/layer.py": "/b/x/layer.py"}


def test_a_variable_differs_only_if_both_jobs_recorded_the_environment(opened: Compare) -> None:
    def with_environment(**variables: str) -> bytes:
        return artifact("fuselight_environment", json.dumps(variables), at="") + broken(7)

    def variables(after: bytes, before: bytes) -> list[tuple[str, str | None, str | None]]:
        return [
            (change.name, change.before, change.after)
            for change in opened(after, before).comparison.conditions
            if change.kind is ConditionKind.VARIABLE
        ]

    logs, other = with_environment(TORCH_LOGS="+dynamo", MY_VARIABLE="mine"), with_environment()
    assert variables(logs, other) == [("TORCH_LOGS", None, "+dynamo")], "no other variable is kept"
    assert variables(logs, broken(7)) == []


def test_the_folder_of_the_logs_is_no_difference(opened: Compare) -> None:
    logs = [
        artifact("fuselight_environment", json.dumps({"TORCH_TRACE": folder}), at="") + broken(7)
        for folder in ("today", "yesterday")
    ]
    assert opened(*logs).comparison.conditions == ()


def test_a_miss_after_a_cold_start_has_its_cause(tmp_path: Path) -> None:
    def open_recorded(name: str) -> OpenedJob:
        request = OpenRequest((STARTS / f"{name}.log.gz",), (tmp_path,))
        (job,) = asyncio.run(open_jobs(request, lambda _text: None, CancelToken()))
        return job

    comparison = compare_opened(open_recorded("input_size"), open_recorded("base")).comparison
    rows = [row for row in change_rows(comparison, CHANGE) if " cache of " in row]
    assert {row.partition(" cache")[0] for row in rows} == {"FX graph", "AOTAutograd"}
    assert all("missed in both jobs" in row and "input 2 `x`: size 4x8 -> 6x8" in row for row in rows)


def test_the_log_that_ends_inside_a_compile_is_named(opened: Compare) -> None:
    start = record("dynamo_start", {"stack": [{"line": 30, "name": "g", "filename": PATH}]}, at="1/0/0")
    compared = opened(broken(7) + start, broken(7))
    assert (
        "The logs of today end inside a compile, so later compiles are missing." in compared.comparison.notes
    )
    assert compared.comparison.findings_in(FindingState.FIXED) == ()


def test_rows_stay_short_for_functions_with_many_graphs_and_long_reasons() -> None:
    before = facts(("a",))
    after = replace(
        facts(("a",), tuple(range(1, 41))),
        recompilations=39,
        reasons=tuple(f"{number} == {'x' * 500}" for number in range(39)),
    )
    change = FunctionChange("f", False, Location(PATH, 5), before, after)  # noqa: FBT003
    comparison = JobComparison("b", "a", None, None, (), (change,), TimeChange(None, None), (), ())
    (reasons,) = change_rows(comparison, REGRESSION)
    assert reasons.startswith("recompilations of f (/job/net.py:5): 0 -> 39; now because: `0 == xxx")
    assert reasons.endswith("...` and 33 more")
    (graphs,) = change_rows(comparison, CHANGE)
    assert graphs == "graphs of f (/job/net.py:5): 1 graph of 4 operators -> 40 graphs of 1 to 40 operators"
