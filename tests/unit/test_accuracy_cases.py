"""The corpus of `fuselight accuracy`: each program has a header and a line at fault, and the README counts them.

`tests/support/accuracy_programs.py` runs the programs with torch; this test only reads them.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "cases" / "accuracy"
PROGRAMS = sorted(FOLDER.glob("*/*.py"))
STAGES = ("capture", "functionalization", "decomposition", "code", "caches", "user")


def header(path: Path) -> dict[str, str]:
    """Return the `# key: value` lines that a program begins with."""
    return dict(line[2:].split(": ", 1) for line in path.read_text().splitlines()[:3])


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_program_is_complete(path: Path) -> None:
    source = path.read_text()
    assert list(header(path)) == ["truth", "stage", "seen"]
    assert header(path)["seen"] != "not measured"
    names = [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    assert "main" in names
    assert source.rstrip().endswith('if __name__ == "__main__":\n    print(main())')
    assert "torch.compile" in source
    wrong = path.parent.name == "wrong"
    assert source.count("# <-") == int(wrong)
    assert (header(path)["stage"] in STAGES) if wrong else header(path)["stage"] == "none"


def test_readme_counts_the_programs() -> None:
    text = (FOLDER / "README.md").read_text()
    counted = Counter(header(path)["stage"] for path in PROGRAMS)
    rows = {stage: int(count) for stage, count in re.findall(r"^\| `(\w+)` \| (\d+) \|", text, re.MULTILINE)}
    assert rows == dict(counted)
    kinds = [int(count) for count in re.findall(r"^\| [^`|]+ \| (\d+) \|", text, re.MULTILINE)]
    assert sum(kinds) == sum(path.parent.name == "wrong" for path in PROGRAMS)
