"""Live findings end to end: a break is shown while it is typed, and goes when it is fixed, without a save."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.server.programs import breaks, run_in
from tests.support.lsp_client import Client, Json

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.torch

MODEL = """\
import torch
from torch import nn


# fuselight: Net()(f32[4, 8])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)

    def forward(self, x):
        x = self.first(x)
        return self.head(x)

    def head(self, x):
        return torch.relu(x)

    def spare(self, x):
        return x


model = torch.compile(Net())
"""
FORWARD, HEAD, SPARE = 11, 15, 17
"""0-based lines of the first statements of `forward` and `head`, and of the `def` of `spare`, which never runs."""


SOON = 30.0
"""Seconds for a prediction, on a busy machine."""


class Typist:
    """Types into one document."""

    def __init__(self, client: Client, uri: str) -> None:
        self.client, self.uri, self._version = client, uri, 1

    def type(self, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
        self._version += 1
        self.client.edit(self.uri, start, end, text, self._version)

    def until(self, wanted: Callable[[list[Json]], bool], what: str) -> list[Json]:
        """Wait for diagnostics of graph breaks and errors."""

        def break_diagnostics() -> list[Json]:
            codes = ("GB", "FL4")
            return [
                diagnostic
                for diagnostic in self.client.diagnostics(self.uri)
                if str(diagnostic["code"]).startswith(codes)
            ]

        self.client.until(lambda: self._round_trip() and wanted(break_diagnostics()), what, deadline=SOON)
        return break_diagnostics()

    def _round_trip(self) -> bool:
        time.sleep(0.05)  # so that the worker has a processor
        self.client.lenses(self.uri)
        return True

    def lens(self, text: str) -> None:
        self.client.until(
            lambda: self._round_trip() and any(text in lens for lens in self.client.lenses(self.uri)),
            f"lens {text}",
            deadline=SOON,
        )

    def hover(self, line: int, character: int) -> str:
        at = {"textDocument": {"uri": self.uri}, "position": {"line": line, "character": character}}
        request = self.client.request("textDocument/hover", at)
        return str(request["contents"]["value"]) if request else ""


def test_a_break_is_shown_while_it_is_typed_and_goes_when_it_is_fixed(client: Client, folder: Path) -> None:
    uri = run_in(client, folder, MODEL)
    client.idle(1)
    assert breaks(client, uri) == []
    typist = Typist(client, uri)
    typist.type((FORWARD, 0), (FORWARD, 0), "        if x.sum() > 0:\n            x = x + 1\n")
    (entries,) = typist.until(bool, "the predicted break")
    assert entries["range"]["start"]["line"] == FORWARD
    assert entries["message"].endswith(". Predicted from your edit; the next run confirms it")
    typist.lens("edit: +1 break (predicted)")
    hover = typist.hover(FORWARD, 12)
    assert "Compute both sides" in hover
    assert "Predicted from your edit" not in hover, "the editor shows the message above the hover"
    assert "Predicted by tracing `Net.forward`" in typist.hover(5, 7)

    typist.type((HEAD + 2, 0), (HEAD + 2, 0), "        print(x)\n")
    typist.until(lambda fields: len(fields) == 2, "the second break")
    typist.lens("edit: +2 breaks (predicted)")

    typist.type((FORWARD, 0), (FORWARD + 2, 0), "")
    typist.until(lambda fields: len(fields) == 1, "the end of the first break")
    typist.type((HEAD, 0), (HEAD + 1, 0), "")
    typist.until(lambda fields: not fields, "the end of the second break")
    assert not any(lens.startswith("edit:") for lens in client.lenses(uri))
    assert (folder / "model.py").read_text() == MODEL


def test_a_comment_leaves_a_break_and_an_inner_function_is_traced(client: Client, folder: Path) -> None:
    broken = MODEL.replace("        x = self.first(x)\n", "        print(x)\n        x = self.first(x)\n")
    uri = run_in(client, folder, broken)
    client.idle(1)
    (ran,) = breaks(client, uri)
    typist = Typist(client, uri)
    typist.type((FORWARD, 16), (FORWARD, 16), "  # ä comment")
    (entries,) = typist.until(lambda fields: "Predicted" in str(fields), "the break beside the comment")
    assert {**entries, "message": ran["message"]} == ran
    traced = client.mark()
    assert not any(lens.startswith("edit:") for lens in client.lenses(uri))

    inner = "        def show(y):\n            return y.tolist()\n\n        show(x)\n"
    typist.type((FORWARD + 1, 0), (FORWARD + 1, 0), inner)
    both = typist.until(lambda fields: len(fields) == 2, "the break in the inner function")
    assert sorted(entry["range"]["start"]["line"] for entry in both) == [FORWARD, FORWARD + 2]
    published = [
        message["params"]["diagnostics"]
        for message in client.messages[traced:]
        if message.get("method") == "textDocument/publishDiagnostics" and message["params"]["uri"] == uri
    ]
    assert all(entries["range"] in [entry["range"] for entry in shown] for shown in published), "it stays"


FORMATTED = """\
# Formatted.
import torch
from torch import nn


# fuselight: Net()(f32[4, 8])
class Net(nn.Module):
  def __init__(self):
    super().__init__()
    self.first = nn.Linear(
      8,
      8,
    )

  def forward(self, x):
    print(x)
    x = self.first(x)
    return self.head(x)

  def head(self, x):
    return torch.relu(x)


model = torch.compile(Net())
"""
WHOLE = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}


def test_a_text_that_replaces_another_keeps_the_findings_of_the_lines_in_both(
    client: Client, folder: Path
) -> None:
    text = MODEL.replace("        x = self.first(x)\n", "        print(x)\n        x = self.first(x)\n")
    uri = run_in(client, folder, text)
    client.idle(1)
    (ran,) = breaks(client, uri)
    typist = Typist(client, uri)
    changes: tuple[Json, ...] = ({}, {"range": WHOLE})
    for version, change in enumerate(changes, start=2):
        for new, line in ((FORMATTED, 15), (text, ran["range"]["start"]["line"])):
            document = {"uri": uri, "version": version}
            client.notify(
                "textDocument/didChange",
                {"textDocument": document, "contentChanges": [{**change, "text": new}]},
            )
            typist.until(
                lambda entries: "before your edit" not in str(entries), "the trace of the edited line"
            )
            assert [graph_break["range"]["start"]["line"] for graph_break in breaks(client, uri)] == [line]
            assert not any("gone" in lens for lens in client.lenses(uri))
        assert breaks(client, uri) == [ran]


def test_what_needs_a_run_is_said_and_the_run_confirms_the_rest(client: Client, folder: Path) -> None:
    uri = run_in(client, folder, MODEL)
    client.idle(1)
    typist = Typist(client, uri)
    typist.type((HEAD - 1, 20), (HEAD - 1, 20), ", scale=2")
    typist.lens("edit: not predicted, Net.head: its signature has changed")
    assert "Net.head: its signature has changed" in typist.hover(5, 7)
    typist.type((FORWARD, 0), (FORWARD, 0), "        print(x)\n")
    client.until(
        lambda: "uses `head`, which needs a run" in typist.hover(5, 7), "what else needs a run", deadline=SOON
    )
    typist.type((FORWARD, 0), (FORWARD + 1, 0), "")
    typist.type((HEAD - 1, 20), (HEAD - 1, 29), "")
    typist.type((SPARE, 21), (SPARE, 21), ", scale=2")
    typist.lens("edit: not predicted, Net.spare: its signature has changed")
    typist.type((FORWARD, 0), (FORWARD, 0), "        x.sum(")  # half-typed
    typist.type((FORWARD, 14), (FORWARD, 14), ").item()\n")
    (entries,) = typist.until(lambda fields: len(fields) == 1, "the predicted break")
    predicted = {**entries, "message": entries["message"].partition(". Predicted")[0]}
    path = folder / "model.py"
    text = MODEL.replace("def spare(self, x)", "def spare(self, x, scale=2)")
    path.write_text(
        text.replace("        x = self.first(x)\n", "        x.sum().item()\n        x = self.first(x)\n")
    )
    client.save(uri)
    client.idle(2)
    (confirmed,) = breaks(client, uri)
    assert {key: confirmed[key] for key in ("range", "code", "severity", "message")} == {
        key: predicted[key] for key in ("range", "code", "severity", "message")
    }
    assert not any(lens.startswith("edit:") for lens in client.lenses(uri))


def test_off_predicts_nothing(client: Client, folder: Path, configure: Callable[..., None]) -> None:
    uri = run_in(client, folder, MODEL)
    client.idle(1)
    configure(live="off", liveDelay=0)
    typist = Typist(client, uri)
    typist.type((FORWARD, 0), (FORWARD, 0), "        print(x)\n")
    typist.lens("(before your edit)")
    logged = [
        message["params"]["message"]
        for message in client.messages
        if message.get("method") == "window/logMessage"
    ]
    assert not [line for line in logged if "live run" in line]
    configure(live="on", liveDelay=0)
    typist.until(bool, "the predicted break after live findings are switched on")
    typist.lens("edit: +1 break")
    configure(live="on", run="manual", liveDelay=0)
    typist.lens("edit: not predicted, edits are traced only where a save")
    typist.until(bool, "what the rules say, where nothing is traced any more")
    configure(live="off", liveDelay=0)
    typist.until(lambda entries: not entries, "the end of predictions")


def test_an_error_in_the_edited_function_is_predicted(client: Client, folder: Path) -> None:
    uri = run_in(client, folder, MODEL)
    client.idle(1)
    typist = Typist(client, uri)
    typist.type((HEAD, 15), (HEAD, 28), "torch.relu(y)")
    until = typist.until(
        lambda entries: "FL401" in {entry["code"] for entry in entries}, "the predicted error"
    )
    assert {entry["range"]["start"]["line"] for entry in until} == {HEAD}
    typist.lens("+1 error (predicted)")
