"""What a run leaves for the host to do ahead is taken with care: the user's code was in the process that wrote it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fuselight.worker.preload import Preload


@pytest.mark.parametrize(
    "left",
    [5, None, [], {}, {"modules": None, "files": None}, {"modules": [1, None], "files": [{}, "<string>"]}],
)
def test_what_cannot_be_read_is_left_alone(tmp_path: Path, left: object) -> None:
    path = tmp_path / "ahead.json"
    path.write_text(json.dumps(left))
    preload = Preload(str(tmp_path))
    idle = preload.patience()
    preload.want(str(path))
    assert preload.patience() == idle
