"""The lens of a class that the file's program compiles as a part of another: it speaks of the lines of that class."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.server.programs import write

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.lsp_client import Client

pytestmark = pytest.mark.torch

SOURCE = """\
import torch
from torch import nn


class Quiet(nn.Module):
    def forward(self, x):
        return x.sin()


class Loud(nn.Module):
    def forward(self, x):
        print("before")
        x = x.cos()
        print("after")
        return x.tan()


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.quiet, self.loud = Quiet(), Loud()

    def forward(self, x):
        return self.loud(self.quiet(x)) + 1


class Heir(Whole):
    pass


if __name__ == "__main__":
    model = torch.compile(Heir())
    model(torch.ones(4))
"""
PRINTS = re.compile(r"Fix line (12|14) first")


def facts(client: Client, folder: Path, target: str) -> list[str]:
    """What the lens of a class says before its actions, after its run."""
    uri = client.open(write(folder, SOURCE))
    client.command("fuselight.server.run", {"uri": uri, "target": target})
    client.idle(1)
    client.until(lambda: "Run" in client.lenses(uri), "the end of the run")
    line = SOURCE.splitlines().index(next(text for text in SOURCE.splitlines() if f"class {target}(" in text))
    lenses = client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
    titles = [lens["command"]["title"] for lens in lenses if lens["range"]["start"]["line"] == line]
    return titles[: titles.index("Run")]


def test_a_part_without_breaks_has_no_line_to_fix(client: Client, folder: Path) -> None:
    assert facts(client, folder, "Quiet") == ["no breaks here, compiled in Whole.forward"]


def test_a_part_with_the_break_names_its_line(client: Client, folder: Path) -> None:
    first, counted = facts(client, folder, "Loud")
    assert PRINTS.match(first)
    assert counted == "2 breaks here, compiled in Whole.forward"


@pytest.mark.parametrize("target", ["Whole", "Heir"])
def test_what_is_compiled_itself_has_the_counts_of_the_run(client: Client, folder: Path, target: str) -> None:
    first, counted = facts(client, folder, target)
    assert PRINTS.match(first)
    assert "graphs, 2 breaks" in counted
