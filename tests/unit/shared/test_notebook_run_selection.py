"""What of a notebook runs for a target, by reading it."""

from __future__ import annotations

import ast

import pytest

from fuselight.shared.notebooks.cells import Cell
from fuselight.shared.notebooks.commands import MARKER
from fuselight.shared.notebooks.module_text import module_text, python_of_cell, split_module
from fuselight.shared.notebooks.run_selection import (
    RunSelection,
    broken_cells,
    parse_cells,
    select_statements,
    without_broken_cells,
)

TORCH = "import torch\nfrom torch import nn\nimport matplotlib.pyplot as plt"


def text_of(*cells: str) -> str:
    return module_text(
        python_of_cell(Cell(str(number), "python", text, number)) for number, text in enumerate(cells)
    )


def select(*cells: str, at: str = "") -> RunSelection:
    """Select from cells for the target on the line that contains `at`; empty: for all of them."""
    text = text_of(*cells)
    line = next((number for number, line in enumerate(text.split("\n"), 1) if at and at in line), None)
    return select_statements(text, line)


def runs(selection: RunSelection) -> list[str]:
    return [ast.unparse(statement) for statement in selection.tree.body]


def test_only_the_cells_above_the_target_and_its_own_run() -> None:
    selection = select("a = 1", "b = 2\ndef f(): pass\nc = 3", "d = 4", at="def f")
    assert runs(selection) == ["a = 1", "b = 2", "def f():\n    pass", "c = 3"]
    assert selection.last_line == 6
    assert [node.lineno for node in selection.tree.body] == [2, 4, 5, 6]
    assert runs(select("a = 1", "d = 4")) == ["a = 1", "d = 4"]
    assert runs(select()) == []


def test_a_cell_that_does_not_parse_is_left_out_and_the_others_run() -> None:
    cells = ("a = 1", "\nb = (\n\n", "return 3", "c = '''", "d = 4", "e = 1\n    f = 2", "x = '\0'")
    selection = select(*cells)
    assert runs(selection) == ["a = 1", "d = 4"]
    assert [(item.line, item.end_line) for item in selection.left_out] == [
        (5, 5),
        (9, 9),
        (11, 11),
        (15, 16),
        (18, 18),
    ]
    assert all(item.is_broken and item.reason.startswith("does not parse: ") for item in selection.left_out)
    assert broken_cells(text_of(*cells)) == selection.left_out
    assert ast.unparse(parse_cells(text_of(*cells))) == "a = 1\nd = 4"


def test_top_level_await_and_future_imports_hold_for_all_cells() -> None:
    selection = select(
        "import asyncio", "from __future__ import annotations\nawait asyncio.sleep(0)\ndef f(x: No): ..."
    )
    code = compile(selection.tree, "n.ipynb", "exec", selection.flags, dont_inherit=True)
    assert code.co_flags & 0x80
    assert runs(selection)[1] == "await asyncio.sleep(0)"


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("plt.plot([1])", "draws a plot"),
        ("fig, ax = plt.subplots()", "draws a plot"),
        ("df.plot()", "draws a plot"),
        (
            "try:\n    import seaborn as sns\nexcept ImportError:\n    sns = None\nsns.histplot([1])",
            "draws a plot",
        ),
        ("if True:\n    from shutil import rmtree as wipe\nwipe('x')", "starts a process or changes files"),
        ("def sketch():\n    import pylab as p\n    p.hist([1])\nsketch()", "draws a plot"),
        ("for batch in loader:\n    loss = net(batch)\n    loss.backward()", "trains"),
        ("for batch in loader:\n    opt.step()", "trains"),
        ("with torch.no_grad():\n    for i in range(3):\n        sched.step()", "trains"),
        ("model.fit(x)", "trains"),
        ("def train():\n    loss.backward()\nhistory = train()", "trains"),
        ("def show():\n    plt.show()\ndef both():\n    show()\nboth()", "draws a plot"),
        ("from transformers import Trainer\nt = Trainer(net)\nt.train()", "trains"),
        ("import requests\nr = requests.get(u)", "may download data"),
        ("ds = torchvision.datasets.MNIST('.', download=True)", "may download data"),
        ("from datasets import load_dataset\nds = load_dataset('x')", "may download data"),
        ("net = timm.create_model('x', pretrained=True)", "may download data"),
        ("net = models.resnet18(weights=models.ResNet18_Weights.DEFAULT)", "may download data"),
        ("from urllib.request import urlretrieve as get\nget(u)", "may download data"),
        ("!ls\nfiles = !ls", "is a command of IPython"),
        ("import os\nos.system('ls')", "starts a process or changes files"),
        ("import subprocess as sp\nsp.run(['ls'])", "starts a process or changes files"),
        ("torch.save(net, 'x.pt')", "writes a file"),
        ("with open('x', 'w') as file:\n    file.write('a')", "writes a file"),
        ("df.to_csv('x')", "writes a file"),
        ("import wandb\nwandb.init()", "reports to a service"),
        ("name = input()", "waits or ends"),
        ("if done:\n    exit()", "waits or ends"),
    ],
)
def test_a_statement_with_an_effect_is_left_out(statement: str, reason: str) -> None:
    selection = select(TORCH, statement, "n = 1", at="n = 1")
    assert [item.reason for item in selection.left_out] == [reason]
    last = ast.unparse(ast.parse(statement.replace("!ls\nfiles = !ls", "files = get_ipython()")).body[-1])
    assert last not in runs(selection)
    assert runs(selection)[-1] == "n = 1"
    program = select(TORCH, statement, "n = 1")
    assert (last in runs(program)) is ("!ls" not in statement), "a program runs whole"


@pytest.mark.parametrize(
    "statement",
    [
        "net = nn.Linear(4, 4)",
        "net.train()",
        "net = net.eval().to('cpu')",
        "layers = []\nfor i in range(3):\n    layers.append(nn.Linear(4, 4))",
        "torch.manual_seed(0)",
        "opt = torch.optim.SGD(net.parameters())\nopt.step()",
        "text = open('x').read()",
        "ds = MNIST('.', download=False)",
        "net = create_model('x', pretrained=False)",
        "y = F.conv2d(x, weights=w)",
        "def train():\n    loss.backward()",
        "def sketch():\n    import pylab as p\n    p.hist([1])\np = {}\np.get('x')",
        "def train():\n    loss.backward()\ndef train():\n    return 1\ntrain()",
        "class Net(nn.Module):\n    def show(self):\n        plt.plot([1])",
        "show = lambda: plt.plot([1])",
        "step = torch.compile(train)",
        "plt.rcParams['figure.dpi'] = 100",
        "print(net)",
        "net",
    ],
)
def test_a_statement_without_a_known_effect_runs(statement: str) -> None:
    assert select(TORCH, statement, "n = 1", at="n = 1").left_out == ()


def test_what_needs_a_name_that_was_left_out_is_left_out_until_the_name_has_a_value_again() -> None:
    selection = select(
        TORCH,
        "import requests\nraw = requests.get('x')\nrows = raw.json()\nfirst = rows[0]\nraw = 3\nn = raw",
        "def target():\n    return n\nlater = lambda: rows\nfirst += 1",
        at="def target",
    )
    assert [(item.line, item.reason) for item in selection.left_out] == [
        (7, "may download data"),
        (8, "needs `raw`, which is left out"),
        (9, "needs `rows`, which is left out"),
        (16, "needs `first`, which is left out"),
    ]
    assert runs(selection)[-3:] == ["n = raw", "def target():\n    return n", "later = lambda: rows"]


def test_a_name_that_had_a_value_before_keeps_it() -> None:
    selection = select(
        TORCH, "net = nn.Linear(4, 4)\nnet = train.fit(net)\ncompiled = torch.compile(net)", at="compiled"
    )
    assert [item.reason for item in selection.left_out] == ["trains"]
    assert runs(selection)[-1] == "compiled = torch.compile(net)"


@pytest.mark.parametrize(
    "target",
    [
        "compiled = torch.compile(net)",
        "def call(x):\n    return net(x)",
        "# fuselight: call(net, f32[4])\ndef call(m, x): return m(x)",
        "wrapped = [net]\ncompiled = torch.compile(wrapped[0])",
    ],
)
def test_a_download_runs_only_where_the_target_needs_it(target: str) -> None:
    model = "net = AutoModel.from_pretrained('x')"
    data = "data = AutoTokenizer.from_pretrained('x')"
    at = target.rpartition("\n")[2] if "compiled" in target else "def call"
    selection = select(TORCH, model, data, target, at=at)
    assert [item.line for item in selection.left_out] == [8]
    assert "net = AutoModel.from_pretrained('x')" in runs(selection)
    assert [
        item.line for item in select(TORCH, model, "def other(x): return x", at="def other").left_out
    ] == [6]


def test_joined_cells_without_markers_are_one_cell() -> None:
    selection = select_statements("import torch\n\n\ndef f(x):\n    return x\n", 4)
    assert [type(node).__name__ for node in selection.tree.body] == ["Import", "FunctionDef"]
    assert selection.tree.body[1].lineno == 4
    assert list(split_module("")) == []


def test_a_module_without_its_broken_cells_keeps_its_lines() -> None:
    text = text_of("a = (1", "\ndef f(x):\n    return x", "for", "b = 2")
    kept = without_broken_cells(text)
    assert kept.count("\n") == text.count("\n")
    assert [line for line in kept.split("\n") if line and line != MARKER] == [
        "def f(x):",
        "    return x",
        "b = 2",
    ]
    assert kept.split("\n")[4] == "def f(x):"
    assert without_broken_cells(kept) == kept


def test_the_target_is_the_same_without_what_changes_nothing_that_it_needs() -> None:
    selection = select(
        "import torch\nimport einops\nfrom utils import *\nfrom utils import load",
        "size = 4\nsettings = {}\nsettings['size'] = size\nrows, columns = load()\nprint(rows)\nrows.label = load()",
        "extra = 8\nsettings.update(extra=extra)\nfor row in rows:\n    torch.relu(row)",
        "def net(x):\n    return torch.relu(x) * settings['size']",
        at="def net",
    )
    optional = [ast.unparse(selection.tree.body[row]) for row in sorted(selection.optional)]
    assert optional == [
        "import einops",
        "from utils import load",
        "rows, columns = load()",
        "print(rows)",
        "rows.label = load()",
        "for row in rows:\n    torch.relu(row)",
    ]
    assert select("import torch\nimport einops").optional == frozenset(), "a program runs as a whole"
