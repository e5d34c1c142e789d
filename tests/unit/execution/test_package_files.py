"""Files of the packages are where the code looks for them, whatever room that code moves to."""

from __future__ import annotations

from pathlib import Path

from fuselight.shared.worker_launch import launch_path
from fuselight_server.execution.runs.kept_answers import rule_folders
from fuselight_server.explain.pages.document import extension_folder

_READ = {".py", ".json", ".css", ".js"}


def test_the_entry_of_every_process_exists() -> None:
    assert Path(launch_path()).is_file()


def test_the_parts_of_the_page_lie_in_the_extension() -> None:
    assert (extension_folder() / "build.mjs").is_file()


def test_each_folder_of_rules_has_code() -> None:
    assert all(any(folder.rglob("*.py")) for folder in rule_folders())


def test_the_extension_takes_each_file_that_the_code_reads() -> None:
    root = Path(__file__).parents[3]
    lines = (root / ".vscodeignore").read_text(encoding="utf-8").splitlines()
    taken = {path for line in lines if line.startswith("!") for path in root.glob(line[1:])}
    packages = (root / "compiler" / "fuselight", root / "server" / "fuselight_server")
    files = {path for package in packages for path in package.rglob("*.*") if path.suffix in _READ}
    assert files - taken == set()
    assert any(path.suffix == ".json" for path in files)
