"""Further calls that a verification derives from a known one: which are made in its time, and what a title claims."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import astuple
from pathlib import Path
from types import SimpleNamespace

import pytest

from fuselight.shared.report import (
    Aspect,
    CallComparison,
    CaseFamily,
    Report,
    TargetRef,
    Tier,
    Verification,
    Versions,
)
from fuselight.worker.verify import further_calls
from fuselight.worker.verify.case_folder import CaseFolder, RecordedCase
from fuselight.worker.verify.further_calls import CaseCall, FurtherCalls
from fuselight.worker.verify.verification_cases import Case, first_of_families
from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.fixes.verification.comparison import compare_calls, compare_further, end
from tests.support.further_calls import HereAndNow, compared, new_text
from tests.support.live_worker import LiveWorker

pytestmark = pytest.mark.torch

LOOP_THAT_CATCHES = """\
while x.requires_grad:
        try:
            x = x * 1
            time.sleep(0.01)
        except Exception:
            pass"""


def test_an_equal_text_differs_nowhere_and_what_the_target_refuses_is_no_difference(
    live: LiveWorker, tmp_path: Path
) -> None:
    text = (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layer = nn.Linear(4, 3)\n        self.calls = 0\n\n    def forward(self, x, mask):\n"
        "        self.calls += 1\n        return self.layer(x)[mask]\n\n"
        "# fuselight: Net()(f32[2, 4], bool[2], train=True)\nNet\n"
    )
    verification = compared(live, tmp_path, text, text, "Net")
    assert all(comparison.differences == () for comparison in verification.comparisons)
    names = {(comparison.values, comparison.compiled) for comparison in verification.comparisons}
    assert {("inference", False), ("inference", True), ("size 3 in place of 2", False)} <= names
    assert {("float64 inputs", False), ("empty inputs", False), ("NaN in one element", True)} <= names
    refused = {"size 5 in place of 4", "int64 inputs", "uint8 inputs", "bool inputs", "complex64 inputs"}
    assert refused <= set(verification.not_accepted)
    assert verification.not_reached == ()


def test_what_there_is_no_time_for_is_reported(live: LiveWorker, tmp_path: Path) -> None:
    text = "# fuselight: f(f32[4])\ndef f(x):\n    return x * 2\n"
    verification = compared(live, tmp_path, text, text, seconds=0.0)
    assert (verification.comparisons, verification.reached) == ((), 0)
    assert {"training", "float16 inputs"} <= set(verification.left)


@pytest.mark.parametrize(
    "loop",
    [
        pytest.param("while x.requires_grad:\n        time.sleep(0.01)", marks=pytest.mark.corpora),
        LOOP_THAT_CATCHES,
    ],
)
def test_a_call_that_never_ends_is_a_difference_unless_the_old_text_does_not_end_either(
    loop: str, live: LiveWorker, tmp_path: Path
) -> None:
    text = "# fuselight: f(f32[4])\ndef f(x):\n    {}\n    return x * 2\n"
    verification = compared(live, tmp_path, text.format("pass"), text.format(loop), seconds=40.0)
    last = verification.comparisons[-1]
    assert (last.family, last.compiled) == (CaseFamily.GRADIENTS, False)
    assert [difference.aspect for difference in last.differences] == [Aspect.TIME]
    assert re.fullmatch(r"takes more than \d+ s, and took \d\.\d s before", last.differences[0].text)
    if loop == LOOP_THAT_CATCHES:
        return
    (tmp_path / "both").mkdir()
    both = compared(live, tmp_path / "both", text.format(loop), text.format(loop), seconds=1.0)
    assert both.not_reached == ("gradients of the inputs",)
    assert "training" not in both.left
    assert "float16 inputs" in both.left


def test_a_case_of_which_the_compiled_call_alone_is_late_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = SimpleNamespace(raised="")
    monkeypatch.setattr(FurtherCalls, "_add", lambda *_given, **_named: None)
    monkeypatch.setattr(CaseFolder, "load", lambda *_given: record)
    (tmp_path / "further.json").write_text(json.dumps({"0": (True, 0.1)}), encoding="utf-8")
    calls, result = new_text(tmp_path, lambda *_given, **_named: record)
    first, second = (Case(name, CaseFamily.SIZE) for name in ("a", "b"))
    planned = [CaseCall(case, compiled=compiled) for case in (first, second) for compiled in (False, True)]
    monkeypatch.setattr(calls, "_planned", lambda: planned)
    calls.make()
    assert (result.so_far.reached, result.so_far.left) == (1, ("a, compiled", "b"))


def test_a_case_whose_call_in_eager_mode_is_late_has_no_compiled_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiled call would have no record to be compared with."""
    late = {"0": astuple(RecordedCase(is_made=False, seconds=9.0, is_late=True))}
    (tmp_path / "further.json").write_text(json.dumps(late), encoding="utf-8")
    called: list[tuple[str, bool]] = []

    def call(case: Case, *, compiled: bool, is_first: bool) -> None:
        del is_first
        called.append((case.name, compiled))

    calls, _ = new_text(tmp_path, call, records=True, first=1)
    first, second = (Case(name, CaseFamily.SIZE) for name in ("a", "b"))
    planned = [CaseCall(case, compiled=compiled) for case in (first, second) for compiled in (False, True)]
    monkeypatch.setattr(calls, "_planned", lambda: planned)
    calls.make()
    assert called == [("b", False), ("b", True)]
    done = json.loads((tmp_path / "further.json").read_text(encoding="utf-8"))
    assert not RecordedCase(*done["1"]).is_made


def test_a_call_that_does_not_end_is_not_reached_nor_are_those_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(case: Case, *, compiled: bool, is_first: bool) -> None:
        del compiled, is_first
        if case.name == "b":
            raise TimeoutError

    done = {str(index): (index > 0, 0.1) for index in range(3)}
    (tmp_path / "further.json").write_text(json.dumps(done), encoding="utf-8")
    calls, result = new_text(tmp_path, call)
    monkeypatch.setattr(
        calls, "_planned", lambda: [CaseCall(Case(name, CaseFamily.SIZE)) for name in ("a", "b", "c")]
    )
    with pytest.raises(TimeoutError):
        calls.make()
    assert result.so_far.left == ("b", "c")


BOOLS = "# fuselight: f(f32[4])\ndef f(x):\n    y = x.any()\n    return {}\n"


def test_rounds_that_a_clock_ends_compare_what_one_round_without_an_end_compares(
    here: HereAndNow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call reads the clock, which advances by seconds: the title never claims more than at the end."""
    old, new = BOOLS.format("x + 1 if y else x"), BOOLS.format("torch.where(y, x + 1, x)")
    families = {CaseFamily.MODE, CaseFamily.VALUES, CaseFamily.DTYPE}
    whole = here.compared(old, new, families)
    ticks = itertools.count(step=7.0)
    monkeypatch.setattr(further_calls, "_perf_counter", lambda: next(ticks))
    rounds = [here.round(old, new)]
    while rounds[-1].left:
        assert len(rounds) < 100
        rounds.append(here.round(old, new, first=rounds[-1].reached))
    assert len(rounds) > 2
    assert [entry for part in rounds for entry in part.comparisons] == list(whole.comparisons)
    assert not any(part.not_reached for part in rounds)
    claims = list(titles(rounds))
    assert (
        claims[-1]
        == list(titles([whole]))[-1]
        == (
            FixClass.EQUAL,
            "same results, except for bool inputs and that it returns a new tensor in place of its input",
        )
    )
    assert all(fix_class is FixClass.EQUAL and "not compared: " in words for fix_class, words in claims[:-1])


def test_a_bound_on_compiled_calls_keeps_those_in_eager_mode_and_is_named(here: HereAndNow) -> None:
    text = "# fuselight: f(f32[4])\ndef f(x):\n    y = x.sum() > 0\n    return {}\n"
    old, new = text.format("x + 1 if y else x"), text.format("torch.where(y, x + 1, x)")
    few = here.compared(old, new, {CaseFamily.MODE, CaseFamily.DTYPE}, most_compiled=1)
    modes = [entry for entry in few.comparisons if entry.compiled]
    assert [entry.family for entry in modes] == [CaseFamily.MODE]
    assert {"training", "float16 inputs", "bool inputs"} <= {
        entry.values for entry in few.comparisons if not entry.compiled
    }
    (left_out,) = few.not_reached
    assert re.fullmatch(r"\d\d more compiled calls", left_out)
    fix_class, words = list(titles([few]))[-1]
    assert fix_class is FixClass.EQUAL
    assert words.endswith(f"not compared: {left_out}")


def test_each_family_has_a_compiled_call_before_any_has_two() -> None:
    families = [
        CaseFamily.MODE,
        CaseFamily.MODE,
        CaseFamily.MODE,
        CaseFamily.SIZE,
        CaseFamily.RANK,
        CaseFamily.SIZE,
    ]
    cases = [Case(str(number), family) for number, family in enumerate(families)]
    kept = {most: [case.name for case in first_of_families(cases, most)] for most in (0, 3, 4, 5, 9)}
    assert kept == {0: [], 3: ["0", "3", "4"], 4: ["0", "1", "3", "4"], 5: list("01345"), 9: list("012345")}


def titles(rounds: Iterable[Verification]) -> Iterator[tuple[FixClass | None, str]]:
    """What a change would claim if nothing else was compared after each round."""
    change = Remedy("patch", "It", FixClass.EQUAL, {"m.py": ""}, best_class=FixClass.EXACT)
    versions = Versions("3.11", "2.13.0", None, "0", "linux", "python")
    target = TargetRef("m.py", "f", 1, "function")
    recorded = tuple(CallComparison(0, "recorded inputs", compiled=mode) for mode in (False, True))
    so_far = compare_calls(
        change, Report(versions, target, Tier.CAPTURE, 1, verification=Verification(recorded))
    )
    for part in rounds:
        so_far = compare_further(change, so_far, Report(versions, target, Tier.CAPTURE, 1, verification=part))
        ended = end(change, so_far)
        yield ended.fix_class, ended.words
