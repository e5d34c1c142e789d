"""The structured log of torch that can be switched on after the import of torch."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch._logging._internal as logs
from torch._logging import structured

from fuselight.adapters.torch_api import structured_log
from fuselight_server.jobs.trace_log import break_ids

pytestmark = pytest.mark.torch


def test_records_go_to_the_folder_and_are_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handler: Any = logs.LazyTraceHandler(None)
    handler.setFormatter(logging.Formatter())
    keys = logging.getLogger(structured_log.KEY_LOGGER)
    monkeypatch.setattr(logs, "LOG_TRACE_HANDLER", handler)
    monkeypatch.setattr(keys, "level", keys.level)
    monkeypatch.setattr(keys, "propagate", keys.propagate)
    monkeypatch.setattr(keys, "handlers", list(keys.handlers))
    monkeypatch.setattr(structured, "INTERN_TABLE", {"/job/train.py": 6})
    structured_log.record_to(str(tmp_path))
    assert structured.INTERN_TABLE == {}, (
        "the number of a path that is in no log would be a file without a name"
    )
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


def test_ids_of_breaks_are_those_of_torchs_registry() -> None:
    """`jobs/trace_log/break_ids.json` names breaks in logs of older releases by the titles of the registry."""
    path = Path(logs.__file__).parents[1] / "_dynamo" / "graph_break_registry.json"
    registry = json.loads(path.read_text(encoding="utf-8"))
    ids: dict[str, set[str]] = {}
    for gb_id, entries in registry.items():
        for entry in entries:
            ids.setdefault(entry["Gb_type"].strip().rstrip("."), set()).add(gb_id)
    known = {title: gb_id for title, gb_id in break_ids.IDS.items() if title in ids}
    assert len(known) > 80
    assert {title: ids[title] for title in known} == {title: {gb_id} for title, gb_id in known.items()}
