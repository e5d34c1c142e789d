"""Jobs that were recorded on GPUs (tests/recordings/h200/jobs/recording.json says which and how): NCCL, CUDA graphs."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuselight_server.commands.opened_job import OpenedJob
from fuselight_server.jobs.caches.model import StartStage
from tests.support.job_logs import open_job

JOBS = Path(__file__).parents[2] / "recordings" / "h200" / "jobs"


@pytest.fixture(scope="module")
def hung() -> OpenedJob:
    """Two ranks, of which one calls an all_reduce that the other leaves out, until NCCL's timeout."""
    return open_job(JOBS / "hang", JOBS / "hang")


def test_a_wait_is_on_the_users_line_and_not_in_generated_code(hung: OpenedJob) -> None:
    (finding,) = [finding for finding in hung.findings if finding.code == "FL916"]
    source = JOBS / "hang" / "hang.py"
    line = (
        source.read_text()
        .splitlines()
        .index('        x = collectives.all_reduce(x, "sum", dist.group.WORLD)')
        + 1
    )
    assert (Path(finding.span.path), finding.span.line) == (source, line)
    assert finding.title.startswith("rank 0 waits in `all_reduce`")
    assert finding.title.endswith("rank 1 has no dump")


def test_the_collective_that_a_rank_leaves_out_is_on_the_same_line(hung: OpenedJob) -> None:
    (missing,) = [finding for finding in hung.findings if finding.code == "FL912"]
    (wait,) = [finding for finding in hung.findings if finding.code == "FL916"]
    assert missing.span.line == wait.span.line
    assert missing.title == "rank 1 calls no `all_reduce` here (rank 0 does)"


def test_the_start_of_a_program_with_cuda_graphs_and_autotuning() -> None:
    job = open_job(JOBS / "start", JOBS / "start")
    (start,) = job.starts
    seconds = {item.stage: item.seconds for item in start.stages}
    assert seconds[StartStage.AUTOTUNING] > 1
    assert 0 < seconds[StartStage.CUDA_GRAPHS] < 1
    assert set(seconds) >= {StartStage.TRACING, StartStage.CODE_GENERATION, StartStage.COMPILING}
