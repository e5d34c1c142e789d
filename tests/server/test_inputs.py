"""A package whose class has no inputs: those of the workspace's own program, or a line whose shape is selected."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.programs import codes, write
from tests.support.lsp_client import Client, Json

pytestmark = pytest.mark.torch

PACKAGE = {
    "nets/__init__.py": "",
    "nets/net.py": """\
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Sizes:
    width: int = 6


class Net(nn.Module):
    def __init__(self, sizes: Sizes):
        super().__init__()
        self.layer = nn.Conv2d(3, sizes.width, 3)

    def forward(self, images):
        print("here")
        return self.layer(images)
""",
}
TRAIN = """\
import torch

from nets.net import Net, Sizes

if __name__ == "__main__":
    net = Net(Sizes(width=4))
    net(torch.ones(5, 3, 8, 8))
    raise SystemExit("the program ends at its first call")
"""
RUN = "fuselight.server.run"
LINE = 11
"""0-based, of `class Net`."""


def start(client: Client, folder: Path, **more: str) -> str:
    """Write the package, open the class, run it; returns its URI."""
    for name, text in {**PACKAGE, **{f"{name}.py": text for name, text in more.items()}}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path.parent, text, path.name)
    uri = client.open(folder / "nets" / "net.py")
    client.command(RUN, {"uri": uri, "target": "Net"})
    client.idle(1)
    return uri


def lens(client: Client, uri: str, title: str) -> Json:
    """The lens with a title, once it is there."""
    entries: list[Json] = []

    def has_come() -> bool:
        answer = client.request("textDocument/codeLens", {"textDocument": {"uri": uri}}) or []
        entries[:] = [value["command"] for value in answer if value["command"]["title"].startswith(title)]
        return bool(entries)

    client.until(has_come, f"the lens {title!r}", deadline=60)
    return entries[0]


def test_the_inputs_of_a_program_that_calls_the_class(client: Client, folder: Path) -> None:
    uri = start(client, folder, train=TRAIN)
    use = lens(client, uri, "Use the inputs of train.py")
    assert lens(client, uri, "needs inputs: add a line")["command"] == "fuselight.server.addInputs"
    (problem,) = [diagnostic for diagnostic in client.diagnostics(uri) if diagnostic["code"] == "FL502"]
    assert problem["severity"] == 3, "an editor lists no hints"
    first = client.actions(uri, LINE)[0]
    assert (first["title"], first["isPreferred"]) == ("Use the inputs of train.py", True)
    mark = client.mark()
    client.command(use["command"], *use["arguments"])
    question = client.notified("fuselight/confirmRun", since=mark)
    assert question["message"] == "Run train.py to get the inputs of Net?"
    client.idle(2)
    (target,) = client.request("fuselight/reportTree", {"uri": uri})["nodes"]
    assert "inputs from train.py" in target["children"][0]["description"]
    assert codes(client, uri) == ["GB0059"]
    client.save(uri)  # the program has been agreed to for saves, too
    client.idle(3)
    assert codes(client, uri) == ["GB0059"]
    client.command("fuselight.server.kernels", {"uri": uri, "target": "Net"})
    client.idle(4)
    assert any("kernel" in title for title in client.lenses(uri))


def test_a_line_is_added_and_its_shape_selected(client: Client, folder: Path) -> None:
    uri = start(client, folder)
    add = lens(client, uri, "needs inputs: add a line")
    mark = client.mark()
    client.command(add["command"], *add["arguments"])
    shown = client.notified("window/showDocument", since=mark)
    applied = client.notified("workspace/applyEdit", since=mark)
    ((edit,),) = applied["edit"]["changes"].values()
    text = edit["newText"]
    assert text == "# fuselight: Net(Sizes())(f32[2, 3, 32, 32])\n"
    start_at, end_at = (shown["selection"][end]["character"] for end in ("start", "end"))
    assert (shown["uri"], shown["selection"]["start"]["line"]) == (uri, LINE)
    assert text[start_at:end_at] == "2, 3, 32, 32"
    client.save(uri)
    client.idle(2)
    assert codes(client, uri) == ["GB0059"]


def test_the_quick_fix_selects_the_shape_after_its_edit(client: Client, folder: Path) -> None:
    uri = start(client, folder)
    (action,) = [
        action for action in client.actions(uri, LINE) if action["title"].startswith("Insert a line")
    ]
    client.apply(action["edit"])
    mark = client.mark()
    client.command(action["command"]["command"], *action["command"]["arguments"])
    selection = client.notified("window/showDocument", since=mark)["selection"]
    assert (selection["start"]["line"], selection["end"]["character"]) == (LINE, 42)


def test_a_program_without_a_call_is_not_offered_again(client: Client, folder: Path) -> None:
    test = TRAIN.replace('if __name__ == "__main__":', "def test_net():")
    uri = start(client, folder, train=TRAIN.replace("net(torch", "print(torch"), test_net=test)
    program = (folder / "train.py").as_uri()
    client.command("fuselight.server.useInputs", {"uri": uri, "target": "Net", "program": program})
    mark = client.mark()
    lens(client, uri, "Use the inputs of test_net.py")
    client.command("fuselight.server.useInputs", {"uri": uri, "target": "Net", "program": uri})
    client.notified(
        "window/showMessage", lambda params: "No program is known" in params["message"], since=mark
    )
