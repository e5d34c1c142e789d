"""What a change depends on besides its inputs, and which values the workspace shows for that."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuselight.shared.protocol import NameInUse
from fuselight_server.fixes.verification.change_context import context_of, neighbors

MODEL = """\
from typing import Literal
from dataclasses import dataclass

@dataclass
class Config:
    causal: bool = False
    kind: Literal["flat", "deep"] = "flat"

class Net:
    limit = 128

    def __init__(self, dim, heads=1, mode="sum"):
        self.head_dim = dim // heads
        self.mode = mode
        self.register_buffer("rows", make(512))

    def helper(self, x):
        return x + self.other

    def forward(self, x, mask=None):
        scale = self.head_dim ** -0.5
        y = x * scale
        if self.mode in ("mean", "max"):
            y = y.mean()
        z = y + self.rows
        return z
"""


def used(old: str, new: str, others: dict[str, str] | None = None) -> dict[str, NameInUse]:
    context = context_of({"m.py": old}, {"m.py": new}, others or {})
    return {name.name: name for name in context.names}


def changed(old: str, new: str) -> set[str]:
    return {name for name, use in used(old, new).items() if use.is_changed}


def test_a_changed_line_depends_on_what_its_names_are_computed_of() -> None:
    names = used(MODEL, MODEL.replace("y = x * scale", "y = x / scale"))
    assert {"scale", "head_dim", "dim", "heads"} <= {name for name, use in names.items() if use.is_changed}
    assert names["head_dim"].is_derived
    assert not names["heads"].is_derived
    assert not names["mode"].is_changed, "it is near"
    assert "other" not in names, "of a function that stays"


def test_a_deleted_line_depends_on_names_as_a_new_one_does() -> None:
    new = MODEL.replace('        if self.mode in ("mean", "max"):\n            y = y.mean()\n', "")
    assert "mode" in changed(MODEL, new)
    assert "mode" in changed(new, MODEL)


@pytest.mark.parametrize(
    ("others", "name", "shown"),
    [
        ({}, "mode", {"'sum'", "'mean'", "'max'"}),
        ({}, "heads", {"1"}),
        ({"train.py": "Net(64, heads=4)\nNet(32, 8, mode='min')"}, "heads", {"1", "4", "8"}),
        ({"train.py": "Net(64, heads=4)\nNet(32, 8, mode='min')"}, "mode", {"'min'"}),
        ({"t.py": "# fuselight: Net(16, heads=2)(f32[2, 16])\n"}, "heads", {"2"}),
        ({"big.json": '{\n  "heads": 12,\n  "mode": "last"\n}'}, "heads", {"12"}),
        ({"big.yaml": "model:\n  mode: 'last'\n"}, "mode", {"'last'"}),
        ({"t.py": "CONFIGS = {'large': {'heads': 16}}"}, "heads", {"16"}),
        ({"broken.py": "Net(64, heads=("}, "heads", {"1"}),
    ],
)
def test_the_workspace_shows_values(others: dict[str, str], name: str, shown: set[str]) -> None:
    names = used(MODEL, MODEL.replace("y = x * scale", "y = x / scale"), others)
    assert shown <= set(names[name].values)


@pytest.mark.parametrize(
    ("function", "shown"),
    [
        ("def f(x, act):\n    return {'relu': x, 'tanh': -x}[act]\n", {"'relu'", "'tanh'"}),
        (
            "def f(x, act):\n    match act:\n        case 'relu' | 'tanh':\n            return x\n",
            {"'relu'", "'tanh'"},
        ),
        ("def f(x, act: Literal['relu', 'tanh']):\n    return x if act else -x\n", {"'relu'", "'tanh'"}),
        ("def f(x, *, act=None):\n    return x if act else -x\n", {"None"}),
    ],
)
def test_branches_and_annotations_show_values(function: str, shown: set[str]) -> None:
    names = used(function, function.replace("return", "return 0 +"))
    assert shown <= set(names["act"].values)


def test_numbers_of_changed_lines_and_of_buffers_they_read_may_be_sizes() -> None:
    assert context_of({"m.py": MODEL}, {"m.py": MODEL.replace("y + self.rows", "self.rows")}, {}).sizes == (
        512,
    )
    new = MODEL.replace("z = y", "z = y if x.shape[0] > 100 else y")
    assert 100 in context_of({"m.py": MODEL}, {"m.py": new}, {}).sizes


def test_a_text_that_does_not_parse_shows_nothing() -> None:
    assert context_of({"m.py": "def f(:"}, {"m.py": "def g(:"}, {}).names == ()


def test_files_next_to_a_changed_one_are_read(tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    for name in ("pkg/m.py", "pkg/other.py", "pkg/big.json", "pkg/data.bin", "train.py", "notes.json"):
        (tmp_path / name).write_text("")
    shown = neighbors([str(package / "m.py")])
    assert shown == [str(package / "big.json"), str(package / "other.py"), str(tmp_path / "train.py")]
    (package / "big.json").write_text(" " * 300_000)
    (package / "zero.py").symlink_to("/dev/zero")
    assert neighbors([str(package / "m.py")]) == shown[1:]
    assert neighbors(["/nowhere/at/all/m.py"]) == []
