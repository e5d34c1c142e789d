"""The names of targets as users read them: nothing that a user sees has Python's `<locals>`, and requests still do."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest

from tests.server.programs import write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.lsp_client import Client

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="this environment has no Triton"),
]

SOURCE = """\
import torch


def main():
    def step(x):
        y = x.sin()
        print(y.sum().item())
        return y.cos() * 2

    compiled = torch.compile(step)
    for size in (4, 7):
        compiled(torch.ones(size))


if __name__ == "__main__":
    main()
"""
TARGET = "main.<locals>.compiled"
NAME = "compiled in main"
_FOR_PROGRAMS = frozenset({"target", "uri", "arguments", "data", "id", "contextValue", "key"})
"""Fields that name a target to the server, and no reader sees."""


def texts(value: Any) -> Iterator[str]:
    """Every text of an answer that a user may see."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _FOR_PROGRAMS or (isinstance(item, list) and key != "arguments"):
                yield from texts(item)


def test_no_text_that_a_user_sees_has_a_name_of_python_alone(client: Client, folder: Path) -> None:
    uri = client.open(write(folder, SOURCE))
    client.command("fuselight.server.run", {"uri": uri, "target": TARGET})
    client.idle(1)
    client.command("fuselight.server.kernels", {"uri": uri, "target": TARGET})
    client.idle(2)
    about = {"uri": uri, "target": TARGET}
    document = {"textDocument": {"uri": uri}}
    lines = range(len(SOURCE.splitlines()))
    (entry, *_) = client.request("fuselight/kernelsAt", {"uri": uri})["kernels"]
    kernel = {key: entry[key] for key in ("uri", "target", "kernel", "form")}
    answers = {
        "lenses": client.request("textDocument/codeLens", document),
        "hovers": [
            client.request(
                "textDocument/hover", {**document, "position": {"line": line, "character": column}}
            )
            for line in lines
            for column in (5, 14)
        ],
        "report": client.request("fuselight/reportTree", {"uri": uri}),
        "diagnostics": client.diagnostics(uri),
        "actions": [client.actions(uri, line) for line in lines],
        "hints": client.request(
            "textDocument/inlayHint",
            {
                **document,
                "range": {"start": {"line": 0, "character": 0}, "end": {"line": 15, "character": 0}},
            },
        ),
        "kernels": client.request("fuselight/kernelsAt", {"uri": uri}),
        "kernel document": client.request("fuselight/kernelDocument", kernel),
        "lost document": client.request("fuselight/kernelDocument", {**kernel, "kernel": "9:9:9:gone"}),
        "graphs": client.request("fuselight/graphs", about),
        "benchmark": client.request("fuselight/measured", about),
        "search": client.request("fuselight/tuned", about),
        "statuses": [message for message in client.messages if message.get("method") == "fuselight/status"],
    }
    for face, answer in answers.items():
        lines_of_face = [line for text in texts(answer) for line in text.splitlines()]
        assert not [line for line in lines_of_face if "<locals>" in line], face
    named = [face for face, answer in answers.items() if any(NAME in text for text in texts(answer))]
    assert {"report", "kernel document", "lost document", "graphs", "benchmark", "search", "statuses"} <= {
        *named
    }
    assert answers["graphs"]["found"]
    assert TARGET in {offered["target"] for offered in answers["graphs"]["targets"]}, "keys are unchanged"
