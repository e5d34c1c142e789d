"""The fix of FL949: what a trial cured is written in the decorator, and nothing else."""

from __future__ import annotations

from fuselight.shared.report import TuningChange
from fuselight_server.explain.findings import findings
from fuselight_server.fixes.rewrites.families import FixClass, has_remedies, rewrites
from tests.support.reports import FILE, at, report

TEXT = '\n@triton.autotune(CONFIGS, key=["n"])\n@triton.jit\ndef scale(x, total, n):\n    pass\n'
CURES = (('reset_to_zero=["total"]', 'restore_value=["x"]'), ('restore_value=["total", "x"]',))
CHANGE = TuningChange("scale", at(2), "total", 0, 3.0, 1.0, 1, 4, CURES, launch=(at(12),))


def test_each_tried_cure_is_a_fix() -> None:
    tuned = report(tuning_changes=(CHANGE,))
    (finding,) = findings(tuned)
    assert has_remedies(finding.code)
    remedies = rewrites(finding, tuned, {FILE: TEXT}.get).remedies
    assert [(remedy.kind, remedy.fix_class) for remedy in remedies] == [
        ("reset_to_zero", FixClass.EXACT),
        ("restore_value", FixClass.EXACT),
    ]
    assert [remedy.texts[FILE].splitlines()[1] for remedy in remedies] == [
        f'@triton.autotune(CONFIGS, key=["n"], {", ".join(cure)})' for cure in CURES
    ]
    assert (
        remedies[0].title == 'Write `reset_to_zero=["total"]` and `restore_value=["x"]` in `@triton.autotune`'
    )


def test_an_autotuner_that_is_made_elsewhere_has_no_fix() -> None:
    tuned = report(tuning_changes=(CHANGE,))
    (finding,) = findings(tuned)
    text = "\n@TUNED\n@triton.jit\ndef scale(x, total, n):\n    pass\n"
    assert rewrites(finding, tuned, {FILE: text}.get).remedies == ()
