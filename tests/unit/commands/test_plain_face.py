"""A new face of the product is one module on `commands/`, with no part of a check of its own."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from fuselight.shared.codec import encode
from fuselight.shared.report import TargetRef
from tests.support import plain_face
from tests.support.command import AnsweringWorker
from tests.support.reports import at, broken, report

TEXT = """\
import torch

# fuselight: scale(f32[4])
@torch.compile
def scale(x):
    print(x)
    return x * 2  # fuselight: ignore[GB0007]
"""


def test_it_has_the_findings_of_runs_and_of_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.py"
    path.write_text(TEXT)
    stack = (at(6, path=str(path), function="scale"),)
    AnsweringWorker(
        lambda request: report(
            target=TargetRef(request.target.path, request.target.name, 4, "function"),
            breaks=(broken(*stack),),
        )
    ).put_in_place(monkeypatch)
    findings = {finding["code"]: finding for finding in plain_face.check_file(path)}
    assert {code: finding["line"] for code, finding in findings.items()} == {"GB0170": 6, "FL503": 7}
    assert findings["GB0170"]["title"]


def test_it_has_the_reason_why_a_check_cannot_go_on(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(TEXT)
    (reason,) = plain_face.check_file(path, "/no/such/python")
    assert "/no/such/python" in str(reason["title"])
    (reason,) = plain_face.check_file(tmp_path / "absent.py")
    assert "absent.py" in str(reason["title"])


def test_it_has_the_findings_of_a_recorded_log(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    breaks = (broken(at(12)), broken(at(14)))
    log.write_text("\n".join(json.dumps(encode(report(breaks=(graph_break,)))) for graph_break in breaks))
    assert [(entry["code"], entry["line"]) for entry in plain_face.read_log(log)] == [
        ("GB0170", 12),
        ("GB0170", 14),
    ]


def test_it_imports_use_cases_and_plain_data_alone() -> None:
    tree = ast.parse(Path(plain_face.__file__).read_text(encoding="utf-8"))
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    ours = {name for name in imported if name.startswith("fuselight")}
    plain = ("fuselight.shared.", "fuselight_server.base.", "fuselight_server.commands.")
    assert all(name.startswith(plain) for name in ours)
