"""A sweep on this machine, with real workers: rows of two jobs, and a worker that is killed in the middle."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuselight_server.sweep.results import read_results
from fuselight_server.sweep.rows import RowStatus
from tests.support.command import run_cli
from tests.support.prepared import prepared_interpreter
from tests.support.sweeps import KILLS_ITS_WORKER, NET

pytestmark = pytest.mark.torch
TWICE = NET.replace("self.linear(x).relu()", "self.linear(self.linear(x))")
"""Without a generated kernel: no C++ is compiled."""
assert TWICE != NET


def test_a_sweep_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "dies.py").write_text(
        KILLS_ITS_WORKER.format(marker=str(tmp_path / "died"), above=1), encoding="utf-8"
    )
    (tmp_path / "models" / "net.py").write_text(TWICE, encoding="utf-8")
    (tmp_path / "list.jsonl").write_text(
        '{"file": "models/dies.py"}\n{"file": "models/net.py", "name": "net", "target": "Net"}\n'
        '{"name": "gone", "absent": "no package ships it"}\n',
        encoding="utf-8",
    )
    options = (
        "--python",
        prepared_interpreter(),
        "--device",
        "cpu",
        "--rounds",
        "2",
        "--seconds",
        "0.02",
        "--no-accuracy",
        "--jobs",
        "1",
    )
    checked = run_cli("sweep", "list.jsonl", "--out", "out", *options)
    assert checked.exit_code == 0, checked.stderr
    rows = {row.id: row for row in read_results("out").rows}
    assert [row.status for row in rows.values()] == [RowStatus.ABSENT, RowStatus.DONE, RowStatus.DONE]
    died, net = rows["models/dies.py:Net check"], rows["net check"]
    assert (died.attempts, died.graphs, died.breaks) == (2, 1, 0)
    assert "first attempt was lost" in died.notes[0]
    assert (net.attempts, net.graphs, net.operators) == (1, 1, 2)
    assert net.torch
    assert net.node

    (tmp_path / "list.jsonl").write_text('{"file": "models/net.py", "name": "net", "target": "Net"}\n')
    resumed = run_cli("sweep", "list.jsonl", "--out", "out", "--do", "check,bench", "--resume", *options)
    assert resumed.exit_code == 0, resumed.stderr
    assert "1 task on" in resumed.stderr
    (bench,) = (row for row in read_results("out").rows if row.job.is_timed)
    assert {configuration.name: configuration.us is not None for configuration in bench.configurations} == {
        "eager": True,
        "default": True,
    }
    assert bench.best is not None
    assert bench.machine
