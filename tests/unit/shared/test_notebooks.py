"""The code cells of notebooks as Python."""

from __future__ import annotations

import json

import pytest

from fuselight.shared.inputs.notebooks import code_of_notebook


def code(*cells: str) -> str:
    kinds = [{"cell_type": "markdown", "source": ["# %no"]}]
    kinds += [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    return code_of_notebook(json.dumps({"cells": kinds}))


@pytest.mark.parametrize(
    ("cell", "python"),
    [
        ("%matplotlib inline\n!pip install x\nn = 1", "pass\npass\nn = 1"),
        ("for n in (1,):\n    !echo it isn't\n    %load_ext a", "for n in (1,):\n    pass\n    pass"),
        ('text = (\n    "%d"\n    % n\n)\n%reset', 'text = (\n    "%d"\n    % n\n)\npass'),
        ('text = """\n!not a command\n"""\n?text', 'text = """\n!not a command\n"""\npass'),
        ("%time y = net(x)\n%timeit net(x)\n%timeit -n 3 net(x)", "y = net(x)\nnet(x)\npass"),
        ("files = !ls *.py\nnet?\nnet.to??", "files = None\npass\npass"),
        ("!pip install \\\n    a \\\n    b\nn = 1", "pass\n\n\nn = 1"),
        ("%%time\ny = net(x)", "pass\ny = net(x)"),
        ("%%bash\nfor f in *; do\n  echo $f\ndone", "\n\n\n"),
        ("%cd ..\nthis is no Python", "\n"),
    ],
)
def test_commands_of_ipython_become_python_on_the_same_lines(cell: str, python: str) -> None:
    assert code(cell) == python
    assert code("a = 1", cell, "b = 2") == f"a = 1\n\n{python}\n\nb = 2"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"cells": 3}', '{"cells": [1]}', "[" * 100_000])
def test_a_text_that_is_no_notebook_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        code_of_notebook(text)
