"""The examples of docs/pytest.md, run as they are."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.pytest_runs import ROOT, run_pytest, write_files

_PAGE = ROOT / "docs" / "pytest.md"
_FILE = re.compile(r"^```(?:python|ini)\n# (?P<name>[\w.]+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_SHOWN = re.compile(r"^```text\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_examples_do_what_the_page_says(tmp_path: Path) -> None:
    page = _PAGE.read_text(encoding="utf-8")
    write_files(tmp_path, {match["name"]: match["text"] for match in _FILE.finditer(page)})
    ran = run_pytest(tmp_path, "--fuselight")
    shown = [line for match in _SHOWN.finditer(page) for line in match["text"].splitlines() if line != "..."]
    assert shown
    missing = [line for line in shown if line not in ran.output]
    assert not missing, ran.output
    failing = {line.split(" ")[1] for line in shown if line.startswith("FAILED ")}
    failed = {
        line.split(" ")[1] for line in ran.output.splitlines() if line.startswith(("FAILED ", "ERROR "))
    }
    assert failed == failing, ran.output
