"""The cures that findings advise, tried on the calls of the whole program: which of them save breaks and compiles."""

from __future__ import annotations

from dataclasses import replace

from fuselight.shared.protocol import CaptureRequest
from fuselight.shared.report import CureKind, CureRun
from fuselight_server.explain.findings import findings, fold
from fuselight_server.explain.findings.advice.trial_verdict import trial_of
from tests.support.live_worker import LiveWorker

HEAD = "import torch\nfrom torch import nn\n"
LOGGED = """\
import logging, warnings
log = logging.getLogger(__name__)
@torch.compile
def shown(x):
    print("sum", x.sum())
    return x.sin()
@torch.compile
def sizes(x):
    print(x.shape)
    return x.sin()
@torch.compile
def old(x):
    warnings.warn("old", UserWarning)
    return x.sin()
@torch.compile
def logged(x):
    log.info("here %s", x.shape)
    return x.sin()
if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for function in (shown, sizes, old, logged):
        function(torch.ones(3))
"""


def test_a_setting_for_messages_is_advised_for_the_calls_that_it_cures(live: LiveWorker) -> None:
    request = live.request(HEAD + LOGGED, "")
    report = live.report(request)
    assert isinstance(request, CaptureRequest)
    without = live.report(replace(request, trial=CureRun(None)))
    assert without.trial is not None
    cures = [cure for finding in findings(report) for cure in finding.cures]
    verdicts = [
        trial_of(cure, without, live.report(replace(request, trial=CureRun(cure, without.trial.calls))))
        for cure in cures
    ]
    assert [(cure.value, verdict.cures) for cure, verdict in zip(cures, verdicts, strict=True)] == [
        ('{"reorderable_logging_functions": ["builtins.print"]}', True),
        ('{"reorderable_logging_functions": ["builtins.print"]}', False),
        ('{"reorderable_logging_functions": ["warnings.warn"]}', False),
        ('{"ignore_logging_functions": ["warnings.warn"]}', True),
        ('{"ignore_logging_functions": ["logging.Logger.info"]}', True),
    ]


NUMPY = """\
import numpy as np
class Step:
    def __call__(self, x, sigma, *, count):
        y = x / (sigma**2 + 1) + torch.full((4,), float(np.log(sigma)))
        return y * 2 if count > 2 else y
@torch.compile
def scaled(x, by):
    return x * by if by > 1 else x
@torch.compile
def cut(x, top):
    return x if top > 1 else -x
if __name__ == "__main__":
    step = torch.compile(Step())
    for sigma in np.array([2.0, 4.0]):
        step(torch.ones(4), sigma, count=np.int64(3))
    scaled(torch.ones(4), np.float32(2))
    cut(torch.ones(4), torch.tensor(2.0))
"""


def test_a_number_of_numpy_is_advised_to_be_passed_as_one_of_python(live: LiveWorker) -> None:
    request = live.request(HEAD + NUMPY, "")
    report = live.report(request)
    assert isinstance(request, CaptureRequest)
    without = live.report(replace(request, trial=CureRun(None)))
    assert without.trial is not None
    advised = [
        (tuple(cure.subjects), trial_of(cure, without, live.report(replace(request, trial=run))))
        for finding in findings(report)
        for cure in finding.cures
        if cure.kind is CureKind.NUMBER
        for run in (CureRun(cure, without.trial.calls),)
    ]
    assert {subjects for subjects, _ in advised} == {("sigma", "count"), ("by",)}, "`top` is a tensor"
    fewer = sorted((trial.before - trial.after, trial.refused) for _, trial in advised)
    assert fewer == [(1, ""), (2, ""), (2, "")], "two lines of a step break"


BATCHES = """\
def scores(x):
    y = x.sin()
    print("scores")
    return y.sum(1)
@torch.compile
def forward(x):
    return scores(x.cos())
@torch.compile
def loss(logits, target):
    return (logits - target).square().mean()
if __name__ == "__main__":
    for batch in (8, 8, 5):
        loss(forward(torch.ones(batch, 4)), torch.zeros(batch))
"""


def test_the_cure_of_a_size_that_varies_is_counted_in_compiles_of_the_program(live: LiveWorker) -> None:
    request = live.request(HEAD + BATCHES, "")
    report = live.report(request)
    assert isinstance(request, CaptureRequest)
    (finding,) = fold(item for item in findings(report) if item.code == "FL201")
    assert len(finding.also_at) == 2
    without = live.report(replace(request, trial=CureRun(None)))
    assert without.trial is not None
    runs = {cure: replace(request, trial=CureRun(cure, without.trial.calls)) for cure in finding.cures}
    trials = [trial_of(cure, without, live.report(run)) for cure, run in runs.items()]
    assert [trial.cure.kind for trial in trials if trial.cures] == [CureKind.MARK, CureKind.DYNAMIC]
    assert {trial.before for trial in trials} == {len(report.compiles)}
    assert trials[1].after == len(report.compiles) // 2
