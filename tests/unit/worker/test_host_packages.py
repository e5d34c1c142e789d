"""Which folders of sys.path a worker reports as folders of installed packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuselight.worker.host.host import has_packages


@pytest.mark.parametrize(
    ("folder", "entry", "is_reported"),
    [
        ("lib/site-packages", "anything", True),
        ("shared", "lib-1.0.dist-info", True),  # a `.pth` file may add it
        ("project", "model.py", False),
    ],
)
def test_folders_of_packages_are_known_by_their_name_or_contents(
    tmp_path: Path, folder: str, entry: str, *, is_reported: bool
) -> None:
    (tmp_path / folder / entry).mkdir(parents=True)
    assert has_packages(str(tmp_path / folder)) is is_reported


@pytest.mark.parametrize("folder", ["", "/missing/python311.zip"])
def test_what_is_no_folder_has_no_packages(folder: str) -> None:
    assert not has_packages(folder)
