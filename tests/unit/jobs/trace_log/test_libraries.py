"""Which files of a job are its own."""

from __future__ import annotations

import pytest

from fuselight_server.jobs.trace_log.libraries import is_library


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/project/venv/lib/python3.12/site-packages/einops/layers.py", True),
        ("C:\\env\\Lib\\site-packages\\timm\\models\\vit.py", True),
        ("/src/pytorch/torch/_dynamo/external_utils.py", True),
        ("/src/fuselight/compiler/fuselight/capture/calls/observed_calls.py", True),
        ("/src/fuselight/server/fuselight_server/pytest_plugin/checker.py", True),
        ("/project/torch/train.py", False),
        ("/project/fuselight/train.py", False),
        ("tests/test_net.py", False),
    ],
)
def test_files_of_packages_and_of_the_tool_are_no_files_of_the_job(path: str, expected: bool) -> None:  # noqa: FBT001 - a table
    assert is_library(path) == expected
