"""After any sequence of edits, Problems equals that of a new server on the final text.

`FUSELIGHT_OPERATIONS=10000` makes as many operations; the ring makes fewer.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from fuselight_server.editor.results.captures import PROGRAM
from tests.support.simulation import Seen, Workspace

OPERATIONS = int(os.environ.get("FUSELIGHT_OPERATIONS", "360"))
SEEDS = 3
NAMES = ("a.py", "b.py", "c.py", "d.py")
LINES = (
    "import torch",
    "from a import f",
    "from b import g",
    "from c import h",
    "",
    "# a comment",
    "@torch.compile",
    "# fuselight: f(f32[4])",
    "# fuselight: g(f32[4])",
    "def f(x):",
    "def g(x):",
    "def h(x):",
    "    print(x)",
    "    print(x + 1)",
    "    f(x)",
    "    g(x)",
    "    h(x)",
    "    return x",
    'if __name__ == "__main__":',
    "    f(1)",
    "(",
)
A = """\
import torch
from b import g
# fuselight: f(f32[4])
@torch.compile
def f(x):
    print(x)
    return g(x)
"""
B = """\
from c import h
def g(x):
    print(x)
    return h(x)
"""
C = """\
import torch
# fuselight: h(f32[4])
@torch.compile
def h(x):
    print(x)
if __name__ == "__main__":
    h(1)
    print(2)
"""
START = {"a.py": A, "b.py": B, "c.py": C}


class Editor:
    """Random operations on a workspace, compared with a fresh server."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - nothing is kept secret
        self.workspace = Workspace(folder)
        self.past: dict[str, list[str]] = {}
        self.log: list[str] = []
        for name, text in START.items():
            (folder / name).write_text(text)
            self.workspace.open(name)

    def is_open(self, name: str) -> bool:
        return self.workspace.state.documents.at(self.workspace.path(name)) is not None

    def exists(self, name: str) -> bool:
        return (self.workspace.folder / name).exists()

    async def operate(self) -> None:
        """Perform one operation that an editor, a user or another tool can perform now."""
        name = self.chance.choice(NAMES)
        if not self.exists(name):
            does = self.chance.choice(["write", "nothing"])
        elif self.is_open(name):
            does = self.chance.choice(
                ["edit"] * 8 + ["save"] * 6 + ["undo"] * 4 + ["rename", "delete", "close"]
            )
        else:
            does = self.chance.choice(["open", "open", "write", "rename", "delete"])
        does = self.chance.choice([does] * 5 + ["run", "wait"])
        self.log.append(f"{does} {name}")
        await getattr(self, f"_{does}")(name)

    async def _nothing(self, _name: str) -> None: ...

    async def _edit(self, name: str) -> None:
        text = self.workspace.text(name) or ""
        self.past.setdefault(name, []).append(text)
        self.workspace.edit(name, self.changed(text))

    async def _undo(self, name: str) -> None:
        if past := self.past.get(name):
            self.workspace.edit(name, past.pop(self.chance.randrange(-min(3, len(past)), 0)))

    async def _save(self, name: str) -> None:
        self.workspace.save(name)

    async def _open(self, name: str) -> None:
        self.workspace.open(name)

    async def _close(self, name: str) -> None:
        self.workspace.close(name)

    async def _run(self, name: str) -> None:
        self.workspace.run(name, self.chance.choice(["f", "g", "h", "__main__"]))

    async def _write(self, name: str) -> None:
        text = self.workspace.text(name)
        self.workspace.write(name, START.get(name, C) if text is None else self.changed(text))

    async def _delete(self, name: str) -> None:
        self.workspace.delete(name)

    async def _rename(self, name: str) -> None:
        to = self.chance.choice(NAMES)
        if not self.exists(to):
            self.workspace.rename(name, to)

    async def _wait(self, _name: str) -> None:
        await self.workspace.settle()

    def changed(self, text: str) -> str:
        """Change a line, mostly to code that parses."""
        for _ in range(10):
            new = self._changed(text)
            if parses(new):
                break
        return new

    def _changed(self, text: str) -> str:
        lines = text.splitlines()
        at = self.chance.randrange(len(lines) + 1)
        kind = self.chance.choice(["insert", "insert", "remove", "replace", "rename"])
        if kind == "insert" or at == len(lines):
            lines.insert(at, self.chance.choice(LINES))
        elif kind == "remove":
            del lines[at]
        elif kind == "replace":
            lines[at] = self.chance.choice(LINES)
        else:
            old, new = self.chance.sample(["f", "g", "h"], 2)
            return text.replace(f"{old}(", f"{new}(")
        return "\n".join(lines) + "\n"

    async def finish(self) -> None:
        """Make every file parse, save the open files, and wait for the runs."""
        for name in NAMES:
            text = self.workspace.text(name)
            if text is None or parses(text):
                continue
            if self.is_open(name):
                self.workspace.edit(name, START.get(name, C))
            else:
                self.workspace.write(name, START.get(name, C))
        for name in NAMES:
            if self.is_open(name):
                self.workspace.save(name)
        await self.workspace.settle()

    async def fresh(self) -> Workspace:
        """Start a server on the final text, and ask it for the same targets."""
        fresh = Workspace(self.workspace.folder)
        for name in NAMES:
            if self.is_open(name):
                fresh.open(name)
                fresh.save(name)
        for key in self.workspace.targets():
            if key.name != PROGRAM:
                fresh.run(Path(key.path).name, key.name or "__main__")
        await fresh.settle()
        return fresh


def parses(text: str) -> bool:
    try:
        compile(text, "m.py", "exec")
    except SyntaxError:
        return False
    return True


def shown(workspace: Workspace) -> dict[str, list[Seen]]:
    """The findings without stale marks: a fresh server has no run from before a failed run."""
    return {name: [problem for problem in workspace.problems(name) if not problem[-1]] for name in NAMES}


def marked(workspace: Workspace) -> int:
    return sum(problem[-1] for name in NAMES for problem in workspace.problems(name))


@pytest.mark.slow
@pytest.mark.asyncio
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_the_problems_are_those_of_a_fresh_server(tmp_path: Path, seed: int) -> None:
    (tmp_path / "pyproject.toml").touch()
    editor = Editor(tmp_path, seed)
    compared = 0
    for number in range(1, OPERATIONS // SEEDS + 1):
        await editor.operate()
        if number % 30 == 0:
            await editor.finish()
            expected = await editor.fresh()
            assert shown(editor.workspace) == shown(expected), (number, editor.log[-30:])
            assert editor.workspace.targets() == expected.targets(), (number, editor.log[-30:])
            if all(capture.has_data for capture in editor.workspace.state.captures.values()):
                assert not marked(editor.workspace), (number, editor.log[-30:])
            compared += sum(len(entries) for entries in shown(expected).values())
            await expected.analysis.close()
    assert compared > OPERATIONS // 100, "findings were compared, not empty lists"
    await editor.workspace.analysis.close()
