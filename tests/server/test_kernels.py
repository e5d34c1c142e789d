"""Generated kernels over the protocol: lenses on lines and targets, hovers, settings, staleness."""

from __future__ import annotations

import importlib.util
import re
from typing import TYPE_CHECKING

import pytest

from tests.server.programs import run_in, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.server.conftest import Start
    from tests.support.lsp_client import Client, Json

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="this environment has no Triton"),
]

SOURCE = """\
import torch
from torch.nn import functional as F


# fuselight: f(f32[64, 512], f32[512, 512], train=True)
@torch.compile
def f(x, w):
    h = x @ w
    h = F.gelu(h)
    return h * 2
"""
MATMUL, GELU, DOUBLE = 7, 8, 9
"""0-based lines."""
CLIENT = {"clientCommands": ["fuselight.showDetails", "fuselight.showKernel"]}
ASKED = "fuselight.server.kernels"


def lenses_of(client: Client, uri: str) -> list[Json]:
    request: list[Json] = client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
    return request


def by_line(client: Client, uri: str) -> dict[int, list[str]]:
    line: dict[int, list[str]] = {}
    for lens in lenses_of(client, uri):
        line.setdefault(lens["range"]["start"]["line"], []).append(lens["command"]["title"])
    return line


def hover(client: Client, uri: str, line: int) -> str:
    answer = client.request(
        "textDocument/hover", {"textDocument": {"uri": uri}, "position": {"line": line, "character": 5}}
    )
    return str(answer["contents"]["value"]) if answer else ""


def test_a_command_puts_kernels_on_their_lines(client: Client, folder: Path) -> None:
    uri = client.open(write(folder, SOURCE))
    client.until(lambda: by_line(client, uri) != {}, "lenses")
    assert by_line(client, uri) == {
        6: ["Run", "Kernels", "Accuracy", "Memory", "Benchmark", "Tune", "inputs from line 5"]
    }
    client.command(ASKED, {"uri": uri, "target": "f"})
    client.notified("fuselight/status", lambda status: status["running"] == ["f (kernels)"])
    client.idle(1)
    lenses = by_line(client, uri)
    total, *buttons, inputs = lenses[6]
    assert buttons == ["Run", "Details", "Kernels", "Accuracy", "Memory", "Benchmark", "Tune"]
    assert total.startswith(("6 kernels", "5 kernels", "4 kernels")), lenses
    assert total.endswith(" on h200")
    assert inputs == "inputs from line 5"
    assert " on h200, saves " in hover(client, uri, 6)
    assert set(lenses) == {6, MATMUL, GELU, DOUBLE}
    assert "kernel" in lenses[MATMUL][0]
    assert "~" in lenses[MATMUL][0]
    assert "fused with line 9" in lenses[DOUBLE][0]
    (click,) = (lens for lens in lenses_of(client, uri) if lens["range"]["start"]["line"] == DOUBLE)
    assert click["command"]["command"] == "fuselight.showKernel"
    assert "| count | estimate | bound | moves | phase | kind | kernel |" in hover(client, uri, DOUBLE)
    assert "gelu" in hover(client, uri, GELU)
    assert "| forward | extern | extern_kernels.mm |" in hover(client, uri, MATMUL)
    assert client.diagnostics(uri) == [], "kernels alone change no finding"

    client.edit(uri, (MATMUL, 0), (MATMUL, 0), "    x = x.contiguous()\n")
    moved = by_line(client, uri)
    assert set(moved) == {6, MATMUL + 1, GELU + 1, DOUBLE + 1}
    assert moved[DOUBLE + 1][0].endswith("fused with line 10"), "the target alone says it"
    assert "(before your edit)" in hover(client, uri, DOUBLE + 1)
    assert moved[6][0].endswith("(before your edit)")


def test_the_texts_of_a_kernel_and_their_lines(client: Client, folder: Path) -> None:
    uri = client.open(write(folder, SOURCE))
    client.command(ASKED, {"uri": uri, "target": "f"})
    client.idle(1)
    client.until(lambda: DOUBLE in by_line(client, uri), "the kernels of a line")
    show = lenses_of(client, uri)
    (argument,) = next(lens for lens in show if lens["range"]["start"]["line"] == DOUBLE)["command"][
        "arguments"
    ]
    offered = client.request("fuselight/kernelsAt", argument)["kernels"]
    assert [value["form"] for value in offered] == ["source", "source", "wrapper", "aten", "wrapper", "aten"]
    (forward,) = (value for value in offered if value["description"].startswith("forward 0/0, triton"))
    asked = {key: forward[key] for key in ("uri", "target", "kernel", "form")}
    shown = client.request("fuselight/kernelDocument", asked)
    assert "tl.load" in shown["text"]
    assert shown["links"] == [
        {"uri": uri, "lines": [GELU, DOUBLE], "first": 0, "last": shown["text"].count("\n") - 1}
    ]
    ptx = {**asked, "form": "ptx"}
    assert "ptx" in [form["form"] for form in shown["forms"]]
    since = client.mark()
    assert "It is being compiled" in client.request("fuselight/kernelDocument", ptx)["text"]
    client.notified("fuselight/reportChanged", lambda params: params["uri"] == uri, since=since)
    compiled = client.request("fuselight/kernelDocument", ptx)["text"]
    assert "// Compiled: " in compiled
    assert ".visible .entry triton_poi_fused_gelu_mul_0" in compiled
    loads_on_lines_of_the_source(client, ptx, shown["text"], r"^\s*ld\.global", "tl.load(")

    sass = {**asked, "form": "sass"}
    since = client.mark()
    assert "It is being compiled" in client.request("fuselight/kernelDocument", sass)["text"]
    client.notified("fuselight/reportChanged", lambda params: params["uri"] == uri, since=since)
    loads_on_lines_of_the_source(client, sass, shown["text"], r"\bLDG\b", "tl.load(")
    marks = client.request("fuselight/kernelLines", {"uri": uri})["lines"]
    assert {mark["line"] for mark in marks} == {MATMUL, GELU, DOUBLE}
    (target,) = client.request("fuselight/reportTree", {"uri": uri})["nodes"]
    (node,) = (child for child in target["children"] if child["label"] == "Kernels")
    assert [child["label"] for child in node["children"]] == [
        "forward graph 0/0",
        "backward graph 0/0",
        "Saved for backward, by line (1)",
    ]
    listed = {child["label"]: child for child in node["children"][0]["children"]}
    assert listed[forward["label"]]["kernel"]["kernel"] == forward["kernel"]

    client.edit(uri, (MATMUL, 0), (MATMUL, 0), "    x = x.contiguous()\n")
    assert client.request("fuselight/kernelDocument", asked)["links"][0]["lines"] == [GELU + 1, DOUBLE + 1]
    client.command("fuselight.server.clearCaches")
    gone = client.request("fuselight/kernelDocument", asked)
    assert (gone["found"], gone["links"]) == (False, [])
    assert "open model.py and press Kernels above f" in gone["text"]


def loads_on_lines_of_the_source(client: Client, asked: Json, source: str, pattern: str, called: str) -> None:
    request = client.request("fuselight/kernelDocument", asked)
    rows, lines = request["text"].split("\n"), source.split("\n")
    results = {
        line
        for link in request["sourceLinks"]
        for row in rows[link["first"] : link["last"] + 1]
        if re.search(pattern, row)
        for line in link["lines"]
    }
    assert results == {number for number, line in enumerate(lines) if called in line}


TWO_GRAPHS = """\
import os
import time

import torch


@torch.compiler.disable
def wait():
    while not os.path.exists(__file__ + ".go"):
        time.sleep(0.01)


# fuselight: f(f32[64, 512])
@torch.compile
def f(x):
    h = x.exp() + 1
    wait()
    return h.cos() * 2
"""
TARGET, FIRST, SECOND = 14, 15, 17
"""0-based lines of the function and of its two graphs; the second is captured when the awaited file is there."""


def test_generated_kernels_are_shown_during_the_run(client: Client, folder: Path) -> None:
    uri = client.open(write(folder, TWO_GRAPHS))
    client.command(ASKED, {"uri": uri, "target": "f"})
    client.notified("fuselight/reportChanged", lambda params: params["uri"] == uri)
    lenses = by_line(client, uri)
    assert "partial" not in lenses[FIRST][0], "the target alone says it"
    assert SECOND not in lenses
    _, part, *buttons = lenses[TARGET]
    assert buttons == ["Cancel", "Details"]
    assert part.startswith("1 kernel, ~")
    assert part.endswith(" (partial: still running)")
    (target,) = client.request("fuselight/reportTree", {"uri": uri})["nodes"]
    (node,) = (child for child in target["children"] if child["label"] == "Kernels")
    assert "partial" in node["description"]
    client.command("fuselight.server.cancel", {"uri": uri})
    client.idle(1)
    assert by_line(client, uri)[TARGET][0].endswith(" (partial: canceled)")

    (folder / "model.py.go").touch()
    client.command(ASKED, {"uri": uri, "target": "f"})
    client.idle(2)
    lenses = by_line(client, uri)
    assert "generated" not in lenses[FIRST][0]
    assert lenses[TARGET][0].startswith("2 kernels, ~")
    assert {FIRST, SECOND} <= set(lenses)


def test_a_new_run_says_what_changed(client: Client, folder: Path, configure: Callable[..., None]) -> None:
    configure(kernels={"when": "onSave"})
    uri = run_in(client, folder, SOURCE.replace("    return", "    print(h.sum())\n    return"))
    client.idle(1)
    before = by_line(client, uri)
    assert "2 graphs, 1 break" in str(before[6][:2]), "the capture runs, too"
    assert "->" not in hover(client, uri, 6)
    client.edit(uri, (DOUBLE, 0), (DOUBLE + 1, 0), "")
    client.save(uri)
    client.idle(2)
    assert "1 graph, no breaks" in by_line(client, uri)[6][:2]
    shown = hover(client, uri, 6).replace("\\", "")
    assert "0 recompilations - inputs from line 5 - line 10 (deleted): break gone" in shown
    change = r" - line 10 \(deleted\): break gone; \d+ -> \d+ kernels; ~[\d.]+ µs -> ~[\d.]+ µs$"
    assert re.search(change, shown, re.MULTILINE), shown
    (target,) = client.request("fuselight/reportTree", {"uri": uri})["nodes"]
    (node,) = (child for child in target["children"] if child["label"] == "Changed since the run before (1)")
    assert [child["label"] for child in node["children"]] == ["line 10 (deleted): break gone"]
    report = client.command("fuselight.server.problemReport")
    assert "f (kernels): line 10 (deleted): break gone\n" in report
    assert re.search(r"f \(kernels\): line \d+: \d+( -> \d+)? kernels, ~", report)


def test_lenses_as_set(client: Client, folder: Path, configure: Callable[..., None]) -> None:
    uri = client.open(write(folder, SOURCE))
    client.command(ASKED, {"uri": uri, "target": "f"})
    client.idle(1)

    def lens_lines() -> list[int]:
        """Lines of the lenses that speak of kernels."""
        titles = [
            (lens["range"]["start"]["line"], lens["command"]["title"]) for lens in lenses_of(client, uri)
        ]
        return [line for line, title in titles if "%)" in title]

    def set_to(chosen: Json, lines: list[int]) -> None:
        configure(**chosen)
        client.until(lambda: lens_lines() == lines, f"lenses on lines {lines}")

    everywhere = lens_lines()
    assert {GELU, DOUBLE} <= set(everywhere)
    set_to({"kernels": {"lens": "function"}}, [6])
    set_to({"kernels": {"lens": "off"}}, [])
    set_to({}, everywhere)


def test_a_failed_target_is_reported_and_keeps_the_previous_kernels(client: Client, folder: Path) -> None:
    uri = client.open(write(folder, SOURCE))
    client.command(ASKED, {"uri": uri, "target": "f"})
    client.idle(1)
    client.edit(uri, (MATMUL, 0), (MATMUL, 13), "    raise ValueError('no')")
    client.command(ASKED, {"uri": uri, "target": "f"})
    client.idle(2)
    total = by_line(client, uri)[6][0]
    assert ", failed: " in total
    assert total.endswith(" (before your edit)")
    assert "kernel" in by_line(client, uri)[GELU][0]
    client.command("fuselight.server.clearCaches")
    assert by_line(client, uri) == {
        6: ["Run", "Kernels", "Accuracy", "Memory", "Benchmark", "Tune", "inputs from line 5"]
    }


def test_an_untrusted_folder_generates_nothing(connect: Start, tmp_path: Path) -> None:
    client = connect()
    client.start(tmp_path, options={**CLIENT, "trusted": False})
    uri = client.open(write(tmp_path, SOURCE))
    client.command(ASKED, {"uri": uri, "target": "f"})
    client.notified("window/showMessage", lambda params: "not trusted" in params["message"])
    assert by_line(client, uri) == {6: ["inputs from line 5"]}
