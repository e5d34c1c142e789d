"""Fixtures of the unit tests."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from tests.support.live_simulation import write_model

if TYPE_CHECKING:
    from pathlib import Path

gc.disable()  # until the tests are collected


def pytest_collection_finish() -> None:
    """Nothing of the collected tests and their modules is garbage, and each search for garbage would visit them."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    """A folder with the model and the helper of `live_simulation`."""
    write_model(tmp_path)
    return tmp_path
