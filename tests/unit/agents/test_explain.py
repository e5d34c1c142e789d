"""`explain`: findings with the code around them, and codes, also those of the installed torch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.agent_project import TEXT, scale, written_notebook
from tests.support.agents import MemoryClient, ask, talk, toolbox_of
from tests.support.command import AnsweringWorker


def test_a_finding_is_explained_with_the_code_around_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    AnsweringWorker(lambda _request: scale(project / "model.py", TEXT)).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "explain", path="model.py", line=6)
        (finding,) = data["findings"]
        assert (finding["code"], finding["line"]) == ("GB0170", 6)
        assert ">    6     print(x)" in finding["source"]
        assert "     5 def scale(x):" in finding["source"]
        assert finding["message"] in text
        assert finding["link"] in text
        message = await client.refusal("explain", path="model.py", line=7)
        assert message == "there is no such finding. `model.py` has findings on line 6."
        assert "no such finding" in await client.refusal("explain", path="model.py", line=6, code="FL201")
        assert "name a `path`" in await client.refusal("explain")

    talk(lambda: toolbox_of(project), script)


def test_findings_of_a_notebook_are_in_its_cells(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, text = written_notebook(project)
    AnsweringWorker(lambda _request: scale(path, text)).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        data, _ = await ask(client, "check", paths=["n.ipynb"])
        assert [(finding["path"], finding["line"]) for finding in data["findings"]] == [("n.ipynb:cell 2", 4)]
        for place in ({"path": "n.ipynb:cell 2", "line": 4}, {"path": "n.ipynb"}):
            _, explained = await ask(client, "explain", **place)
            assert ">    4     print(x)" in explained
        assert "no such finding" in await client.refusal("explain", path="n.ipynb:cell 2", line=1)
        assert "has no findings" in await client.refusal("explain", path="n.ipynb:cell 1")

    talk(lambda: toolbox_of(project), script)


def test_long_lines_around_a_finding_are_cut(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = TEXT.replace("    return", f"    text = '{'x' * 100_000}'\n    return")
    (project / "model.py").write_text(text)
    AnsweringWorker(lambda _request: scale(project / "model.py", text)).put_in_place(monkeypatch)

    async def script(client: MemoryClient) -> None:
        _, explained = await ask(client, "explain", path="model.py", line=6)
        assert "xxx... (100,013 characters)" in explained
        assert len(explained) < 5_000

    talk(lambda: toolbox_of(project), script)


def test_a_code_is_explained_without_a_run(project: Path) -> None:
    async def script(client: MemoryClient) -> None:
        data, _ = await ask(client, "explain", code="fl201")
        assert (data["code"], data["title"]) == ("FL201", "recompiled")
        assert data["page"].startswith("# FL201")
        for code in ("FL999", "x"):
            assert f"no code `{code}`" in await client.refusal("explain", code=code)

    talk(lambda: toolbox_of(project, allowed=False), script)


def _installed_torch(project: Path, registry: object) -> None:
    """An environment of the project whose torch has this registry."""
    binaries, package = project / ".venv/bin", project / ".venv/lib/python3.11/site-packages/torch/_dynamo"
    for folder in (binaries, package):
        folder.mkdir(parents=True)
    (binaries / "python").write_text("#!/bin/sh\n")
    (binaries / "python").chmod(0o700)
    text = registry if isinstance(registry, str) else json.dumps(registry)
    (package / "graph_break_registry.json").write_text(text)


REGISTERED = {
    "Gb_type": "Cannot fold a `Moebius` strip",
    "Explanation": "Dynamo cannot fold {name}.",
    "Hints": ["Cut the strip first.", "Please report an issue to PyTorch. "],
}


def test_each_code_of_the_installed_torch_has_a_title_a_cause_and_a_step(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    silent = {"Gb_type": "Silent", "Explanation": "", "Hints": ["Please report an issue to PyTorch."]}
    damaged = {"GB0777": [], "GB0776": "x", "GB0775": [{"Gb_type": 3}], "GB0774": [{"Hints": "x"}]}
    known = {
        "GB9998": [REGISTERED, {"Gb_type": "old"}],
        "GB9997": [silent],
        "GB0170": [REGISTERED],
        **damaged,
    }
    _installed_torch(project, known)

    async def script(client: MemoryClient) -> None:
        data, text = await ask(client, "explain", code="gb9998")
        assert data["title"] == "Cannot fold a `Moebius` strip"
        assert "Dynamo cannot fold {name}" in text
        assert "What to do: Move the line before or after the compiled code" in text
        assert "Cut the strip" not in text, "nothing shows that a hint of torch fits"
        assert data["link"].endswith("gb9998.html")
        data, text = await ask(client, "explain", code="GB9997")
        assert data["title"] == "Silent"
        assert "What to do: Move the line before or after the compiled code" in text
        data, text = await ask(client, "explain", code="GB0170")
        assert data["title"] != REGISTERED["Gb_type"], "our own words come first"
        assert "torch.where" in text
        for code in (*damaged, "GB0001"):
            assert "has no graph break" in await client.refusal("explain", code=code)
        data, text = await ask(client, "explain", code="GB0059")
        assert data["title"], "ours, without the registry"
        assert "What to do: " in text

    talk(lambda: toolbox_of(project, allowed=False), script)


@pytest.mark.parametrize("registry", ["{", "[1]", "[" * 100_000, "\x00"])
def test_a_damaged_registry_is_as_none(project: Path, monkeypatch: pytest.MonkeyPatch, registry: str) -> None:
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    _installed_torch(project, registry)

    async def script(client: MemoryClient) -> None:
        assert "has no graph break" in await client.refusal("explain", code="GB9998")
        assert (await ask(client, "explain", code="GB0059"))[0]["title"]

    talk(lambda: toolbox_of(project, allowed=False), script)
