"""The gpu ring needs torch and a CUDA device; tests with a worker also need the server's libraries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

if TYPE_CHECKING:
    from tests.support.live_worker import LiveWorker


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip with the reason if the device is missing; `make test` then omits the ring and reports it.

    Warnings are no errors here: torch has some of its own where it compiles for a GPU, and Dynamo would take them for a
    failure of its own.
    """
    items = [item for item in items if item.path.parent == Path(__file__).parent]
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("default"))
    if not torch.cuda.is_available():
        for item in items:
            item.add_marker(pytest.mark.skip(reason="torch sees no CUDA device on this machine"))


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveWorker]:
    from tests.support.live_worker import LiveWorker  # noqa: PLC0415 - with the server, which the rest needs not

    worker = LiveWorker(tmp_path_factory.mktemp("workspace"))
    yield worker
    print(*worker.lines, sep="\n")  # noqa: T201 - pytest shows it where a test fails
    worker.close()
