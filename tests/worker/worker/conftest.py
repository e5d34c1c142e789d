"""The further calls of a verification, made in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.support.further_calls import HereAndNow


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HereAndNow]:
    config = torch._dynamo.config
    set_by_texts = ("capture_dynamic_output_shape_ops", "capture_scalar_outputs", "trace_autograd_ops")
    with config.patch({name: getattr(config, name) for name in set_by_texts if hasattr(config, name)}):
        yield HereAndNow(tmp_path, monkeypatch)
    torch.compiler.reset()
