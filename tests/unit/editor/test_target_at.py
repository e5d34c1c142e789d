"""Which target a line means, also with lenses switched off."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fuselight_server.editor.handlers.target_at import answer, target_at
from fuselight_server.editor.messages.params import TargetAtParams
from fuselight_server.source.document import read_source
from tests.support.benchmark_session import TEXT

SOURCE = """\
import torch

x = 1


# fuselight: Net()(f32[4])
class Net(torch.nn.Module):
    def forward(self, x):
        return x + 1


net = torch.compile(Net())


def helper(x):
    return x


if __name__ == "__main__":
    net(torch.ones(4))
"""


def test_the_innermost_target_holds_a_selection() -> None:
    reading = read_source("/m.py", TEXT)
    assert target_at(reading, 10, 11) == "Net"
    assert target_at(reading, 6, 6) == "f"
    assert target_at(reading, 3, 3) == "f", "its directive"


@pytest.mark.parametrize(
    ("uri", "line", "target"),
    [
        ("file:///m.py", 0, None),  # the whole file
        ("file:///m.py", 5, "Net"),  # its directive
        ("file:///m.py", 8, "Net"),
        ("file:///m.py", 9, "Net"),  # below it
        ("file:///m.py", 11, "Net"),  # what gives the variable its inputs
        ("file:///m.py", 15, "helper"),
        ("file:///m.py", 19, "__main__"),
        ("file:///m.py", -1, None),
        ("untitled:1", 8, None),
        ("file://[", 8, None),
    ],
)
def test_a_line_means_a_target(uri: str, line: int, target: str | None) -> None:
    server: Any = SimpleNamespace(
        analysis=SimpleNamespace(targets=SimpleNamespace(reading=lambda path: read_source(path, SOURCE)))
    )
    assert answer(server, TargetAtParams(uri, line)) == {"target": target}
