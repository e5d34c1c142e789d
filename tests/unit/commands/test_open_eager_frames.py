"""Functions of a job that run in eager mode: what follows a break, and frames of libraries that nobody compiled."""

from __future__ import annotations

from pathlib import Path

from tests.support.job_logs import open_job, project, written
from tests.support.trace_logs import artifact, record

BREAK = """\
Graph break in user code at {path}:{line}
Graph Break Reason: {preface}:

Failed to trace builtin operator
  Explanation: Dynamo does not know how to trace builtin operator `input` with argument types ['str'].

 For more details about this graph break, please visit: https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html

User code traceback:
{stack}
"""
NO_RESUME = (
    "Encountered graph break that we cannot resume from. Compiling up to the previous resumable state, "
    "then skipping the rest of the function. Graph break encountered"
)
RESUMES = "Encountered graph break when attempting to trace CALL: a function call, e.g. f(x, y)"
SKIPS = "Failed to handle graph break gracefully. Skipping the function and falling back to eager"
Stack = list[tuple[str, int, str]]


def broken(preface: str, stack: Stack, *, at: str = "0/0/0") -> bytes:
    printed = "\n".join(f'  File "{path}", line {line}, in {name}\n    call()' for path, line, name in stack)
    path, line, _ = stack[-1]
    text = BREAK.format(path=path, line=line, preface=preface, stack=printed)
    return artifact("dynamo_graph_break_reason", text, at=at)


def compile_of(
    start: Stack, breaks: bytes, *, line: int, at: str = "0/0/0", is_skipped: bool = False
) -> bytes:
    frames = [{"line": at_line, "name": name, "filename": path} for path, at_line, name in start]
    path, _, name = start[-1]
    metrics = {
        "co_name": name,
        "co_filename": path,
        "co_firstlineno": line,
        "graph_op_count": 2,
        "fail_type": "Unsupported" if is_skipped else None,
        "pytorch_version": "2.13.0",
    }
    graph = b"" if is_skipped else record("dynamo_output_graph", {}, "class GraphModule:\n    pass", at=at)
    return b"".join(
        (
            record("dynamo_start", {"stack": frames}, at=at),
            breaks,
            graph,
            record("compilation_metrics", metrics, at=at),
        )
    )


SOURCE = """\
def ask(x, *names):
    return x + len(input(names[0]))


def score(x):
    y = x.sin()
    y = ask(*(y,), "name")
    return y.cos()


score(X)
"""


def test_the_rest_of_a_function_that_cannot_be_resumed_is_not_compiled(tmp_path: Path) -> None:
    source = project(tmp_path / "source", {"net.py": SOURCE})
    start: Stack = [("/job/net.py", 11, "<module>"), ("/job/net.py", 5, "score")]
    for preface, codes in (
        (NO_RESUME, [(2, "GB0059"), (5, "FL101")]),
        (RESUMES, [(2, "GB0059")]),
    ):
        stack: Stack = [start[0], ("/job/net.py", 7, "score"), ("/job/net.py", 2, "ask")]
        log = compile_of(start, broken(preface, stack), line=5)
        job = open_job(written(tmp_path / preface[30:36], {"a": log}), source)
        assert sorted((finding.span.line, finding.code) for finding in job.findings) == codes
    (job,) = [open_job(tmp_path / NO_RESUME[30:36], source)]
    rest = next(finding for finding in job.findings if finding.code == "FL101")
    assert "the rest of `score`, from line 7 on, is not compiled" in rest.title
    assert "The cause is the graph break on line 2" in rest.message


def test_a_frame_of_a_library_that_its_eager_caller_called_is_no_finding(tmp_path: Path) -> None:
    """Although the trace names no file of the program: then the library's outermost file stands for it."""
    library = "/venv/lib/python3.11/site-packages/zoo/wrapping.py"
    outer: Stack = [(library, 10, "call_model")]
    inner: Stack = [(library, 14, "call_model"), (library, 30, "defaults")]
    deepest = (library, 44, "ask")
    own = compile_of(
        outer, broken(RESUMES, [(library, 14, "call_model"), (library, 33, "defaults"), deepest]), line=10
    )
    called = compile_of(
        inner,
        broken(SKIPS, [(library, 14, "call_model"), (library, 33, "defaults"), deepest], at="1/0/0"),
        line=30,
        at="1/0/0",
        is_skipped=True,
    )
    source = project(tmp_path / "source", {"train.py": "X = 1\n"})
    job = open_job(written(tmp_path / "logs", {"a": own + called}), source)
    assert [finding.code for finding in job.findings] == ["GB0059"]

    alone = compile_of(outer, broken(SKIPS, [(library, 14, "call_model"), deepest]), line=10, is_skipped=True)
    job = open_job(written(tmp_path / "alone", {"a": alone}), source)
    assert sorted(finding.code for finding in job.findings) == ["FL101", "GB0059"]
