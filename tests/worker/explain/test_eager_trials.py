"""Programs that are run again to learn more of a failure, or of a function that is marked torch.compiler.disable."""

from __future__ import annotations

import pytest

from fuselight.shared.report import CureKind
from tests.support.live_worker import LiveWorker
from tests.support.tried_programs import tried_report

HEAD = "import numpy as np\nimport torch\n@torch.compile\ndef step(x):\n"
CALL = "if __name__ == '__main__':\n    step(torch.ones(4, 4))\n"


@pytest.mark.corpora
@pytest.mark.parametrize(
    ("body", "refused"),
    [
        (
            "    a = np.lib.stride_tricks.sliding_window_view(x.numpy(), 2, 0)\n    return torch.tensor(a.mean())\n",
            "",
        ),
        (
            "    return torch.from_numpy(x.numpy() @ np.ones((3, 5)))\n",
            "the program fails on this line, too: ",
        ),
        ("    x = x.numpy() + np.ones((3, 5))\n    return x\n", "the program fails on this line, too: "),
    ],
    ids=["only compiled", "product", "sum"],
)
def test_the_run_tells_whose_exception_it_is(live: LiveWorker, body: str, refused: str) -> None:
    (trial,) = tried_report(live, HEAD + body + CALL).trials
    assert (trial.cure.kind, trial.is_made, trial.cures) == (CureKind.EAGER, True, not refused)
    assert trial.refused.startswith(refused)


PARTS = """\
import torch
@torch.compiler.disable
def plain(x):
    first, second = x.chunk(2)
    return torch.cat([second, first])
class Shown:
    @staticmethod
    @torch.compiler.disable
    def show(x):
        print(x.sum())
@torch.compile
def step(x):
    x = plain(x.sin())
    Shown.show(x)
    return x.cos()
@torch.compile(fullgraph=True)
def whole(x):
    if x.sum() > 0:
        x = x + 1
    print(x.mean().item())
    return x
if __name__ == "__main__":
    step(torch.ones(4))
    whole(torch.ones(4))
"""


@pytest.mark.corpora
def test_marked_functions_and_refused_graphs_are_asked(live: LiveWorker) -> None:
    trials = {(trial.cure.kind, trial.cure.value): trial for trial in tried_report(live, PARTS).trials}
    plain, shown = (trials[CureKind.INSIDE, name] for name in ("plain", "Shown.show"))
    assert (plain.cures, plain.is_made, shown.cures) == (True, True, False)
    assert shown.refused == "it breaks the graph on line 10"
    refused = trials[CureKind.FULLGRAPH, ""]
    assert (refused.cures, {item.line for item in refused.next}) == (True, {20})
