"""A half of the comparison that runs past its limit is ended with its children, and its finished cases are kept."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import fidelity
from tests.support.live_worker import wait_gone

CASE: dict[str, Any] = {"graphs": [], "failure": None, "seconds": 1.0}
WRITES = """
import os, subprocess, sys
code = "import os\\nwhile True:\\n    os.makedirs(sys.argv[1] + '/cache/a', exist_ok=True)\\n"
child = subprocess.Popen([sys.executable, "-c", "import sys\\n" + code, sys.argv[1]], start_new_session=True)
open(sys.argv[2], "w").write(str(child.pid))
open(sys.argv[1] + "/out.json", "w").write('{"static": {"graphs": [], "failure": null, "seconds": 1.0}}')
child.wait()
"""
"""A half whose child, in a session of its own, goes on writing into the folder."""


@pytest.mark.slow
def test_children_end_before_the_folder_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(command: list[str], environment: dict[str, str], seconds: float) -> str:
        folder = str(Path(command[command.index("model") + 1]).parent)
        hanging = [sys.executable, "-c", WRITES, folder, str(tmp_path / "pid")]
        return real(hanging, environment, min(seconds, 2.0))

    real = fidelity.run_with_limit
    monkeypatch.setattr(fidelity, "run_with_limit", hangs)
    monkeypatch.setattr(fidelity, "_versions", lambda: {"torch": "2.13"})
    arguments = ["fidelity", "--models", "model", "--halves", "real", "--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", arguments)
    assert fidelity.main() == 0
    wait_gone(int((tmp_path / "pid").read_text()))
    kept: Any = json.loads(gzip.decompress((tmp_path / "out" / "real.json.gz").read_bytes()))
    assert kept["models"] == {
        "model": {"static": CASE, "rest": {**CASE, "failure": "not done after 2 s", "seconds": 0}}
    }


def test_an_error_leaves_the_halves_that_were_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(_half: str, name: str, *_: object) -> dict[str, Any]:
        if name == "second":
            raise OSError("the disk is full")
        return {"static": CASE}

    monkeypatch.setattr(fidelity, "_half", half)
    monkeypatch.setattr(fidelity, "_versions", dict)
    arguments = ["fidelity", "--models", "first,second", "--halves", "real", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(OSError, match="full"):
        fidelity.main()
    kept: Any = json.loads(gzip.decompress((tmp_path / "real.json.gz").read_bytes()))
    assert kept["models"] == {"first": {"static": CASE}}
