"""`%load_ext fuselight` in a real kernel: what `%%fuselight` shows, and that the cell runs as without it.

One kernel runs all cells: the tests depend on their order only in that the first two cells are run first.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuselight.shared.kernel_calls import calls_of_notebook
from fuselight.shared.report import text_key
from tests.support.notebook_kernel import NotebookKernel, started_kernel

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]

MODEL = """\
import torch
from torch import nn

class Scorer(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, rows):
        scores = self.layer(rows)
        print("<b>scores</b>")
        return scores.relu()

scorer = torch.compile(Scorer(6), backend="eager")
"""


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("notebook") / "scores.ipynb"
    path.write_text(json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return path


@pytest.fixture(scope="module")
def kernel(notebook: Path) -> Iterator[NotebookKernel]:
    with started_kernel(notebook.parent, JPY_SESSION_NAME=str(notebook)) as started:
        assert started.run("%load_ext fuselight").status == "ok"
        before = started.run("%%fuselight\n2 + 3")
        assert before.result == "5"
        assert "torch is not imported in this kernel, so nothing was compiled." in before.report
        assert started.run(MODEL).status == "ok"
        yield started


def test_a_break_is_shown_on_the_line_of_the_cell_that_defines_the_function(kernel: NotebookKernel) -> None:
    shown = kernel.run("%%fuselight\nrows = torch.randn(3, 6)\nscorer(rows).shape")
    assert shown.result == "torch.Size([3, 6])"
    assert shown.order[-1] == "display_data"  # below what the cell itself shows
    assert shown.codes == ["GB0059 cell [3]:11"]
    assert shown.report.startswith("Fuselight\ncell [4]: 2 graphs, 1 break, 0 recompilations\n")
    assert "= cell [4]:3: called from `<module>`: scorer(rows).shape" in shown.report
    assert "What to do:" in shown.report
    assert "Cost: `Scorer.forward` is split into 2 graphs" in shown.report


def test_html_has_the_same_finding_and_no_markup_of_the_user(kernel: NotebookKernel) -> None:
    (page,) = kernel.run("%fuselight_report").pages
    assert "<code>cell [3]:11</code>" in page
    assert "&lt;b&gt;scores&lt;/b&gt;" in page
    assert "<b>" not in page
    assert "<script" not in page
    assert "onclick" not in page


def test_a_recompilation_in_a_later_cell_refers_to_the_cell_of_the_first_call(kernel: NotebookKernel) -> None:
    kernel.run("def shift(rows, by):\n    return rows + by\nshifted = torch.compile(shift, backend='eager')")
    kernel.run("shifted(torch.ones(2), 1)")
    shown = kernel.run("%%fuselight\n\nshifted(torch.ones(2), 7)")
    (finding,) = shown.codes
    assert finding.startswith("FL201 ")
    assert "by was 1, now 7" in shown.report
    assert "0 breaks, 1 recompilation" in shown.report  # of this cell alone
    assert ":3: triggered by this call: shifted(torch.ones(2), 7)" in shown.report


def test_what_was_compiled_before_is_not_shown_as_compiled_again(kernel: NotebookKernel) -> None:
    kernel.run("@torch.compile(backend='eager')\ndef twice(x): return x * 2\ntwice(torch.ones(3))")
    warm = kernel.run("%%fuselight\ntwice(torch.ones(3)).sum()")
    assert "0 graphs" in warm.report
    assert "torch.compile compiled nothing here" in warm.report
    cold = kernel.run("%%fuselight --reset\ntwice(torch.ones(3)).sum()")
    assert "1 graph, " in cold.report
    assert "All compiled code of this kernel was dropped first." in cold.report


def test_an_edited_cell_is_another_cell(kernel: NotebookKernel) -> None:
    first = kernel.run(
        "%%fuselight\n@torch.compile(backend='eager')\ndef edited(x):\n    print(1)\n    return x\n"
        "edited(torch.ones(2));"
    )
    again = kernel.run(
        "%%fuselight\n@torch.compile(backend='eager')\ndef edited(x):\n\n    print(2)\n    return x + 1\n"
        "edited(torch.ones(2));"
    )
    number = int(first.report.partition("cell [")[2].partition("]")[0])
    assert first.codes == [f"GB0059 cell [{number}]:4"]
    assert again.codes == [f"GB0059 cell [{number + 1}]:5"]


def test_the_cell_runs_as_ipython_runs_it(kernel: NotebookKernel) -> None:
    shown = kernel.run(
        "\n%%fuselight\nfrom __future__ import annotations\nimport asyncio\nawait asyncio.sleep(0)\n"
        "%time later = 4\nlater"
    )
    assert (shown.status, shown.result) == ("ok", "4")
    assert kernel.run("%%fuselight\nlater;").result == ""


def test_an_exception_ends_the_cell_as_without_fuselight(kernel: NotebookKernel) -> None:
    shown = kernel.run("%%fuselight\nscorer(torch.randn(4, 6))\n{}['missing']\nnever = 1")
    assert shown.status == "error"
    assert "----> 3 {}['missing']" in shown.error
    assert "fuselight" not in shown.error.replace("%%fuselight", "")
    assert "FL401" not in shown.report  # IPython has shown it
    assert "The cell raised `KeyError`: the report ends there." in shown.report
    assert kernel.run("'never' in globals()").result == "False"


def test_a_failure_of_a_compile_is_a_finding_on_its_line(kernel: NotebookKernel) -> None:
    shown = kernel.run(
        "%%fuselight\n@torch.compile(fullgraph=True, backend='eager')\ndef whole(x):\n"
        "    torch._dynamo.graph_break()\n    return x\nwhole(torch.ones(2))"
    )
    assert shown.status == "error"
    (finding,) = shown.codes
    assert finding.startswith("FL404 cell [")
    assert finding.endswith("]:4")
    assert "interactiveshell" not in shown.report


def test_an_interrupted_cell_has_a_report_up_to_there(kernel: NotebookKernel) -> None:
    shown = kernel.run(
        "%%fuselight\nimport time\n@torch.compile(backend='eager')\ndef slow(x):\n    print('on')\n    return x\n"
        "slow(torch.ones(2))\ntime.sleep(200)",
        on_output=kernel.interrupt,
    )
    assert shown.status == "error"
    assert "KeyboardInterrupt" in shown.error
    assert "The cell was interrupted: the report ends there." in shown.report


def test_a_syntax_error_has_no_report(kernel: NotebookKernel) -> None:
    shown = kernel.run("%%fuselight\ndef (")
    assert shown.status == "error"
    assert shown.texts == []
    assert kernel.run("%%fuselight\n1").report.count("Fuselight\n") == 1  # the next cell starts over
    line = kernel.run("%fuselight scorer(rows")
    assert "was never closed" in line.error
    assert line.texts == []


def test_a_call_that_raises_before_a_compile_is_not_said_to_be_compiled_before(
    kernel: NotebookKernel,
) -> None:
    shown = kernel.run("%fuselight no_such_name(1)")
    assert "NameError" in shown.error
    assert "The cell raised `NameError`: the report ends there." in shown.report
    assert "compiled nothing here" not in shown.report


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (
            "%%fuselight --every\n1",
            "%%fuselight: unrecognized arguments: --every. `%%fuselight?` shows its options.",
        ),
        (
            "%fuselight",
            "%fuselight needs a call, as in `%fuselight net(x)`. `%%fuselight` runs a whole cell.",
        ),
        (
            "%fuselight --fast scorer(1)",
            "%fuselight has no option `--fast`. `%fuselight?` shows its options.",
        ),
        ("%fuselight_report all", "%fuselight_report takes no options"),
        ("%fuselight_calls never", "%fuselight_calls takes `on`, `off` or `forget`, not `never`"),
    ],
)
def test_wrong_options_are_one_line(kernel: NotebookKernel, cell: str, message: str) -> None:
    shown = kernel.run(cell)
    assert shown.status == "error"
    assert shown.streams.strip() == f"UsageError: {message}"
    assert shown.error == ""


def test_the_line_form_compiles_what_is_not_compiled(kernel: NotebookKernel) -> None:
    kernel.run("def pick(x):\n    if x.sum() > 0:\n        return x\n    return -x")
    shown = kernel.run("before = 1\n%fuselight pick(torch.ones(2))")
    assert shown.result == "tensor([1., 1.])"
    assert "`pick` is not compiled in this notebook: it was compiled for this call" in shown.report
    (finding,) = shown.codes
    assert finding.startswith("GB0170 ")
    assert finding.endswith(":2")
    assert ":2: called from `<module>`: %fuselight pick(torch.ones(2))" in shown.report
    compiled = kernel.run(
        "total = %fuselight --backend eager scorer(torch.randn(5, 6)).sum()\nfloat(total) >= 0"
    )
    assert compiled.result == "True"
    failing = kernel.run("%fuselight pick(torch.ones(2), 3)")
    assert failing.status == "error"
    assert "TypeError" in failing.error


def test_the_line_form_compiles_the_module_whose_result_a_method_takes(kernel: NotebookKernel) -> None:
    kernel.run("plain = nn.Linear(6, 2)\ndef halves(x): return x.chunk(2)")
    shown = kernel.run("%fuselight plain(torch.ones(3, 6)).relu().shape")
    assert shown.result == "torch.Size([3, 2])"
    assert "compiled nothing here" in shown.report  # an attribute is no call
    called = kernel.run("%fuselight plain(torch.ones(3, 6)).relu().sum().item() > -1e9")
    assert "compiled nothing here" in called.report  # nor is a comparison
    summed = kernel.run("%fuselight plain(torch.ones(3, 6)).relu().numel()")
    assert summed.result == "6"
    assert "`plain` is not compiled in this notebook: it was compiled for this call" in summed.report
    assert "1 graph, 0 breaks" in summed.report
    indexed = kernel.run("%fuselight halves(torch.ones(4))[0].tolist()")
    assert indexed.result == "[1.0, 1.0]"
    assert "`halves` is not compiled in this notebook" in indexed.report


def test_magics_work_inside_each_other(kernel: NotebookKernel) -> None:
    inner = kernel.run(
        "%%fuselight\n%%time\n@torch.compile(backend='eager')\ndef inner(x): return x + 1\ninner(torch.ones(2));"
    )
    assert "1 graph, 0 breaks" in inner.report
    outer = kernel.run(
        "%%time\n%%fuselight\n@torch.compile(backend='eager')\ndef outer(x): return x + 2\nouter(torch.ones(2));"
    )
    assert "1 graph, 0 breaks" in outer.report
    both = kernel.run("%%fuselight\n%fuselight outer(torch.ones(3))\nouter(torch.ones(4, 4));")
    assert len(both.texts) == 2
    assert "2 recompilations" in both.texts[1] or "1 graph" in both.texts[1]


def test_calls_are_recorded_as_descriptions_for_later_runs(kernel: NotebookKernel, notebook: Path) -> None:
    cell = "@torch.compile(backend='eager')\ndef mix(a, b, scale, name): return a @ b * scale\n"
    kernel.run(cell)
    kernel.run("mix(torch.ones(3, 4), torch.ones(5, 4).t(), 2, 'rows')")
    known = calls_of_notebook(str(notebook), [])
    assert known["mix"] == ("mix(f32[3, 4], f32[5, 4].permute(1, 0), 2, 'rows', no_grad=False)",)
    assert "Scorer(width=6)(f32[3, 6], train=True)" in known["Scorer"]
    assert "scorer(f32[3, 6], train=True)" in known["scorer"]
    (file,) = (notebook.parent / ".fuselight" / "notebooks").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert (notebook.parent / ".fuselight" / ".gitignore").read_text() == "*\n"
    assert text_key(cell.rstrip("\n")) in file.read_text() or text_key(cell) in file.read_text()
    assert f"Calls are recorded. File: {file}" in kernel.run("%fuselight_calls").streams


def test_calls_are_not_recorded_once_that_is_off(kernel: NotebookKernel, notebook: Path) -> None:
    assert "Calls are not recorded." in kernel.run("%fuselight_calls off").streams
    kernel.run(
        "@torch.compile(backend='eager')\ndef secret(x, word): return x\nsecret(torch.ones(2), 'private')"
    )
    assert "secret" not in calls_of_notebook(str(notebook), [])
    assert kernel.run("%fuselight_calls forget").status == "ok"
    assert calls_of_notebook(str(notebook), []) == {}
    assert "Calls are recorded." in kernel.run("%fuselight_calls on").streams


def test_unloading_removes_all_of_it(kernel: NotebookKernel) -> None:
    assert kernel.run("%unload_ext fuselight").status == "ok"
    assert "not found" in kernel.run("%%fuselight\n1").streams
    assert "not found" in kernel.run("%fuselight_report").streams
    leftovers = kernel.run(
        "import sys\nfrom fuselight.shared.import_hooks import AfterImport\n"
        "shell = get_ipython()\n"
        "[item for item in [*sys.meta_path, *shell.input_transformers_cleanup] if 'fuselight' in repr(item)]"
    )
    assert leftovers.result == "[]"
    loaded = kernel.run("%load_ext fuselight")
    assert loaded.status == "ok"
    assert "1 graph" in kernel.run("%%fuselight --reset\ntwice(torch.ones(3)).sum()").report


def test_a_restarted_kernel_keeps_the_recorded_calls(kernel: NotebookKernel, notebook: Path) -> None:
    kernel.run("twice(torch.ones(2, 2, 2))")
    before = calls_of_notebook(str(notebook), [])["twice"]
    kernel.restart()
    kernel.run("%load_ext fuselight\nimport torch")
    assert "0 graphs" in kernel.run("%fuselight_report").report
    kernel.run("@torch.compile(backend='eager')\ndef fresh(x): return x * 3\nfresh(torch.ones(1, 5))")
    after = calls_of_notebook(str(notebook), [])
    assert after["twice"] == before
    assert after["fresh"] == ("fresh(f32[1, 5], no_grad=False)",)
