"""Opening the logs of a job of several ranks: their differences on local lines, in every format."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
from pathlib import Path

import pytest

from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.jobs import FindingStream, jobs_as_json, print_jobs
from fuselight_server.commands.open import OpenRequest, open_jobs
from fuselight_server.commands.opened_job import OpenedJob
from tests.support.job_logs import project
from tests.support.rank_logs import PROGRAMS, SOURCE, unpack


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> OpenedJob:
    folder = tmp_path_factory.mktemp("job")
    logs = unpack(folder / "logs", "last_batch") / "last_batch"
    source = project(folder / "source", {})
    shutil.copy(PROGRAMS, source)
    (job,) = asyncio.run(open_jobs(OpenRequest((logs,), (source,)), lambda _text: None, CancelToken()))
    return job


def test_a_difference_of_ranks_is_a_finding_on_a_local_line(opened: OpenedJob) -> None:
    (finding,) = [item for item in opened.findings if item.code == "FL913"]
    assert Path(finding.span.path).name == "rank_jobs.py"
    assert Path(finding.span.path).is_file()
    assert "# HERE" in SOURCE[finding.span.line - 1]
    assert finding.title.startswith("ranks 1 and 3 compiled again here: x.size(0) was 4, now 6")
    assert "has not tried" in finding.message
    assert opened.exit_code == 1


def test_the_table_of_ranks_is_printed_with_groups_and_a_timeline(opened: OpenedJob) -> None:
    stream = io.StringIO()
    terminal = Terminal(stream)
    print_jobs([opened], FindingStream(terminal), terminal)
    text = stream.getvalue()
    assert "4 ranks:" in text
    assert "ranks 0 and 2: 1 compile, compile time" in text
    assert "ranks 1 and 3: 2 compiles, 1 recompilation, compile time" in text
    assert "a compile that had not ended when the log ended" in text
    slowest = max(opened.starts, key=lambda picture: picture.seconds)
    assert f"slowest start (rank {slowest.rank}):" in text, "the process, not the name of its log"


def test_json_has_the_ranks(opened: OpenedJob) -> None:
    ranks = json.loads(jobs_as_json([opened]))["jobs"][0]["ranks"]
    assert [row["rank"] for row in ranks["rows"]] == [0, 1, 2, 3]
    assert ranks["differences"][0]["kind"] == "recompilation"
