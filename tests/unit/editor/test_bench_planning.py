"""What a benchmark measures, for how long, and how it is described in its progress."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.shared.configurations import ConfigurationError
from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.protocol import Limits, Progress
from fuselight.shared.report import Tier, Work
from fuselight_server.base.settings import BenchSettings, parse_settings
from fuselight_server.editor.results.run_progress import describe
from fuselight_server.editor.session.timed_results import plan_of
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.benchmarks.planning import configurations, scaled


def test_bounds_grow_with_the_processes() -> None:
    plan = MeasurePlan(configurations=("eager", "default", "max-autotune"), limit_seconds=100.0)
    assert scaled(Limits(memory_mb=1000), plan) == Limits(seconds=560.0, memory_mb=4000)
    assert scaled(Limits(memory_mb=1000), replace(plan, accuracy=False)).seconds == 460.0
    endless = scaled(Limits(memory_mb=0), replace(plan, limit_seconds=0.0))
    assert (endless.seconds, endless.memory_mb) == (0.0, 0)


def test_eager_is_first_and_the_source_decides_by_default() -> None:
    assert configurations((), compiled=True) == ("eager", "written")
    assert configurations(("",), compiled=False) == ("eager", "default")
    assert configurations(("default", "eager", "default"), compiled=True) == ("eager", "default")
    with pytest.raises(ConfigurationError, match="did you mean 'default'"):
        configurations(("defualt",), compiled=True)


def test_settings_become_a_plan() -> None:
    parsed, warnings = parse_settings({
        "bench": {
            "configurations": ["max-autotune"], "work": "training_step", "seconds": 1, "rounds": 3,
            "timeLimit": 60, "coldCache": True, "device": " cuda:1 ",
        }
    })  # fmt: skip
    assert warnings == ()
    assert plan_of(parsed.bench, compiled=True) == MeasurePlan(
        configurations=("eager", "max-autotune"), work=Work.TRAINING_STEP, seconds=1.0, rounds=3,
        limit_seconds=60.0, cold_cache=True, device="cuda:1", estimates_memory=True,
    )  # fmt: skip
    named = plan_of(parsed.bench, compiled=True, names=["default"], work="inference")
    assert (named.configurations, named.work) == (("eager", "default"), Work.INFERENCE)
    assert plan_of(BenchSettings(), compiled=False).work is None
    _, warnings = parse_settings({"bench": {"configurations": "default"}})
    assert warnings == (
        "fuselight.bench.configurations should be a list of strings, not 'default'; its default is used",
    )


def test_progress_names_the_target_and_what_is_done() -> None:
    run: Any = SimpleNamespace(
        job=SimpleNamespace(key=Key("/m.py", "", Tier.MEASURED)),
        progress=Progress(1, "measure", "round 3 of 10"),
        remark="",
    )
    assert describe(run) == "Benchmarking __main__: round 3 of 10"
