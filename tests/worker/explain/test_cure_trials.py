"""Cures are made on the recorded calls: which cure, and which do not, decides a second run of each program."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest

from fuselight.shared.protocol import CaptureRequest
from fuselight.shared.report import CallCure, CureKind, CureRun, CureTrial, Report
from fuselight_server.explain.findings.advice.cures import cures_for
from fuselight_server.explain.findings.advice.trial_verdict import trial_of
from fuselight_server.explain.findings.common.context import Context
from tests.support.case_files import marked
from tests.support.live_worker import LiveWorker
from tests.support.tried_programs import tried_report

HEAD = "import torch\nfrom torch import nn\n"
DROP = (
    HEAD
    + """\
class Drop(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.1)
    def forward(self, x):
        return self.drop(x).relu()
if __name__ == "__main__":
    drop = torch.compile(Drop())
    for p in (0.1, 0.2, 0.3):
        drop._orig_mod.drop.p = p
        drop(torch.ones(4, 8))
"""
)
PROGRAMS = {
    "compared with elements": (
        HEAD
        + """\
class Window(nn.Module):
    limit = 2
    def forward(self, x):
        return x * (torch.arange(x.shape[0]) < self.limit)[:, None]
if __name__ == "__main__":
    net = Window()
    window = torch.compile(net)
    for limit in (2, 3, 4):
        net.limit = limit
        window(torch.ones(6, 8))
""",
        {CureKind.TENSOR: (3, 1), CureKind.SETTING: (3, 2)},
    ),
    "a probability of dropout": (DROP, {}),
    "a size of new numbers": (
        HEAD
        + """\
class Sample(nn.Module):
    size = 4
    def forward(self, x):
        return x[torch.randint(0, self.size, (3,))].sin()
if __name__ == "__main__":
    net = Sample()
    sample = torch.compile(net)
    for size in (2, 3, 4):
        net.size = size
        sample(torch.ones(8, 2))
""",
        {CureKind.SETTING: (3, 2)},
    ),
    "a branch on a counter": (
        HEAD
        + """\
class Step(nn.Module):
    step = 0
    def forward(self, x):
        return x.cos() if self.step % 2 == 0 else x.sin()
if __name__ == "__main__":
    net = Step()
    step = torch.compile(net)
    for number in range(4):
        net.step = number
        step(torch.ones(4))
""",
        {CureKind.SETTING: (4, 3)},
    ),
    "an order of elements": (
        HEAD
        + """\
@torch.compile
def step(x, flag):
    return x.flip(0) if flag is True else x.roll(0)
if __name__ == "__main__":
    for flag in (True, False, True, False):
        step(torch.arange(3.0), flag)
""",
        {},
    ),
    "a size that varies": (
        HEAD
        + """\
@torch.compile
def total(x):
    return x.sin().sum(0)
if __name__ == "__main__":
    for n in (4, 5, 6, 7):
        total(torch.ones(n, 8))
""",
        {CureKind.MARK: (2, 1), CureKind.DYNAMIC: (2, 1)},
    ),
    "sizes that were equal in the first call": (
        HEAD
        + """\
@torch.compile(dynamic=True)
def gather(rows, columns):
    return torch.stack([columns[i] for i in range(columns.size(0))]).sum() + rows.sum(1)
if __name__ == "__main__":
    for n in (6, 7, 9):
        gather(torch.ones(n, 4), torch.ones(6))
""",
        {CureKind.SETTING: (2, 1), CureKind.MARK: (2, 1)},
    ),
    "a threshold as an argument": (
        HEAD
        + """\
@torch.compile
def clip(x, *, top):
    return torch.where(x < top, x, 0.0)
if __name__ == "__main__":
    for top in (4, 5, 6):
        clip(torch.ones(3), top=top)
""",
        {CureKind.TENSOR: (2, 1), CureKind.DYNAMIC: (2, 1)},
    ),
    "a closure's variable": (
        HEAD
        + """\
def build(window):
    def mask(x):
        return x < window
    return mask
@torch.compile
def apply(mask, x):
    return mask(x).float()
if __name__ == "__main__":
    for window in (4, 5, 6, 7):
        apply(build(window), torch.ones(3))
""",
        {CureKind.TENSOR: (2, 1), CureKind.DYNAMIC: (2, 1)},
    ),
    "a global number": (
        HEAD
        + """\
SCALE = 1
@torch.compile
def scaled(x):
    return x * SCALE
if __name__ == "__main__":
    for SCALE in (1, 2, 3):
        scaled(torch.ones(3))
""",
        {CureKind.TENSOR: (3, 1)},
    ),
    "a field of a frozen dataclass": (
        HEAD
        + """\
import dataclasses
@dataclasses.dataclass(frozen=True)
class Config:
    top: float
@torch.compile
def clip(x, config):
    return x.clamp(max=config.top)
if __name__ == "__main__":
    for top in (4.0, 5.0, 6.0):
        clip(torch.ones(3), Config(top))
""",
        {CureKind.TENSOR: (3, 1)},
    ),
    "an attribute of a module that a function reaches, after a break in its method": (
        HEAD
        + """\
class Gate(nn.Module):
    gain = 1.0
    def forward(self, values):
        print("gate")
        return values.clamp(max=self.gain)
model = nn.Sequential(nn.Identity(), Gate())
@torch.compile
def step(x):
    return model(x.sin()).sum(0)
if __name__ == "__main__":
    for gain in (1.0, 2.0, 3.0):
        model[1].gain = gain
        step(torch.ones(3, 4))
""",
        {CureKind.TENSOR: (4, 2)},
    ),
    "an argument that a call passes on to a function with a break": (
        HEAD
        + """\
def cut(x, top):
    print("cut")
    return torch.where(x < top, x, 0.0)
@torch.compile
def step(x, top):
    return cut(x.sin(), top) + 1
if __name__ == "__main__":
    for top in (0.5, 0.6, 0.7):
        step(torch.ones(6), top)
""",
        {CureKind.TENSOR: (3, 2)},
    ),
    "a global number in a method of an object that is passed, after a break": (
        HEAD
        + """\
SHIFT = 2
class Schedule:
    def weigh(self, x):
        torch._dynamo.graph_break()
        return x + SHIFT
@torch.compile
def loss(schedule, x):
    return schedule.weigh(x.cos()).sum()
if __name__ == "__main__":
    schedule = Schedule()
    for SHIFT in (2, 3, 4):
        loss(schedule, torch.ones(6))
""",
        {CureKind.TENSOR: (4, 2)},
    ),
    "an attribute of a module inside another one, both with a `forward`": (
        HEAD
        + """\
class Block(nn.Module):
    def forward(self, x):
        print("block")
        return x * (torch.arange(x.shape[0]) < self.limit)[:, None]
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
    def forward(self, x):
        return self.block(x.sin()).cos()
if __name__ == "__main__":
    net = Net()
    compiled = torch.compile(net)
    for net.block.limit in (2, 3, 4):
        compiled(torch.ones(6, 8))
""",
        {CureKind.TENSOR: (4, 2), CureKind.SETTING: (4, 3)},
    ),
    "an attribute of an object that the compiled code creates": (
        HEAD
        + """\
class Window:
    def __init__(self, size):
        self.size = size
    def cut(self, x):
        torch._dynamo.graph_break()
        return x.clamp(max=self.size)
@torch.compile
def step(x, sizes):
    return Window(sizes[0] * 0.5).cut(x)
if __name__ == "__main__":
    for size in (2.0, 3.0, 4.0):
        step(torch.ones(6), [size])
""",
        {},
    ),
    "dynamic=False": (
        HEAD
        + """\
def total(x):
    return x.sin().sum(0)
if __name__ == "__main__":
    compiled = torch.compile(total, dynamic=False)
    for n in (4, 5, 6):
        compiled(torch.ones(n, 8))
""",
        {CureKind.MARK: (3, 1), CureKind.DYNAMIC: (3, 2)},
    ),
    "another layout": (
        HEAD
        + """\
@torch.compile
def double(x):
    return x * 2
if __name__ == "__main__":
    double(torch.ones(3, 5))
    double(torch.ones(5, 3).t())
""",
        {CureKind.CONTIGUOUS: (2, 1)},
    ),
    "a keyword argument that some calls lack": (
        HEAD
        + """\
def attend(q, scale=1.0):
    return (q @ q.T * scale).softmax(-1)
@torch.compile
def forward(x, **options):
    return attend(x, **{name: value for name, value in options.items() if name == "scale"})
if __name__ == "__main__":
    forward(torch.ones(4, 4))
    for scale in (0.5, 0.25, 0.125):
        forward(torch.ones(4, 4), scale=scale)
""",
        {CureKind.TENSOR: (3, 2)},
    ),
    "an argument that has its default in some calls": (
        HEAD
        + """\
@torch.compile
def shifted(x, shift=1.0):
    return x + shift
if __name__ == "__main__":
    shifted(torch.ones(4))
    for shift in (0.5, 0.25, 0.125):
        shifted(torch.ones(4), shift)
""",
        {CureKind.TENSOR: (2, 1)},
    ),
    "a tensor of another mode": (
        HEAD
        + """\
@torch.compile
def advance(state):
    return state * 2
if __name__ == "__main__":
    state = torch.ones(3)
    with torch.inference_mode():
        for _ in range(3):
            state = advance(state)
""",
        {CureKind.INFERENCE: (2, 1)},
    ),
    "a list of numbers": (
        HEAD
        + """\
@torch.compile
def scaled(x, factors):
    for factor in factors:
        x = x * factor
    return x
if __name__ == "__main__":
    for number in (1, 2, 3):
        scaled(torch.ones(4), [2.0] * number)
""",
        {},
    ),
}

FURTHER = {
    "a size of new numbers",
    "a branch on a counter",
    "an order of elements",
    "a threshold as an argument",
    "a global number",
    "an attribute of a module that a function reaches, after a break in its method",
    "an attribute of a module inside another one, both with a `forward`",
    "an attribute of an object that the compiled code creates",
    "dynamic=False",
    "an argument that has its default in some calls",
    "a list of numbers",
    "a switch as a tensor, and a bound of a slice that dynamic=True keeps symbolic",
    "two bounds of which one alone breaks the graph, and a size",
}
"""The programs whose kinds of cures others have, too."""

TOGETHER = {
    "a number, and a tensor that the first call created in another mode": """\
@torch.compile
def sample(logits, temperature):
    return (logits / temperature).softmax(-1)
if __name__ == "__main__":
    logits = torch.ones(2, 4)
    with torch.inference_mode():
        for temperature in (1.0, 0.8, 0.7):
            logits = sample(logits, temperature)
""",
    "a switch as a tensor, and a bound of a slice that dynamic=True keeps symbolic": """\
@torch.compile
def part(x, flag, n):
    return x[:n].sum() * flag
if __name__ == "__main__":
    for flag, n in ((True, 3), (False, 4), (True, 5), (False, 6)):
        part(torch.ones(8), flag, n)
""",
    "two bounds of which one alone breaks the graph, and a size": """\
class Bounds(nn.Module):
    def forward(self, x):
        return (x * 2).clamp(self.low, self.high).sum(0)
if __name__ == "__main__":
    net = Bounds()
    bounds = torch.compile(net, dynamic=False)
    for n, (low, high) in enumerate(((0.1, 0.9), (0.2, 0.8), (0.3, 0.7))):
        net.low, net.high = low, high
        bounds(torch.ones(4 + n, 8))
""",
}


@pytest.mark.parametrize("name", marked(TOGETHER, FURTHER))
def test_values_that_change_together_are_changed_together(live: LiveWorker, name: str) -> None:
    trials = {trial.cure: trial for trial in tried_report(live, HEAD + TOGETHER[name]).trials}
    together = next(cure for cure, trial in trials.items() if cure.also and trial.cures and trial.after == 1)
    alone = [trials[part] for part in together.changes]
    assert not any(trial.cures and trial.after == 1 for trial in alone)


def trials_of(live: LiveWorker, source: str) -> dict[CureKind, CureTrial]:
    request = live.request(source, "")
    report = live.report(request)
    assert report.failures == ()
    assert isinstance(request, CaptureRequest)

    def run(cure: CallCure | None, calls: int | None = None) -> Report:
        assert isinstance(request, CaptureRequest)
        return live.report(replace(request, trial=CureRun(cure, calls)))

    without = run(None)
    assert without.trial is not None
    calls = without.trial.calls
    trial = functools.cache(lambda cure: trial_of(cure, without, run(cure, calls)))
    context = Context.of(report)
    tried: dict[CureKind, CureTrial] = {}
    for recompilation in report.recompiles:
        for failure in recompilation.entries[0].failures:
            for advice in cures_for(context, recompilation, failure):
                key = advice.cure.kind
                if key not in tried or not tried[key].cures:
                    tried[key] = trial(advice.cure)
    return tried


COUNTER = (
    HEAD
    + """\
class Meter(nn.Module):
    def __init__(self):
        super().__init__()
        self.count, self.seen, self.last, self.kinds, self.rows = 0, {}, 0, set(), [0, 1, 2, 3, 4]
    def forward(self, x):
        y = x * self.count
        INSIDE
        self.count += 1
        return y
meter, log, table = Meter(), {}, {0: 1, 1: 2, 2: 3, 3: 4, 4: 5}
if __name__ == "__main__":
    compiled = torch.compile(meter)
    for _ in range(4):
        compiled(torch.ones(2, 4))
        OUTSIDE
"""
)


KEY = "a key is then a tensor, which equals no other key"
TEXT = "a text then shows a tensor"


@pytest.mark.parametrize(
    ("inside", "outside", "refused"),
    [
        ("pass", "pass", ""),
        pytest.param("pass", "meter.rows[meter.count]", "", marks=pytest.mark.corpora),
        ("pass", "f'{meter.count:03d}'", ""),
        ("self.seen[self.count] = y.mean()", "pass", KEY),
        pytest.param("self.kinds.add(self.count)", "pass", KEY, marks=pytest.mark.corpora),
        ("self.last = self.count", "pass", "`self.last` is then a tensor"),
        pytest.param(
            "self.last = self.count * 2 + 1",
            "pass",
            "`self.last` is then a tensor",
            marks=pytest.mark.corpora,
        ),
        ("self.rows.append(self.count)", "pass", "`self.rows[5]` is then a tensor"),
        ("pass", "log[meter.count] = 1", KEY),
        pytest.param("pass", "table.get(meter.count)", KEY, marks=pytest.mark.corpora),
        pytest.param("pass", "meter.count in {1, 2}", KEY, marks=pytest.mark.corpora),
        ("pass", "name = 'step_' + str(meter.count)", TEXT),
        pytest.param("pass", "name = '%s.pt' % meter.count", TEXT, marks=pytest.mark.corpora),
    ],
)
def test_a_counter_that_becomes_a_tensor_changes_nothing_else(
    live: LiveWorker, inside: str, outside: str, refused: str
) -> None:
    source = COUNTER.replace("INSIDE", inside).replace("OUTSIDE", outside)
    request = live.request(source, "")
    assert isinstance(request, CaptureRequest)
    line = source[: source.index("def forward")].count("\n") + 1
    cure = CallCure(CureKind.TENSOR, request.target.path, line, ("L['self'].count",))
    without = live.report(replace(request, trial=CureRun(None)))
    assert without.trial is not None
    cured = live.report(replace(request, trial=CureRun(cure, without.trial.calls)))
    assert trial_of(cure, without, cured).refused == refused


@pytest.mark.parametrize("name", marked(PROGRAMS, FURTHER))
def test_a_cure_passes_where_following_it_saves_compiles(live: LiveWorker, name: str) -> None:
    source, expected = PROGRAMS[name]
    tried = trials_of(live, source)
    cures = {kind: (trial.before, trial.after) for kind, trial in tried.items() if trial.cures}
    assert cures == expected, tried


SCHEDULED = (
    HEAD
    + """\
@torch.compile(backend="eager")
def update():
    optimizer.step()
if __name__ == "__main__":
    net = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=torch.tensor(0.1), momentum=0.9, weight_decay=0.1)
    seen = {}
    for step in range(3):
        net(torch.ones(1, 2)).sum().backward()
        update()
        optimizer.param_groups[0]["weight_decay"] = 0.1 / (2 + step)
"""
)


def test_what_hears_of_uses_of_tensors_is_no_frame_of_the_program(live: LiveWorker) -> None:
    """Optimizers hash tensors between graphs: each frame there counts as a compile, and runs could not be compared."""
    request = live.request(SCHEDULED, "")
    report = live.report(request)
    assert isinstance(request, CaptureRequest)
    without = live.report(replace(request, trial=CureRun(None)))
    assert [frame.function for frame in without.frames] == [frame.function for frame in report.frames]
