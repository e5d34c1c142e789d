"""The gpu ring needs torch and a CUDA device, and nothing else of the project's dependencies."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip with the reason where the device is missing; `make test` then leaves the ring out and says so.

    Warnings are no errors here: torch has some of its own where it compiles for a GPU, and Dynamo would take them for a
    failure of its own.
    """
    items = [item for item in items if item.path.parent == Path(__file__).parent]
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("default"))
    if not torch.cuda.is_available():
        for item in items:
            item.add_marker(pytest.mark.skip(reason="torch sees no CUDA device on this machine"))
