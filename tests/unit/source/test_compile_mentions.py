"""Calls of torch's compiler that no name of the file stands for."""

from __future__ import annotations

import pytest

from fuselight_server.source.compile_mentions import compile_mentions

HEAD = "import torch\n"


@pytest.mark.parametrize(
    "line",
    [
        "for layer in layers: layer.compile()",
        "model.blocks[0] = torch.compile(model.blocks[0])",
        "run([torch.compile(one, dynamic=True) for one in functions])",
        "from torch import compile as fast; step = fast(run)",
        "import torch as t; t.compile(run)",
        "partial(torch.compile, mode='default')(run)",
        "layer.compile(fullgraph=True)",
        "@torch.compile\ndef f(x): return x",
    ],
)
def test_torchs_compiler_is_found_wherever_it_is_called(line: str) -> None:
    assert compile_mentions(HEAD + line).lines == (2,)


@pytest.mark.parametrize(
    "line",
    [
        "re.compile('a')",
        "model.compile(optimizer='adam', loss='mse')",
        "pattern.compile('a')",
        "# torch.compile(model)",
        "'torch.compile(model)'",
        "re.compile()",
        "broken(",
    ],
)
def test_other_compilers_comments_and_strings_are_none(line: str) -> None:
    assert compile_mentions(HEAD + line).lines == ()


def test_what_a_function_compiles_is_not_reached_by_an_import() -> None:
    assert not compile_mentions("import torch\ndef build():\n    return torch.compile(f)\n").is_reached
    assert compile_mentions("import torch\n@torch.compile\ndef f(x):\n    return x\n").is_reached
    assert compile_mentions("import torch\nfor one in many:\n    one.compile()\n").is_reached


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('"""Text."""\nimport torch\nx = 1\ndef f(): pass\n', None),
        ("import torch\ntorch.manual_seed(0)\n", 2),
        ("import torch\n\nfor step in range(3):\n    run()\n", 3),
    ],
)
def test_a_file_acts_from_its_first_statement_that_is_no_definition(text: str, line: int | None) -> None:
    assert compile_mentions(text).action_line == line
