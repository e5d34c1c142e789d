"""The progress of one of several processes of a benchmark: it names the configuration and what that does."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.worker.child.progress import ProgressPipe


@pytest.mark.parametrize(
    ("phase", "detail", "words"),
    [
        ("import", "vq.py", "as in source: importing vq.py"),
        ("build", "Net()(f32[4])", "as in source: building Net()(f32[4])"),
        ("main", "__main__ of vq.py", "as in source: running __main__ of vq.py"),
        ("measure", "as in source: second call", "as in source: second call"),
    ],
)
def test_each_phase_of_a_labeled_run_is_a_sentence(phase: str, detail: str, words: str) -> None:
    read, write = os.pipe()
    originals: Any = SimpleNamespace(restore=lambda **_: None, put_back=lambda _: None)
    pipe = ProgressPipe(write, 1, originals, os.getpid())
    pipe.open()
    pipe.label = "as in source"
    pipe.tell(phase, detail)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        data = stream.read()
    assert words.encode() in data
