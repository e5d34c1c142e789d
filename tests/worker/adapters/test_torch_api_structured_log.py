"""The structured log of torch that can be switched on after the import of torch."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch._logging._internal as logs

from fuselight.adapters.torch_api import structured_log

pytestmark = pytest.mark.torch


def test_records_go_to_the_folder_and_are_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handler: Any = logs.LazyTraceHandler(None)
    handler.setFormatter(logging.Formatter())
    keys = logging.getLogger(structured_log.KEY_LOGGER)
    monkeypatch.setattr(logs, "LOG_TRACE_HANDLER", handler)
    monkeypatch.setattr(keys, "level", keys.level)
    monkeypatch.setattr(keys, "propagate", keys.propagate)
    monkeypatch.setattr(keys, "handlers", list(keys.handlers))
    structured_log.record_to(str(tmp_path))
    try:
        torch_log = logging.getLogger("torch.__trace")
        assert handler in torch_log.handlers
        assert keys.isEnabledFor(logging.DEBUG)
        handler.emit(torch_log.makeRecord("torch", logging.DEBUG, "file.py", 1, "a record", (), None))
        structured_log.flush()
        (log,) = tmp_path.glob("dedicated_log_torch_trace_*.log")
        assert "a record" in log.read_text(encoding="utf-8")
    finally:
        torch_log.removeHandler(handler)
        handler.close()
        keys.setLevel(logging.NOTSET)
