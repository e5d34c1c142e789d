"""Files of the packages are where the code looks for them, whatever room that code moves to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.worker_launch import launch_path
from fuselight_server.execution.runs.kept_answers import rule_folders
from fuselight_server.explain.pages.document import extension_folder

_READ = {".py", ".json", ".css", ".js"}
_ROOT = Path(__file__).parents[3]
_PACKAGES = (_ROOT / "compiler" / "fuselight", _ROOT / "server" / "fuselight_server")


def test_the_entry_of_every_process_exists() -> None:
    assert Path(launch_path()).is_file()


def test_the_parts_of_the_page_lie_in_the_extension() -> None:
    assert (extension_folder() / "build.mjs").is_file()


def test_each_folder_of_rules_has_code() -> None:
    assert all(any(folder.rglob("*.py")) for folder in rule_folders())


def test_the_extension_takes_each_file_that_the_code_reads() -> None:
    lines = (_ROOT / ".vscodeignore").read_text(encoding="utf-8").splitlines()
    taken = {path for line in lines if line.startswith("!") for path in _ROOT.glob(line[1:])}
    files = {path for package in _PACKAGES for path in package.rglob("*.*") if path.suffix in _READ}
    assert files - taken == set()
    assert any(path.suffix == ".json" for path in files)


def without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; raises ValueError for a key that it has twice, of which Python reads the last."""
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError(f"a key stands twice among {[key for key, _ in pairs]}")
    return table


def test_no_table_has_a_key_twice() -> None:
    tables = [path for package in _PACKAGES for path in package.rglob("*.json")]
    assert len(tables) > 1
    for path in tables:
        json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=without_repeats)
    with pytest.raises(ValueError, match="twice"):
        json.loads('{"a": {"b": 1, "b": 2}}', object_pairs_hook=without_repeats)
