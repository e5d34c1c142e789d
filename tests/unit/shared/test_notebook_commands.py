"""The commands of IPython in a cell: Python that does nothing, on the same lines."""

from __future__ import annotations

import ast

import pytest

from fuselight.shared.notebooks.commands import MARKER, python_of


@pytest.mark.parametrize(
    ("cell", "python", "rows"),
    [
        ("n = 1\nm = n % 2", "n = 1\nm = n % 2", []),
        ("%matplotlib inline\n!pip install x\nn = 1", "pass\npass\nn = 1", [0, 1]),
        ("for n in (1,):\n    !echo it isn't (\n    %load_ext a", "for n in (1,):\n    pass\n    pass", [1, 2]),
        ('text = (\n    "%d"\n    % n\n)\n%reset', 'text = (\n    "%d"\n    % n\n)\npass', [4]),
        ("y = x \\\n  % n\n%cd ..", "y = x \\\n  % n\npass", [2]),
        ('text = """\n!not a command\n"""\n?text', 'text = """\n!not a command\n"""\npass', [3]),
        ("text = '''a'''\\\n'b'\n!ls", "text = '''a'''\\\n'b'\npass", [2]),
        ("print(f'{x!r}')  # what?\n# %no\n!ls", "print(f'{x!r}')  # what?\n# %no\npass", [2]),
        ("net?\nnet.to??\n?net\n*int*?\na[0]?", "pass\npass\npass\npass\npass", [0, 1, 2, 3, 4]),
        ("/f x\n,f a b\n;f a b", "pass\npass\npass", [0, 1, 2]),
        ("files = !ls *.py\na.b = %who_ls\nd['k'] = !ls",
         "files = get_ipython()\na.b = get_ipython()\nd['k'] = get_ipython()", [0, 1, 2]),
        ("same = x == y\nok = f(a=b)\nn %= 2", "same = x == y\nok = f(a=b)\nn %= 2", []),
        ("!pip install \\\n    a \\\n    b\nn = 1", "pass\n\n\nn = 1", [0, 1, 2]),
        ("!echo \\", "pass", [0]),
        ("%%time\ny = net(x)\n!ls", "pass\ny = net(x)\npass", [0, 2]),
        ("\n%%capture out\ny = 1", "\npass\ny = 1", [1]),
        ("%%fuselight\nnet(x)", "pass\nnet(x)", [0]),
        ("# a comment\n%%time\ny = 1", "# a comment\npass\ny = 1", [1]),
        (f"{MARKER}\nn = 1", f"{MARKER} \nn = 1", [0]),
        ("", "", []),
        ("\r\n!ls\r\nn = 1", "\npass\nn = 1", [1]),
    ],
)  # fmt: skip
def test_commands_become_python_on_the_same_lines(cell: str, python: str, rows: list[int]) -> None:
    replaced = python_of(cell)
    assert "\n".join(replaced.lines) == python
    assert sorted(replaced.commands) == rows
    assert replaced.other == ""
    ast.parse(python)


@pytest.mark.parametrize(
    "cell",
    [
        "%time y = net(x)",
        "    %timeit net(x)",
        "%timeit -n 3 -r2 -q net(x)",
        "%time  net(x)  # %no",
        "%timeit  -o f()",
    ],
)
def test_a_measured_statement_keeps_its_columns(cell: str) -> None:
    [line] = python_of(cell).lines
    assert len(line) == len(cell)
    statement = cell[max(cell.find("net"), cell.find("y = "), cell.find("f()")) :]
    assert line.index(statement.split("net")[-1]) == cell.index(statement.split("net")[-1])
    assert line.lstrip().startswith("pass")
    ast.parse(line.strip())
    assert python_of(cell).commands == {0}


@pytest.mark.parametrize("command", ["bash", "html", "cython", "javascript", "writefile", "script", "sql"])
def test_a_cell_of_something_else_becomes_empty_lines(command: str) -> None:
    replaced = python_of(f"\n%%{command} -x\nfor f in *; do\n")
    assert replaced.lines == ("",) * 4
    assert replaced.other == f"%%{command}"
    assert replaced.commands == {0, 1, 2, 3}
