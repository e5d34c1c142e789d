"""Programs whose compiled call fails: without torch.compile, two of them fail, too."""

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
