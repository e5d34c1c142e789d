"""The use case that opens the logs of jobs: findings on local lines, partial results, questions, refusals."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuselight.shared.report import Location, NotCompiled, NotCompiledKind
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.command_error import CommandError
from fuselight_server.commands import open as opening
from fuselight_server.commands.open import OpenRequest, open_jobs
from fuselight_server.commands.opened_job import OpenedJob
from fuselight_server.jobs.reports.conversion import without_wrappers
from fuselight_server.jobs.reports.mapping import AmbiguousFile, LineState
from fuselight_server.jobs.trace_log.reader import JobReader, ReadStep
from tests.support.job_logs import REASON, SOURCE, log_of, open_job, project, written
from tests.support.trace_logs import artifact, record


def lines_of(job: OpenedJob) -> list[tuple[str, int, str]]:
    return [(Path(finding.span.path).name, finding.span.line, finding.code) for finding in job.findings]


def test_the_findings_of_a_job_stand_on_local_lines(tmp_path: Path) -> None:
    source = project(tmp_path / "source", {"src/net.py": SOURCE})
    job = open_job(written(tmp_path / "logs", {"a": log_of("/job/src/net.py")}), source)
    assert lines_of(job) == [("net.py", 6, "FL201"), ("net.py", 7, "GB0059")]
    recompiled, broken = job.findings
    assert recompiled.span.path == broken.span.path == str(source / "src/net.py")
    assert recompiled.title == "recompiled: self.scale is no longer 1.0"
    assert [job.state_of(finding) for finding in job.findings] == [LineState.UNKNOWN, LineState.CURRENT]
    assert "whether it has changed since is unknown" in recompiled.message
    assert "`Net.forward`" in broken.message
    (process,) = job.processes
    assert process.report.target.path == "/job/src/train.py"
    assert (job.exit_code, job.is_partial) == (1, False)
    assert len(repr(job)) < 100
    assert any(note.startswith("Not in the logs: the values of arguments") for note in job.notes)


def test_a_line_that_has_changed_is_of_the_jobs_source(tmp_path: Path) -> None:
    source = project(tmp_path / "source", {"net.py": SOURCE.replace("print(x)", "log(x)")})
    job = open_job(written(tmp_path / "logs", {"a": log_of("/job/net.py")}), source)
    broken = job.findings[-1]
    assert job.state_of(broken) is LineState.CHANGED
    assert broken.message.endswith("Of the job's source: line 7 was `print(x)`, and has changed since.")


def test_findings_of_files_that_are_not_here_keep_their_path_in_the_job(tmp_path: Path) -> None:
    source = project(tmp_path / "source", {"other.py": ""})
    job = open_job(written(tmp_path / "logs", {"a": log_of("/job/net.py")}), source)
    assert {finding.span.path for finding in job.findings} == {"/job/net.py"}
    assert job.outcome.sources.line("/job/net.py", 7) == "print(x)", "as the log quotes it"
    assert any("/job/net.py" in note and "--source" in note for note in job.notes)


def test_no_file_is_read_because_a_log_names_it(tmp_path: Path) -> None:
    source = project(tmp_path / "source", {"net.py": SOURCE})
    secret = tmp_path / "net.py"
    secret.write_text("\n" * 6 + "token = 'hunter2'\n")
    for path in (str(secret), f"{source}/../net.py"):
        job = open_job(written(tmp_path / "logs", {"a": log_of(path)}), source)
        shown = "".join(f"{finding.message}{job.outcome.sources.line(path, 7)}" for finding in job.findings)
        assert "hunter2" not in shown


def test_each_finding_of_several_ranks_is_there_once_and_names_its_ranks(tmp_path: Path) -> None:
    source = project(tmp_path / "source", {"net.py": SOURCE})
    logs = {
        f"rank_{rank}": log_of(
            "/job/net.py", process=20 + rank, rank=rank, scale="2.0" if rank == 3 else "1.0"
        )
        for rank in range(4)
    }
    job = open_job(written(tmp_path / "logs", logs), source)
    assert [process.label for process in job.processes] == ["rank 0", "rank 1", "rank 2", "rank 3"]
    assert lines_of(job) == [("net.py", 6, "FL201"), ("net.py", 6, "FL201"), ("net.py", 7, "GB0059")]
    first, second, broken = job.findings
    assert "In rank 0, rank 1 and rank 2 of 4 processes." in first.message
    assert "In rank 3 of 4 processes." in second.message
    assert "processes" not in broken.message


def test_a_comment_silences_a_finding_of_a_job(tmp_path: Path) -> None:
    text = SOURCE.replace("print(x)", "print(x)  # fuselight: ignore[GB0059]")
    source = project(tmp_path / "source", {"net.py": text})
    job = open_job(written(tmp_path / "logs", {"a": log_of("/job/net.py", text="print(x)")}), source)
    assert [finding.code for finding in job.findings] == ["FL201"]


def test_an_ambiguous_file_is_asked_for_once(tmp_path: Path) -> None:
    source = project(tmp_path / "source", {"a/net.py": SOURCE, "b/net.py": SOURCE})
    logs = written(tmp_path / "logs", {"a": log_of("/job/net.py")})
    with pytest.raises(CommandError, match=r"`/job/net.py` of the job may be .*a/net.py.*--source DIR"):
        open_job(logs, source)
    asked: list[AmbiguousFile] = []

    async def choose(file: AmbiguousFile) -> str | None:
        asked.append(file)
        return next(path for path in file.candidates if "/b/" in path)

    assert open_job(logs, source, choose=choose).findings[0].span.path == str(source / "b/net.py")
    assert [file.path for file in asked] == ["/job/net.py"]
    assert open_job(logs, source).findings[0].span.path == str(source / "b/net.py"), "the answer is kept"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "has no log of torch.compile"),
        ({"app.log": b"2026-11-27 started\n"}, "has no log of torch.compile"),
        ({"dedicated_log_torch_trace_x.log": bytes(range(256)) * 64}, "has no record of torch.compile"),
        ({"dedicated_log_torch_trace_x.log": b""}, "has no record of torch.compile"),
    ],
    ids=["an empty folder", "another program's log", "binary rubbish", "an empty log"],
)
def test_what_is_no_log_is_refused_with_the_next_step(
    tmp_path: Path, files: dict[str, bytes], message: str
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for name, data in files.items():
        (logs / name).write_bytes(data)
    with pytest.raises(CommandError) as error:
        open_job(logs, project(tmp_path / "source", {}))
    assert message in str(error.value)
    assert "TORCH_TRACE" in str(error.value)


def test_a_source_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    logs = written(tmp_path / "logs", {"a": log_of("/job/net.py")})
    with pytest.raises(CommandError, match="is no folder"):
        open_job(logs, tmp_path / "absent")
    with pytest.raises(CommandError, match="cannot be read"):
        open_job(tmp_path / "absent.log", project(tmp_path / "source", {}))


NEXT = record("str", ["/job/later.py", 3], at="", process=7)
"""A record: the one before it is known to have ended."""


def test_partial_results_come_while_the_logs_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_FIRST_PARTIAL", 0.0)
    source = project(tmp_path / "source", {"net.py": SOURCE})
    logs = written(
        tmp_path / "logs", {"a": log_of("/job/net.py") + NEXT, "b": log_of("/job/net.py", process=8)}
    )
    partial: list[tuple[OpenedJob, ...]] = []
    job = open_job(logs, source, on_partial=partial.append)
    assert partial
    assert all(each.is_partial for (each,) in partial)
    assert lines_of(partial[0][0]) == lines_of(job)


def test_a_growing_log_is_followed_until_the_token_is_canceled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_FIRST_PARTIAL", 0.0)
    monkeypatch.setattr(opening, "_FOLLOW_EVERY", 0.05)
    source = project(tmp_path / "source", {"net.py": SOURCE})
    data = log_of("/job/net.py") + NEXT
    half = data.index(b"recompile_reasons")
    half = data.rindex(b"\nV", 0, half) + 1
    logs = written(tmp_path / "logs", {"a": data[:half]})
    token = CancelToken()
    partial: list[list[str]] = []

    def take(jobs: tuple[OpenedJob, ...]) -> None:
        partial.append([finding.code for finding in jobs[0].findings])
        if len(partial) == 1:
            with (logs / "dedicated_log_torch_trace_a.log").open("ab") as file:
                file.write(data[half:])
        elif "FL201" in partial[-1]:
            token.cancel()

    async def follow() -> tuple[OpenedJob, ...]:
        request = OpenRequest((logs,), (source,), is_followed=True)
        return await asyncio.wait_for(open_jobs(request, lambda _: None, token, on_partial=take), 60)

    (job,) = asyncio.run(follow())
    assert partial[0] == ["GB0059"]
    assert [finding.code for finding in job.findings] == ["FL201", "GB0059"]


@pytest.mark.parametrize(("is_traced", "known"), [(False, ["GB0059"]), (True, ["FL201", "GB0059"])])
def test_a_finding_of_a_followed_job_comes_when_its_line_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_traced: bool, known: list[str]
) -> None:
    """What a compile logs until its graph can give a recompilation another line."""
    monkeypatch.setattr(opening, "_FIRST_PARTIAL", 0.0)
    source = project(tmp_path / "source", {"net.py": SOURCE})
    data = log_of("/job/net.py")
    end = data.rindex(b"\nV") + 1
    graph = record("dynamo_output_graph", {}, "class GraphModule: pass", at="0/1/0", process=7)
    logs = written(tmp_path / "logs", {"a": data[:end] + (graph if is_traced else b"") + NEXT})
    partial: list[list[str]] = []
    job = open_job(
        logs,
        source,
        on_partial=lambda jobs: partial.append([finding.code for finding in jobs[0].findings]),
    )
    assert partial[-1] == known
    assert [finding.code for finding in job.findings] == ["FL914", "FL201", "GB0059"]


def test_a_cancel_ends_the_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = written(tmp_path / "logs", {str(number): log_of("/job/net.py") for number in range(50)})
    token = CancelToken()
    source = project(tmp_path / "source", {})
    steps: list[ReadStep] = []
    is_canceled = threading.Event()

    def cancel(_progress: object) -> None:
        token.cancel()
        is_canceled.set()

    class WaitingReader(JobReader):
        """Reads on in its thread only once the cancel has come in that of the loop."""

        def steps(self) -> Iterator[ReadStep]:
            for step in super().steps():
                steps.append(step)
                yield step
                assert is_canceled.wait(60)

    monkeypatch.setattr(opening, "JobReader", WaitingReader)

    async def run() -> None:
        await open_jobs(OpenRequest((logs,), (source,)), cancel, token)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())
    assert len(steps) == 1, "of 50 files"


LIBRARY = "/env/lib/python3.11/site-packages/lib/layers.py"


@pytest.mark.parametrize(
    ("printed", "place"),
    [((), ("train.py", 3)), ((("/job/net.py", 4, "forward"),), ("net.py", 4))],
    ids=["called from the program", "called from the compiled function"],
)
def test_a_break_in_a_package_is_on_the_line_of_the_program_that_led_to_it(
    tmp_path: Path, printed: tuple[tuple[str, int, str], ...], place: tuple[str, int]
) -> None:
    """torch prints the stack of a break from the compiled function on; its start has the program's line."""
    files = {"train.py": "import lib\n\nlib.net(1)\n", "net.py": "\n\n\n    lib.part(x)\n"}
    source = project(tmp_path / "source", files)
    frames = [("/job/train.py", 3, "<module>"), (LIBRARY, 7, "wrapper")]
    stack = [{"line": line, "name": name, "filename": path} for path, line, name in frames]
    reason = REASON.split("User code traceback:")[0].format(path=LIBRARY)
    rows = (*printed, (LIBRARY, 7, "wrapper"))
    shown = "".join(f'  File "{path}", line {line}, in {name}\n    code\n' for path, line, name in rows)
    reason += f"User code traceback:\n{shown}"
    metrics = {"co_name": "wrapper", "co_filename": LIBRARY, "co_firstlineno": 5}
    log = (
        record("dynamo_start", {"stack": stack})
        + artifact("dynamo_graph_break_reason", reason)
        + record("compilation_metrics", metrics)
    )
    job = open_job(written(tmp_path / "logs", {"0": log}), source)
    (finding,) = job.findings
    assert (finding.code, Path(finding.span.path).name, finding.span.line) == ("GB0059", *place)


def test_a_wrapper_of_a_package_repeats_no_finding_of_what_it_wraps() -> None:
    def row(path: str, *lines: tuple[str, int], gb_id: str = "GB0033") -> NotCompiled:
        stack = tuple(Location(file, line) for file, line in lines)
        return NotCompiled(NotCompiledKind.SKIPPED, "f", Location(path, 1), "", stack=stack, gb_id=gb_id)

    own, inner = "/here/net.py", (("/here/net.py", 5), ("/here/net.py", 9))
    function = row(own, *inner)
    wrapper = row(LIBRARY, (LIBRARY, 7), *inner)
    other_cause = row(LIBRARY, (LIBRARY, 7), *inner, gb_id="GB0059")
    other_line = row(LIBRARY, (LIBRARY, 7), (own, 6))
    rows = [wrapper, function, other_cause, other_line]
    assert without_wrappers(rows, {own}) == [function, other_cause, other_line]
    assert without_wrappers([wrapper], {own}) == [wrapper]
