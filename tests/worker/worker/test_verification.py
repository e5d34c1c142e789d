"""A changed text is compared with the old one: each kind of difference is found, and a bad text is a failure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fuselight.shared.protocol import VerifyRequest
from fuselight.shared.report import Aspect, Report, Verification
from fuselight.shared.report.verification import OTHER_ORDER
from tests.support.live_worker import LiveWorker

pytestmark = pytest.mark.torch

OLD = """\
import torch
# fuselight: f(f32[4])
def f(x):
    if x.sum() > 0:
        y = x * 2
    else:
        y = x - 1
    return y
"""
NEW = """\
import torch
# fuselight: f(f32[4])
def f(x):
    return torch.where(x.sum() > 0, x * 2, x - 1)
"""
TRAINED = """\
import torch
# fuselight: Net()(f32[4], train=True)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4))
        self.register_buffer("seen", torch.zeros(()))
        self.calls = 0

    def forward(self, x):
        self.seen += 1
        self.calls += 1
        return (self.weight * x).sum()
"""

VALUES = ("recorded inputs", "other values 1", "other values 2", "NaN", "infinity", "negative infinity")


Recorded = dict[tuple[str, str, bool], tuple[Path, Report]]
"""The folder and the report of the run of an old text, by text, name and whether values are not finite."""


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    """Shared by the tests: a run of a new text only reads the results of the old one."""
    return {}


@pytest.fixture
def compared(live: LiveWorker, tmp_path: Path, recorded: Recorded) -> Compared:
    records = live.folder / tmp_path.name  # in the workspace, where the user's code cannot write
    records.mkdir()
    return Compared(live, records, recorded)


class Compared:
    """Runs two texts of one file."""

    def __init__(self, live: LiveWorker, records: Path, recorded: Recorded) -> None:
        self.live, self.records, self.recorded = live, records, recorded

    def report(
        self, text: str, name: str, folder: Path, *, records: bool, seconds: float, non_finite: bool
    ) -> Report:
        request = self.live.request(text, name, seconds=seconds).of_kind(
            VerifyRequest, folder=str(folder), records=records, non_finite=non_finite, automatic=True
        )
        return self.live.report(request)

    def run(
        self, old: str, new: str, name: str = "f", *, seconds: float = 60.0, non_finite: bool = False
    ) -> Report:
        key = old, name, non_finite
        if key not in self.recorded:
            folder = self.records / str(len(self.recorded))
            folder.mkdir()
            report = self.report(old, name, folder, records=True, seconds=60.0, non_finite=non_finite)
            self.recorded[key] = folder, report
        folder, self.old = self.recorded[key]
        assert self.old.failures == ()
        return self.report(new, name, folder, records=False, seconds=seconds, non_finite=non_finite)

    def verification(self, old: str, new: str, name: str = "f", *, non_finite: bool = False) -> Verification:
        verification = self.run(old, new, name, non_finite=non_finite).verification
        assert verification is not None
        return verification

    def differing(
        self, old: str, new: str, name: str = "f", *, non_finite: bool = False
    ) -> dict[Aspect, str]:
        """The first real difference of each aspect."""
        verification = self.verification(old, new, name, non_finite=non_finite)
        assert not verification.refused
        assert verification.comparisons
        return {
            difference.aspect: difference.text
            for comparison in reversed(verification.comparisons)
            for difference in reversed(comparison.differences)
            if not difference.rounding
        }


def test_an_equal_text_is_equal_in_each_mode_with_each_value(compared: Compared) -> None:
    report = compared.run(OLD, NEW, non_finite=True)
    assert report.failures == ()
    assert report.verification is not None
    assert [comparison.differences for comparison in report.verification.comparisons] == [()] * 12
    assert {(comparison.values, comparison.compiled) for comparison in report.verification.comparisons} == {
        (values, compiled) for values in VALUES for compiled in (False, True)
    }
    assert (len(compared.old.breaks) > 0, len(report.breaks)) == (True, 0)
    assert len(report.compiles) == 1


OPERATOR = """\
import torch

@torch.library.custom_op("mine::copy", mutates_args=())
def copy(x: torch.Tensor) -> torch.Tensor:
    return x.clone()

@copy.register_fake
def _(x):
    return x.new_empty(4)

# fuselight: f(f32[4])
def f(x):
    return copy(x)
"""


@pytest.mark.parametrize("inductor", [False, True])
def test_a_wrong_shape_rule_is_seen_by_inductor_alone(compared: Compared, *, inductor: bool) -> None:
    wrong = OPERATOR.replace("new_empty(4)", "new_empty(2)")
    for text, records in ((OPERATOR, True), (wrong, False)):
        request = compared.live.request(text, "f").of_kind(
            VerifyRequest, folder=str(compared.records), records=records, inductor=inductor
        )
        report = compared.live.report(request)
    comparisons = report.verification.comparisons if report.verification is not None else ()
    differences = {
        (comparison.compiled, two.aspect) for comparison in comparisons for two in comparison.differences
    }
    assert differences == ({(True, Aspect.EXCEPTION)} if inductor else set())


@pytest.mark.parametrize(
    ("text", "edit", "name", "expected"),
    [
        (OLD.replace("x.sum() > 0", "x.dim() == 1"), ("x * 2", "2 * x"), "f", {4, 5, 8}),
        (TRAINED, ("self.calls += 1", "self.calls += 2"), "Net", {5, 6, 7, 8, 11, 12, 13}),
    ],
)
def test_lines_that_a_call_runs_are_known(
    compared: Compared, text: str, edit: tuple[str, str], name: str, expected: set[int]
) -> None:
    """Of a module those of its creation, too; of branches those that a call takes."""
    new = text.replace(*edit)
    assert compared.verification(text, new, name).lines_run == (), "no file is said to be changed"
    folder, _ = compared.recorded[text, name, False]
    request = compared.live.request(new, name, seconds=60.0).of_kind(
        VerifyRequest, folder=str(folder), records=False, automatic=True
    )
    request = replace(request, overlays={request.target.path: new})
    verification = compared.live.report(request).verification
    assert verification is not None
    (run,) = verification.lines_run
    assert (run.path, set(run.lines)) == (request.target.path, expected)


def test_rounding_is_named_and_is_no_real_difference(compared: Compared) -> None:
    old = "import torch\n# fuselight: f(f32[4])\ndef f(x):\n    return x / 3\n"
    verification = compared.verification(old, old.replace("x / 3", "x * (1 / 3)"))
    differences = [
        difference for comparison in verification.comparisons for difference in comparison.differences
    ]
    assert differences
    assert {(difference.aspect, difference.rounding) for difference in differences} == {(Aspect.OUTPUT, True)}


@pytest.mark.parametrize(
    ("change", "aspect", "words"),
    [
        (("(self.weight * x).sum()", "(self.weight * x).sum() + 1"), Aspect.OUTPUT, "output: was "),
        (
            ("(self.weight * x).sum()", "(self.weight.detach() * x).sum() + 0 * self.weight.sum()"),
            Aspect.GRADIENT,
            "gradient of weight: element [0] was ",
        ),
        (("self.seen += 1", "self.seen += 2"), Aspect.STATE, "buffer seen, changed in place: was 1, is 2"),
        (("self.calls += 1", "pass"), Aspect.STATE, "calls changes by +1 in the old text, stays as it is"),
        (
            ("self.calls += 1", "self.calls += 1; torch.rand(1)"),
            Aspect.RANDOM,
            "the state of torch's generator",
        ),
        (("self.calls += 1", "self.calls += 1; print(1)"), Aspect.PRINTED, "also prints `1`"),
        (("x).sum()", "x).sum().double()"), Aspect.STRUCTURE, "output was float32[], is float64[]"),
        (("self.seen += 1", "self.seen += self.none"), Aspect.EXCEPTION, "raises AttributeError"),
    ],
)
def test_a_difference_has_its_aspect_and_words(
    compared: Compared, change: tuple[str, str], aspect: Aspect, words: str
) -> None:
    entries = compared.differing(TRAINED, TRAINED.replace(*change), "Net")
    assert list(entries) == [aspect]
    assert words in entries[aspect]


def test_lines_that_are_printed_in_another_order_are_the_same_lines(compared: Compared) -> None:
    old = TRAINED.replace("self.calls += 1", "print(1); print(2)")
    assert compared.differing(old, old.replace("print(1); print(2)", "print(2); print(1)"), "Net") == {
        Aspect.PRINTED: OTHER_ORDER
    }


def test_a_gradient_that_is_nan_in_the_branch_not_taken_is_found(compared: Compared) -> None:
    old = (
        "import torch\n# fuselight: f(f32[4], train=True)\ndef f(x):\n"
        "    return torch.stack([v.sqrt() if v > 0 else v for v in x])\n"
    )
    new = old.replace("torch.stack([v.sqrt() if v > 0 else v for v in x])", "torch.where(x > 0, x.sqrt(), x)")
    entries = compared.differing(old, new)
    assert list(entries) == [Aspect.GRADIENT]
    assert "is nan" in entries[Aspect.GRADIENT]


@pytest.mark.parametrize(
    ("faint", "aspects"),
    [("self.faint(x) * 1e-8", []), ("self.faint(x) * 3e-8", [Aspect.GRADIENT])],
)
def test_a_gradient_that_is_zero_is_rounding_and_a_wrong_one_that_is_small_is_not(
    compared: Compared, faint: str, aspects: list[Aspect]
) -> None:
    old = """\
import torch
# fuselight: Pool()(f32[6, 8], train=True)
class Pool(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.faint = torch.nn.Linear(8, 1), torch.nn.Linear(8, 8)

    def forward(self, x):
        weights = self.score(x).softmax(0)
        return (weights * x).sum(0) + self.faint(x) * 1e-8
"""
    new = old.replace("(weights * x).sum(0)", "(weights.mT @ x).squeeze(0)")
    assert list(compared.differing(old, new.replace("self.faint(x) * 1e-8", faint), "Pool")) == aspects


def test_nan_shows_a_difference_that_numbers_do_not(compared: Compared) -> None:
    new = NEW.replace("torch.where(x.sum() > 0, x * 2, x - 1)", "torch.where(x.sum() <= 0, x - 1, x * 2)")
    assert compared.differing(OLD, new) == {}
    assert Aspect.OUTPUT in compared.differing(OLD, new, non_finite=True)


@pytest.mark.parametrize(
    ("old", "reason"),
    [
        (
            "import time\ndef g():\n    return time.perf_counter_ns() % 1_000_003\n",
            "something else the second time",
        ),
        ("calls = []\ndef g():\n    calls.append(1)\n    return len(calls)\n", "because it keeps state"),
        ("def g():\n    raise ValueError('no')\n", "raises ValueError without torch.compile, too: no"),
    ],
)
def test_a_call_that_differs_from_itself_or_fails_cannot_be_verified(
    compared: Compared, old: str, reason: str
) -> None:
    text = old + "# fuselight: f(f32[4])\ndef f(x):\n    return x * g()\n"
    verification = compared.verification(text, text)
    assert reason in verification.refused
    assert verification.comparisons == ()


def test_an_output_that_can_be_read_once_is_not_verified(compared: Compared) -> None:
    text = "import torch\n# fuselight: f(f32[4])\ndef f(x):\n    return x * 2, (one for one in x)\n"
    verification = compared.verification(text, text)
    assert verification.refused == "output[1] is a generator, which cannot be compared"


def test_values_that_a_provider_cannot_draw_again_are_replaced(compared: Compared) -> None:
    old = "import torch\ndef example_inputs():\n    return torch.ones(4)\ndef f(x):\n    return x * 2\n"
    new = old.replace("x * 2", "x + 1")  # equal for ones alone
    request = compared.live.request(old, provider="example_inputs", provider_line=2)
    compared.live.report(request.of_kind(VerifyRequest, folder=str(compared.records), records=True))
    changed = compared.live.request(new, provider="example_inputs", provider_line=2)
    report = compared.live.report(changed.of_kind(VerifyRequest, folder=str(compared.records)))
    assert report.verification is not None
    assert "another seed gives the same inputs" in report.verification.notes[0]
    assert [bool(comparison.differences) for comparison in report.verification.comparisons] == [
        False,
        True,
        True,
    ] * 2


@pytest.mark.parametrize(
    ("body", "kind"),
    [("def f(x:", "import"), ("import os\nos.kill(os.getpid(), 11)\ndef f(x):\n    return x", "signal")],
)
def test_a_text_that_cannot_run_is_a_failure(compared: Compared, body: str, kind: str) -> None:
    report = compared.run(OLD, f"# fuselight: f(f32[4])\n{body}\n")
    assert [failure.kind for failure in report.failures] == [kind]


def test_an_old_text_that_ends_early_has_no_results_and_the_new_one_says_so(compared: Compared) -> None:
    """It ends in the second round, as a run does that reaches its time limit."""
    text = (
        "import os\nimport torch\nCALLS = []\n# fuselight: f(f32[4])\ndef f(x):\n    CALLS.append(1)\n"
        "    if len(CALLS) > 1:\n        os._exit(3)\n    return x\n"
    )
    old = compared.report(text, "f", compared.records, records=True, seconds=60.0, non_finite=False)
    assert (old.verification, [failure.kind for failure in old.failures]) == (None, ["exit"])
    new = compared.report(OLD, "f", compared.records, records=False, seconds=60.0, non_finite=False)
    assert new.verification is not None
    assert new.verification.refused == "the text before the change left no results"


def test_a_text_that_never_returns_is_ended(compared: Compared) -> None:
    endless = "# fuselight: f(f32[4])\ndef f(x):\n    while True:\n        pass\n"
    report = compared.run(OLD, endless, seconds=1.0)
    assert [failure.kind for failure in report.failures] == ["timeout"]


@pytest.mark.parametrize(
    ("rare", "usual", "words"),
    [
        ("x.mean()", "x * 2", "one side is float32[], but torch.where always gives float32[4]"),
        ("x.long()", "x * 2", "one side is int64[4], but torch.where always gives float32[4]"),
        ("0", "x * 2", "one side is the number 0, but torch.where always gives float32[4]"),
        ("x - 1", "x * 2", ""),
        ("0.0", "x.sum()", ""),
    ],
)
def test_sides_of_another_kind_differ_although_no_call_takes_them(
    compared: Compared, rare: str, usual: str, words: str
) -> None:
    old = (
        "import torch\n# fuselight: f(f32[4])\ndef f(x):\n"
        f"    if x.abs().max() > 1e4:\n        return {rare}\n    return {usual}\n"
    )
    selected = f"torch.where(x.abs().max() > 1e4, {rare}, {usual})"
    new = f"import torch\n# fuselight: f(f32[4])\ndef f(x):\n    return {selected}\n"
    verification = compared.verification(old, new)
    texts = [
        difference.text for comparison in verification.comparisons for difference in comparison.differences
    ]
    assert bool(texts) == bool(words)
    assert all(words in text for text in texts)
    assert "was always False: the other side was not compared" in verification.notes[0]


@pytest.mark.parametrize(
    ("change", "aspect", "words"),
    [
        (("str(n)", "str(m)"), Aspect.OUTPUT, "output[1] was '4', is 'tensor(4)'"),
        (
            ("self.seen.append(n)", "self.seen.append(m)"),
            Aspect.STRUCTURE,
            "seen[0], changed in place was int",
        ),
        (
            ("self._last = x * n", "self._last = x * n + 1"),
            Aspect.STATE,
            "_last, changed in place: element [0]",
        ),
        (
            ("return x,", "return x.clone(),"),
            Aspect.MEMORY,
            "output[0] shared memory with input 0, and now with no input",
        ),
    ],
)
def test_text_attributes_and_shared_memory_are_compared(
    compared: Compared, change: tuple[str, str], aspect: Aspect, words: str
) -> None:
    old = (
        "import torch\n# fuselight: Net()(f32[4])\nclass Net(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.seen = []\n        self._last = None\n\n    def forward(self, x):\n"
        "        m = torch.tensor(x.numel())\n        n = x.numel()\n        self.seen.append(n)\n"
        "        self._last = x * n\n        return x, str(n)\n"
    )
    entries = compared.differing(old, old.replace(*change), "Net")
    assert list(entries) == [aspect]
    assert words in entries[aspect]


def test_outputs_that_need_no_gradient_any_more_are_a_difference(compared: Compared) -> None:
    old = TRAINED.replace(".sum()\n", ".sum(), self.weight * 0\n")
    for new in ("(self.weight * 0).detach()", "self.weight * (0 if torch.is_grad_enabled() else 1)"):
        entries = compared.differing(old, old.replace("self.weight * 0", new), "Net")
        words = "the gradient of output[1] was required, is not required"
        assert entries == ({Aspect.GRADIENT: words} if "detach" in new else {})
