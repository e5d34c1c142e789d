"""`fuselight sweep` with an engine that answers from a script: resume, interrupts, formats, and bad input."""

from __future__ import annotations

import csv
import io
import json
import re
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.remote.run_client import RemoteAnswer
from fuselight_server.cli import sweep
from fuselight_server.sweep import ray_engine
from fuselight_server.sweep.engines import WorkerVersions
from fuselight_server.sweep.results import PAGE, ROWS, ResultsFolder, read_results
from fuselight_server.sweep.rows import RowStatus, SweepRow
from fuselight_server.sweep.tasks import SweepTask
from tests.support.command import Result, run_cli
from tests.support.lsp_client import ROOT
from tests.support.sweeps import NET, ScriptedEngine, answer_of, row

FAILED = {"failures": [{"culprit": "user", "kind": "exception", "message": "ValueError: no"}]}


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "models").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "models" / f"{name}.py").write_text(NET, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "models"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> ScriptedEngine:
    scripted = ScriptedEngine()
    monkeypatch.setattr(sweep, "_engine", lambda _options: scripted)
    return scripted


def swept(*options: str) -> Result:
    return run_cli("sweep", "models", "--out", "out", *options)


def test_each_row_is_printed_and_kept(models: Path, engine: ScriptedEngine) -> None:
    result = swept()
    assert result.exit_code == 0
    assert result.stdout.count("done   ") == len(list(models.iterdir()))
    assert "3 rows: 3 done" in result.stdout
    assert [sweep_row.name for sweep_row in read_results("out").rows] == ["a.py:Net", "b.py:Net", "c.py:Net"]
    assert (Path("out") / PAGE).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert engine.is_closed


@pytest.mark.usefixtures("models")
def test_an_interrupted_sweep_goes_on_where_it_stopped(engine: ScriptedEngine) -> None:
    def answer(task: SweepTask, _attempt: int) -> RemoteAnswer:
        if task.id.startswith("b.py") and not engine.is_closed:
            raise KeyboardInterrupt
        return answer_of(task)

    engine.answer = answer
    result = swept()
    assert result.exit_code == 130
    assert "2 of 3 tasks left; go on with `fuselight sweep models --out out --resume`" in result.stderr
    assert engine.is_closed
    assert [sweep_row.name for sweep_row in read_results("out").rows] == ["a.py:Net"]
    refused = swept()
    assert (refused.exit_code, "--resume" in refused.stderr) == (2, True)
    assert swept("--resume").exit_code == 0
    assert [text.split(".")[0] for text in engine.ran] == ["a", "b", "b", "c"]
    assert swept("--resume").exit_code == 0
    assert len(engine.ran) == 4
    assert len((Path("out") / ROWS).read_text(encoding="utf-8").splitlines()) == 3


@pytest.mark.usefixtures("models", "engine")
def test_an_interrupt_while_a_row_is_written_counts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ResultsFolder.append

    def append(folder: ResultsFolder, written: SweepRow) -> None:
        real(folder, written)
        if written.name == "b.py:Net":
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ResultsFolder, "append", append)
    result = swept()
    assert result.exit_code == 130
    assert "1 of 3 tasks left" in result.stderr
    assert "b.py" in (Path("out") / PAGE).read_text(encoding="utf-8")
    assert [sweep_row.name for sweep_row in read_results("out").rows] == ["a.py:Net", "b.py:Net"]


def test_an_edited_model_runs_again(models: Path, engine: ScriptedEngine) -> None:
    swept()
    (models / "b.py").write_text(NET.replace("relu", "sigmoid"), encoding="utf-8")
    swept("--resume")
    assert engine.ran[3:] == ["b.py:Net check"]


def test_a_model_whose_imports_were_edited_runs_again(models: Path, engine: ScriptedEngine) -> None:
    (models / "a.py").write_text(f"from parts.layers import Layer\n{NET}", encoding="utf-8")
    (models / "parts").mkdir()
    (models / "parts" / "layers.py").write_text("from . import sizes\n", encoding="utf-8")
    (models / "parts" / "sizes.py").write_text("WIDTH = 8\n", encoding="utf-8")
    assert swept("--resume").exit_code == 2  # parts/*.py have no target
    first = list(engine.ran)
    swept("--resume")
    assert engine.ran == first
    (models / "parts" / "sizes.py").write_text("WIDTH = 16\n", encoding="utf-8")
    swept("--resume")
    assert engine.ran[len(first) :] == ["a.py:Net check"]


@pytest.mark.usefixtures("models")
def test_results_of_another_torch_are_run_again(engine: ScriptedEngine) -> None:
    swept()
    engine.known_versions = WorkerVersions("3.11.9", ("2.13.0",))  # as in the rows, but for the micro version
    swept("--resume")
    assert len(engine.ran) == 3
    for number, versions in enumerate(
        (WorkerVersions("3.11.7", ("2.14.0",)), WorkerVersions("3.12.7", ("2.13.0",)))
    ):
        engine.known_versions = versions
        again = swept("--resume")
        assert "replacing 3 results of another torch or Python: running again with torch 2.1" in again.stderr
        assert len(engine.ran) == 6 + 3 * number
    engine.known_versions = None
    swept("--resume")
    assert len(engine.ran) == 9


@pytest.mark.usefixtures("models")
def test_what_failed_is_tried_again_only_on_request(engine: ScriptedEngine) -> None:
    engine.answer = lambda task, _attempt: answer_of(task, **(FAILED if task.id.startswith("b") else {}))
    assert swept().exit_code == 2
    assert swept("--resume").exit_code == 2
    assert len(engine.ran) == 3
    engine.answer = lambda task, _attempt: answer_of(task)
    assert swept("--resume", "--retry-failed").exit_code == 0
    assert engine.ran[3:] == ["b.py:Net check"]
    assert {sweep_row.status for sweep_row in read_results("out").rows} == {RowStatus.DONE}


@pytest.mark.usefixtures("models", "engine")
def test_two_sweeps_in_one_folder_are_refused() -> None:
    taken = ResultsFolder(Path("out"))
    taken.take_folder()
    try:
        result = swept()
    finally:
        taken.close()
    assert result.exit_code == 2
    assert "another sweep" in result.stderr


@pytest.mark.usefixtures("models", "engine")
def test_formats() -> None:
    data = json.loads(swept("--format", "json").stdout)
    assert len(data["rows"]) == 3
    assert data["about"]["suite"] == "models"
    lines = list(csv.DictReader(io.StringIO(swept("--resume", "--format", "csv").stdout)))
    assert [line["name"] for line in lines] == ["a.py:Net", "b.py:Net", "c.py:Net"]
    assert swept("--resume", "--format", "html").stdout.startswith("<!DOCTYPE html>")


@pytest.mark.usefixtures("models", "engine")
def test_regressions_come_first_and_are_the_exit_code() -> None:
    old = ResultsFolder(Path("old"))
    old.take_folder()
    old.open_rows()
    old.append(row("a.py:Net", graphs=0, breaks=0, recompilations=0))
    same = swept("--against", "old")
    assert same.exit_code == 0
    assert "compared with old: 0 regressions" in same.stdout
    old.append(row("a.py:Net", kernels=3))
    old.append(row("b.py:Net", graphs=1, breaks=0))
    better = swept("--resume", "--against", "old")
    assert better.exit_code == 0
    assert "improvement b.py:Net check: graphs: 1 graph -> 0 graphs" in better.stdout
    old.close()
    worse = ResultsFolder(Path("worse"))
    worse.take_folder()
    worse.open_rows()
    for sweep_row in read_results("out").rows:
        worse.append(replace(sweep_row, graphs=2))
    worse.close()
    result = run_cli("sweep", "models", "--out", "worse", "--resume", "--against", "out")
    assert result.exit_code == 1
    assert "regression  a.py:Net check: graphs: 0 graphs -> 2 graphs" in result.stdout


@pytest.mark.usefixtures("models", "engine")
def test_a_sweep_without_a_folder_has_one_in_the_project() -> None:
    Path("pyproject.toml").write_text("", encoding="utf-8")
    assert run_cli("sweep", "models").exit_code == 0
    (folder,) = Path(".fuselight/sweeps").iterdir()
    assert folder.name.startswith("models-")
    assert run_cli("sweep", "models", "--resume").exit_code == 0
    assert list(Path(".fuselight/sweeps").iterdir()) == [folder]
    nothing = run_cli("sweep", "models/a.py", "--resume")
    assert (nothing.exit_code, "no earlier sweep of `models/a.py`" in nothing.stderr) == (2, True)


def test_a_sweep_is_resumed_for_its_own_suite_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: ScriptedEngine
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").write_text("", encoding="utf-8")
    for number, suite in enumerate(("x/models", "y/models", "a", "a-3", "m[1]")):
        Path(suite).mkdir(parents=True)
        (Path(suite) / "small.py").write_text(NET, encoding="utf-8")
        (Path(suite) / f"only{number}.py").write_text(NET, encoding="utf-8")
    assert run_cli("sweep", "x/models").exit_code == 0
    refused = run_cli("sweep", "y/models", "--resume")
    assert (refused.exit_code, "no earlier sweep of `y/models`" in refused.stderr) == (2, True)
    for suite in ("a", "a-3", "m[1]"):
        assert run_cli("sweep", suite).exit_code == 0
    assert len(engine.ran) == 8
    for suite in ("x/models", "a", "a-3", "m[1]"):
        again = run_cli("sweep", suite, "--resume")
        assert (again.exit_code, "0 tasks on" in again.stderr) == (0, True), again.stderr
    assert run_cli("sweep", "x/../x/models/", "--resume").exit_code == 0
    assert len(engine.ran) == 8
    assert len(list(Path(".fuselight/sweeps").iterdir())) == 4


BAD = {
    "there is no suite": ["sweep", "nothing"],
    "there is no job `chek`; did you mean check?": ["sweep", "models", "--do", "chek"],
    "is no duration": ["sweep", "models", "--do", "tune", "--budget", "soon"],
    "add --engine ray": ["sweep", "models", "--address", "here:1"],
    "this machine has": ["sweep", "models", "--gpus", "99"],
    "there is no GPU in": ["sweep", "models", "--do", "bench", "--device", "cuda"],
    "has no results of a sweep": ["sweep", "models", "--against", "nothing"],
    "no configuration 'fast'": ["sweep", "models", "--compare", "fast"],
    "--device h100 names a GPU that may be absent": [
        "sweep",
        "models",
        "--do",
        "bench,check",
        "--device",
        "h100",
    ],
    "There is no device `abacus`": ["sweep", "models", "--device", "abacus"],
}


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize("message", BAD)
def test_bad_input_names_the_culprit(message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    result = run_cli(*BAD[message])
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.usefixtures("models")
def test_ray_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    result = run_cli("sweep", "models", "--engine", "ray")
    assert result.exit_code == 2
    (needed,) = re.findall(
        r'^ray = \["(.+)"\]', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert f"{sys.executable} -m pip install '{needed}'" in result.stderr
    assert f"pip install '{needed}'" in (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")


ADDRESSES = {
    "nowhere": "has no port",
    "host:port": "the port is no number",
    "127.0.0.1:1": "cannot be reached",
}


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize("address", ADDRESSES)
def test_a_cluster_that_cannot_be_reached(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engine, "_import_ray", lambda: None)
    result = run_cli("sweep", "models", "--engine", "ray", "--address", address)
    assert result.exit_code == 2
    assert ADDRESSES[address] in result.stderr


CLUSTERS: dict[str, tuple[str, dict[str, Any]]] = {
    "another version": ("Use the cluster's releases", {"error": "Version mismatch: Ray: 2.9"}),
    "no GPU": ("--gpus 2: the Ray cluster at", {"nodes": [{"CPU": 4.0, "GPU": 1.0}]}),
    "no CPU": ("has no CPU for a task", {"nodes": []}),
}


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize("case", CLUSTERS)
def test_a_cluster_that_does_not_fit(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    message, entries = CLUSTERS[case]
    monkeypatch.setattr(ray_engine, "_import_ray", lambda: None)
    monkeypatch.setattr(ray_engine, "_ASK", f"print({json.dumps(entries)!r})")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        gpus = ["--gpus", "2"] if case == "no GPU" else []
        result = run_cli("sweep", "models", "--engine", "ray", "--address", address, *gpus)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.usefixtures("models")
def test_a_port_at_which_no_ray_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engine, "_import_ray", lambda: None)
    monkeypatch.setattr(ray_engine, "_ASK", "import time; time.sleep(60)")
    monkeypatch.setattr(ray_engine, "_ASK_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        result = run_cli("sweep", "models", "--engine", "ray", "--address", address)
    assert result.exit_code == 2
    assert "no Ray answered within 0.3 s" in result.stderr


@pytest.mark.usefixtures("models", "engine")
def test_a_read_only_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    result = swept()
    assert (result.exit_code, "cannot write results to out: Permission denied" in result.stderr) == (2, True)
    assert "are kept" not in result.stderr, "there are none"


@pytest.mark.usefixtures("models", "engine")
def test_counts_of_one_are_singular() -> None:
    assert run_cli("sweep", "models/a.py", "--out", "out").exit_code == 0
    with (Path("out") / ROWS).open("a", encoding="utf-8") as file:
        file.write("{damaged\n")
    again = run_cli("sweep", "models/a.py", "--out", "out", "--resume")
    assert "ignoring 1 damaged line in out" in again.stderr
    assert "0 tasks on a test, 1 with results already" in again.stderr


@pytest.mark.usefixtures("models", "engine")
def test_rows_that_were_written_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **_named: object) -> None:
        raise OSError(28, "No space left on device")

    assert swept().exit_code == 0
    monkeypatch.setattr("fuselight_server.sweep.results.write_whole", full)
    result = swept("--resume")
    assert result.exit_code == 2
    assert "No space left on device. Rows that were written are kept: make room there" in result.stderr
