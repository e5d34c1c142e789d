"""A repro over the protocol: from the quick fix of a failed compile to the program that is opened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

from fuselight.shared.report import MARK
from tests.server.conftest import settings
from tests.server.programs import write

if TYPE_CHECKING:
    from tests.server.conftest import Start

pytestmark = [pytest.mark.torch, pytest.mark.corpora]

SOURCE = """\
import torch


# fuselight: Ledger()(f32[3])
class Ledger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.secret_gains = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(1))])

    def describe(self, title):
        return title + format(self.secret_gains)

    def forward(self, amounts):
        y = amounts * 2
        note = self.describe("customer 42")
        return y + len(note)
"""


def test_the_quick_fix_of_a_failed_compile_opens_a_program_and_its_issue(
    connect: Start, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").touch()
    client = connect(settings=settings(run="manual"))
    client.start(tmp_path)
    uri = client.open(write(tmp_path, SOURCE))
    client.command("fuselight.server.run", {"uri": uri, "target": "Ledger"})
    client.until(lambda: any(item["code"] == "FL402" for item in client.diagnostics(uri)), "the failure")
    (failed,) = [item for item in client.diagnostics(uri) if item["code"] == "FL402"]
    actions = client.request(
        "textDocument/codeAction",
        {"textDocument": {"uri": uri}, "range": failed["range"], "context": {"diagnostics": []}},
    )
    (action,) = [item for item in actions if item["title"].startswith("Write a repro for PyTorch")]
    since = client.mark()
    client.command(action["command"]["command"], *action["command"]["arguments"])
    seen = client.notified(
        "window/showDocument", lambda params: params["uri"].endswith(".py"), since=since, deadline=400.0
    )
    script = Path(unquote(urlsplit(seen["uri"]).path))
    assert script.parent == tmp_path / ".fuselight" / "views"
    text = script.read_text()
    assert MARK in text
    assert "Ledger" not in text
    assert "secret" not in text
    (issue,) = script.parent.glob("repro-*.md")
    assert text in issue.read_text()
