"""Breaks that end a compile, in logs of releases that do not record whether torch skipped the frame."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.job_logs import open_job, project, written
from tests.support.trace_logs import artifact, record

SOURCE = """\
def guarded(x):
    try:
        x = x + 1
        input("name")
    except ValueError:
        pass
    return x
"""
ERROR = """\
Traceback (most recent call last):
  File "/venv/site-packages/torch/_dynamo/convert_frame.py", line 1008, in _compile
    guarded_code = compile_inner(code, one_graph, hooks)
torch._dynamo.exc.Unsupported: {message}

from user code:
   File "/job/net.py", line 4, in guarded
    input("name")

Set TORCH_LOGS="+dynamo" and TORCHDYNAMO_VERBOSE=1 for more information
"""
EARLY = "builtin: input [<class 'torch._dynamo.variables.constant.ConstantVariable'>] False"
LATER = "Failed to trace builtin operator\n  Explanation: Dynamo does not know how to trace builtin operator `input`"
UNCLEAR = "whether a break that ended a compile was an error of `fullgraph=True`"


def log_of(version: str | None, message: str) -> bytes:
    metrics = {
        "co_name": "guarded",
        "co_filename": "/job/net.py",
        "co_firstlineno": 1,
        "fail_type": "Unsupported",
        "fail_reason": message,
        **({} if version is None else {"pytorch_version": version}),
    }
    stack = [{"line": 1, "name": "guarded", "filename": "/job/net.py"}]
    return b"".join(
        (
            record("dynamo_start", {"stack": stack}),
            artifact("dynamo_error", ERROR.format(message=message)),
            record("compilation_metrics", metrics),
        )
    )


@pytest.mark.parametrize(
    ("version", "message"), [(None, EARLY), (None, LATER), ("2.8.0+cu128", LATER), ("2.10.1", LATER)]
)
def test_a_break_without_a_record_skips_its_frame(tmp_path: Path, version: str | None, message: str) -> None:
    source = project(tmp_path / "source", {"net.py": SOURCE})
    job = open_job(written(tmp_path / "logs", {"a": log_of(version, message)}), source)
    assert [(finding.span.line, finding.code) for finding in job.findings] == [(1, "FL101"), (4, "GB0059")]
    assert job.findings[1].title == "graph break: `input` cannot be traced"
    assert any(UNCLEAR in note for note in job.notes)


@pytest.mark.parametrize("version", ["2.11.0", "2.13.0+cpu", "3.0.0"])
def test_it_is_an_error_of_fullgraph_where_a_skip_has_a_record(tmp_path: Path, version: str) -> None:
    source = project(tmp_path / "source", {"net.py": SOURCE})
    job = open_job(written(tmp_path / "logs", {"a": log_of(version, LATER)}), source)
    assert [(finding.span.line, finding.code) for finding in job.findings] == [(4, "FL404")]
    assert not any(UNCLEAR in note for note in job.notes)
