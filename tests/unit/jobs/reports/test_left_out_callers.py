"""The caller of a compiled function that torch leaves out of the stacks in its logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuselight.shared.report import Location
from fuselight_server.jobs.reports.left_out_callers import left_out_caller, read_calls
from tests.support.job_logs import open_job, project, written
from tests.support.trace_logs import artifact, record

SOURCE = """\
import torch


@torch.compile
def step(x):
    return x.sin()


def inner(x):
    y = step(
        x
    )
    return y


def twice(x):
    return step(step(x) +
                step(x))


def nothing(x):
    def inside():
        return step(x)
    return x


fast = torch.compile(step)


class Trainer:
    def one(self, x):
        return fast(x)

    def fit(self, x):
        self.one(x)
        inner(x)
        step(x)
        twice(x)
        nothing(x)
        self.same(x)

    def same(self, x):
        return step(x)


class Other:
    def same(self, x):
        return x
"""


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(SOURCE.splitlines(), 1) if text in line)


@pytest.mark.parametrize(
    ("logged", "called"),
    [
        ("        inner(x)", "y = step("),
        ("self.one(x)", "return fast(x)"),
        ("        step(x)", None),  # the logged line calls it itself
        ("        twice(x)", None),  # two lines of it do
        ("nothing(x)", None),  # a function in it does
        ("self.same(x)", None),  # two functions have the name
        ("return x.sin()", None),
        ("def fit", None),
    ],
)
def test_the_line_is_given_where_no_other_can_be_meant(logged: str, called: str | None) -> None:
    place = Location("/job/train.py", line_of(logged), function="fit")
    caller = left_out_caller(read_calls(SOURCE.splitlines()), place, "step")
    assert (caller and caller.line) == (called and line_of(called))


def test_a_file_that_does_not_parse_decides_nothing() -> None:
    assert left_out_caller(read_calls(["def f(:"]), Location("/job/train.py", 1), "step") is None


@pytest.mark.parametrize(
    ("text", "called", "word"),
    [
        # The source is that of the job, has another text on the logged line, or is not there.
        (SOURCE, "y = step(", "by"),
        (SOURCE.replace("        inner(x)", "        inner(x + 1)"), "        inner(x)", "during"),
        ("", "        inner(x)", "during"),
    ],
)
def test_a_recompilation_names_the_call_or_the_line_that_it_happened_during(
    tmp_path: Path, text: str, called: str, word: str
) -> None:
    path, line = "/job/train.py", line_of("        inner(x)")
    stack = [
        {"line": line, "name": "fit", "filename": path, "loc": "inner(x)"},
        {"line": 4, "name": "step", "filename": path},
    ]
    metrics = {"co_name": "step", "co_filename": path, "co_firstlineno": 4, "graph_op_count": 1}
    reason = "0/0: tensor 'x' size mismatch at index 0. expected 4, actual 5"
    log = b"".join(
        (
            record("dynamo_start", {"stack": stack}),
            record("compilation_metrics", metrics),
            record("dynamo_start", {"stack": stack}, at="0/1/0"),
            artifact("recompile_reasons", f'["{reason}"]', at="0/1/0"),
            record("compilation_metrics", metrics, at="0/1/0"),
        )
    )
    source = project(tmp_path / "source", {"train.py": text} if text else {"other.py": ""})
    job = open_job(written(tmp_path / "logs", {"x": log}), source)
    (finding,) = [item for item in job.findings if item.code == "FL201"]
    (call,) = [item for item in finding.related if "triggered" in item.message]
    assert call.message == f"triggered {word} this call, as was the earlier compile"
    assert call.span.line == line_of(called)
