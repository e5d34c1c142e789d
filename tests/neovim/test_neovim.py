"""A headless Neovim as a user has it: the lines of docs/editors.md, a folder, and one session that does everything.

The session (`session.lua`) runs once and writes what it saw; each test looks at a part of that.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.report import TargetRef
from fuselight_server.base.consent_store import ConsentStore
from fuselight_server.explain.benchmarks.history import run_of
from fuselight_server.explain.benchmarks.planning import history_of
from tests.support.measured import benchmark, row
from tests.support.prepared import prepared_interpreter

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]

HERE, ROOT = Path(__file__).parent, Path(__file__).parents[2]
MODEL = """\
import torch
from torch import nn

from layers import scaled

# fuselight: Net()(f32[4, 8])
class Net(nn.Module):
    def forward(self, x):
        y = scaled(x)
        if y.sum() > 0:
            return y * 2
        return y - 1
"""
HELPER = """\
def scaled(x):
    return x * 3
"""
FIX = "Use torch.where"
SETTINGS = {
    "tune": {"budget": 10, "candidates": [], "fixes": False},
    "live": "off",
}
Record = dict[str, Any]


def neovim() -> str | None:
    """Neovim of the environment, else of the machine."""
    return shutil.which(
        "nvim", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    )


def snippet() -> str:
    """The lines that docs/editors.md tells the user of Neovim to paste."""
    page = (ROOT / "docs" / "editors.md").read_text(encoding="utf-8")
    match = re.search(r"## Neovim\n.*?```lua\n(.*?)```", page, re.DOTALL)
    assert match is not None
    return match[1]


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


class World:
    """A user's machine: a home, a project with an earlier benchmark, and the programs that the session starts."""

    def __init__(self, folder: Path) -> None:
        self.home, self.project, self.bin = folder / "home", folder / "project", folder / "bin"
        for path in (self.home, self.project, self.bin):
            path.mkdir()
        self.model, self.helper = self.project / "model.py", self.project / "layers.py"
        self.model.write_text(MODEL)
        self.helper.write_text(HELPER)
        (self.project / "pyproject.toml").touch()
        self.opened = folder / "opened.txt"
        self.record = folder / "record.json"
        program(self.bin, "fuselight", f'exec "{sys.executable}" -X utf8 -m fuselight_server "$@"')
        program(self.bin, "xdg-open", f'echo "$1" >> "{self.opened}"')
        self._keep_a_benchmark()

    def _keep_a_benchmark(self) -> None:
        report = benchmark(row("eager", 300.0), row("default", 100.0))
        target = TargetRef(path=str(self.model), name="Net", line=7, kind="module")
        run = run_of(replace(report, target=target, files={}), str(self.project), lambda _path, _line: None)
        assert run is not None
        assert history_of(str(self.model), "Net").keep_run(run) is not None

    @property
    def answers(self) -> ConsentStore:
        return ConsentStore(self.home / "state" / "fuselight")

    def run(self, editor: str) -> Record:
        """Run the session; returns what it saw."""
        chosen = {"interpreter": prepared_interpreter(), **SETTINGS}
        settings = json.dumps({"settings": {"fuselight": chosen}})
        init = self.home / "init.lua"
        init.write_text(f"{snippet()}\nvim.lsp.config('fuselight', vim.json.decode([==[{settings}]==]))\n")
        variables = {
            **os.environ,
            "HOME": str(self.home),
            **{
                f"XDG_{name}_HOME": str(self.home / name.lower())
                for name in ("STATE", "CONFIG", "DATA", "CACHE")
            },
            "PATH": os.pathsep.join((str(self.bin), os.environ.get("PATH", ""))),
            "PYTHONPATH": os.pathsep.join((str(ROOT / "compiler"), str(ROOT / "server"))),
            "NEOVIM_TEST_MODEL": str(self.model),
            "NEOVIM_TEST_HELPER": str(self.helper),
            "NEOVIM_TEST_FIX": FIX,
            "NEOVIM_TEST_SECONDS": "200",
            "NEOVIM_TEST_RECORD": str(self.record),
        }
        command = [
            editor,
            "--headless",
            "-n",
            "-i",
            "NONE",
            "-u",
            str(init),
            "-c",
            f"luafile {HERE / 'session.lua'}",
        ]
        ended = subprocess.run(
            command, cwd=self.project, env=variables, capture_output=True, text=True, timeout=850, check=False
        )
        assert self.record.exists(), ended.stderr
        record: Record = json.loads(self.record.read_text())
        assert not record.get("failure"), json.dumps(record, indent=1)[-6000:] + ended.stderr
        return record


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("neovim"))


@pytest.fixture(scope="module")
def record(world: World) -> Record:
    editor = neovim()
    if editor is None:
        pytest.skip("Neovim is not installed")
    return world.run(editor)


def pages(world: World) -> dict[str, str]:
    """The pages that were opened in the browser, by their kind."""
    paths = [Path(line.removeprefix("file://")) for line in world.opened.read_text().splitlines()]
    return {path.name.partition("-")[0]: path.read_text(encoding="utf-8") for path in paths}


def test_lenses_come_before_any_run(record: Record) -> None:
    titles = [lens["title"] for lens in record["lenses_before"]]
    assert titles == ["Run", "Kernels", "Accuracy", "Memory", "Benchmark", "Tune", "inputs from line 6"]


def test_the_user_is_asked_once_before_code_runs(record: Record) -> None:
    asked = [question for question in record["questions"] if "Run code of this folder" in question["prompt"]]
    (question,) = asked
    assert question["titles"] == ["Run", "Not in This Folder", "Later"]
    assert "import model.py and call Net" in question["prompt"]


def test_the_answer_outlasts_the_server(record: Record, world: World) -> None:
    entry = world.answers.entry(str(world.project))
    assert entry is not None
    assert entry.answer == "run"
    before = record["questions_before_restart"]
    assert record["questions"][before:] == []
    assert any("graph" in lens["title"] for lens in record["lenses_after_restart"])


def test_a_finding_is_on_its_line_with_a_hover(record: Record) -> None:
    assert {"line": 9, "code": "GB0170"}.items() <= record["diagnostics"][0].items()
    assert "Use torch.where" in record["hover"]["value"]
    assert "f32[4, 8]" in record["hover"]["value"]
    assert record["hover"]["kind"] == "markdown"
    assert "\\" not in record["hover"]["value"], "Neovim shows what escapes a mark"


def test_every_lens_runs_a_command_that_the_server_has(record: Record) -> None:
    for lens in (*record["lenses_before"], *record["lenses"]):
        assert lens["command"].startswith("fuselight.server."), lens


def test_a_fix_is_offered_verified_and_applied(record: Record) -> None:
    assert any(FIX in title for title in record["actions"])
    assert "torch.where(y.sum() > 0, y * 2, y - 1)" in record["fixed"]


def test_a_file_that_another_program_writes_is_noticed(record: Record) -> None:
    (finding,) = [shown for shown in record["diagnostics_elsewhere"] if shown["code"].startswith("GB")]
    assert (finding["line"], finding["code"]) == (1, "GB0059")


def test_the_text_of_a_kernel_opens_in_the_editor(record: Record) -> None:
    assert "/.fuselight/views/" in record["kernel"]["name"]
    assert len(record["kernel"]["text"].splitlines()) > 5


@pytest.mark.usefixtures("record")
def test_pages_open_in_the_browser(world: World) -> None:
    shown = pages(world)
    assert set(shown) == {"benchmark", "report", "graphs", "tuning"}
    for page in shown.values():
        assert "default-src 'none'" in page
    assert '"eager"' in shown["benchmark"]
    assert "if y.sum()" not in shown["report"], "the fix is applied"


def test_a_search_decides_or_says_why_not(record: Record, world: World) -> None:
    assert record["tuning"] == {"started": True, "target": "Net", "message": "Net"}
    decision = world.project / "fuselight-tuned.json"
    if decision.exists():
        assert record["tuned"].startswith("Tuned: ")
        assert json.loads(decision.read_text())["results"]
    else:  # a busy machine compiles nothing within the budget
        assert record["tuned"].startswith("not tuned: `default` was not compiled within the budget of")


def test_progress_is_shown_while_something_runs(record: Record) -> None:
    messages = [progress["message"] for progress in record["progress"]]
    assert any(message.startswith("Tuning Net") for message in messages)
    kinds = [progress["kind"] for progress in record["progress"]]
    assert kinds.count("begin") == kinds.count("end") > 2


def test_nothing_is_sent_that_neovim_does_not_know(record: Record) -> None:
    assert record["unknown"] == []
    assert record["messages"] == []
