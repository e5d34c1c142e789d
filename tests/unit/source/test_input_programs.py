"""Which programs of a workspace are found for a target, and in which order."""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path

import pytest

from fuselight_server.source.input_programs import InputProgram, find_programs

NOTEBOOK = {"cells": [{"cell_type": "code", "source": ["%time\n", "from nets.cnn import Net\n", "Net()(1)"]}]}


def workspace(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return folder


def programs_of(folder: Path, name: str = "Net", **options: bool) -> list[tuple[str, int, bool, str]]:
    programs = find_programs(str(folder / "nets" / "cnn.py"), name, [str(folder)], **options)
    return [
        (Path(program.path).relative_to(folder).as_posix(), program.line, program.calls, program.kind)
        for program in programs
    ]


NETS = {"nets/__init__.py": "from .cnn import Net\n", "nets/cnn.py": "class Net: ...\ndef step(x): ...\n"}
CALLS = """
from nets.cnn import Net
net = Net(3)
net.eval()
net(1)
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (CALLS, 5),
        ("import nets\nnet = nets.Net()\nprint(net(1))\n", 3),
        ("import nets.cnn as zoo\nzoo.Net()(1)\n", 2),
        ("from nets import cnn\ncompiled = compile(cnn.Net().eval())\ncompiled(1)\n", 3),
        ("from nets.cnn import *\nif (net := Net.from_file('a')):\n    net(1)\n", 3),
        (
            "from nets import Net as N\nclass T:\n    def run(self):\n        self.n = N()\n        self.n(1)\nT()\n",
            5,
        ),
    ],
)
def test_a_script_that_calls_the_target(tmp_path: Path, text: str, line: int) -> None:
    folder = workspace(tmp_path, {**NETS, "run.py": text + '\nif __name__ == "__main__": ...\n'})
    assert programs_of(folder) == [("run.py", line, True, "script")]


@pytest.mark.parametrize(
    "text",
    [
        "from nets.cnn import Net\n",
        "from nets.cnn import Net\ndef helper(net: Net):\n    return net(1)\n",
        "from other.cnn import Net\nNet()(1)\n",
        "from cnn import Net\nNet()(1)\n",
        "from .cnn import Net\nNet()(1)\n",
        "class Net: ...\nNet()(1)\n",
        "from nets.cnn import Net\nNet()(1\n",
        "# from nets.cnn import Net\n'Net()(1)'\n",
    ],
)
def test_a_file_that_gives_no_inputs(tmp_path: Path, text: str) -> None:
    files = {**NETS, "run.py": text, "cnn.py": "class Net: ...\n"}
    assert programs_of(workspace(tmp_path, files)) == []


def test_a_module_is_no_program(tmp_path: Path) -> None:
    text = "from nets.cnn import Net\ndef build():\n    return Net()\n"
    assert programs_of(workspace(tmp_path, {**NETS, "factory.py": text})) == []


def test_scripts_come_first_then_tests_then_what_only_builds(tmp_path: Path) -> None:
    folder = workspace(
        tmp_path,
        {
            **NETS,
            "tests/test_cnn.py": CALLS,
            "notes.ipynb": json.dumps(NOTEBOOK),
            "far/away/train.py": CALLS,
            "train.py": CALLS,
            "build.py": "from nets import Net\nNet()\n",
            ".venv/lib/train.py": CALLS,
            "broken.ipynb": "{",
        },
    )
    assert programs_of(folder) == [
        ("train.py", 5, True, "script"),
        ("far/away/train.py", 5, True, "script"),
        ("tests/test_cnn.py", 5, True, "test"),
        ("notes.ipynb", 4, True, "notebook"),
        ("build.py", 2, False, "script"),
    ]


def test_a_program_that_calls_what_builds_the_target(tmp_path: Path) -> None:
    folder = workspace(
        tmp_path,
        {
            **NETS,
            "nets/factory.py": "from .cnn import Net\ndef build():\n    return Net()\n",
            "nets/loop.py": "from nets.factory import build\ndef loop():\n    return build()(1)\n",
            "main.py": "from nets.loop import loop\nif __name__ == '__main__':\n    loop()\n",
        },
    )
    assert programs_of(folder) == [("main.py", 3, False, "script")]


def test_a_function_is_called_where_it_is_named(tmp_path: Path) -> None:
    folder = workspace(tmp_path, {**NETS, "main.py": "from nets.cnn import step\n\nstep(1)\n"})
    assert programs_of(folder, "step", is_function=True) == [("main.py", 3, True, "script")]


def test_nothing_that_is_no_regular_file_is_read(tmp_path: Path) -> None:
    folder = workspace(tmp_path, {**NETS, "real/train.txt": CALLS, "large.py": CALLS + "#" * 600_000})
    os.mkfifo(folder / "pipe.py")
    (folder / "link.py").symlink_to(folder / "real" / "train.txt")
    assert programs_of(folder) == []


def test_the_name_is_that_of_the_file() -> None:
    assert InputProgram("/w/train.py", 1, calls=True, kind="script").name == "train.py"
