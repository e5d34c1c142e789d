"""Launches that are noted on a machine with a GPU: what is timed is not slowed down, and no launch is made twice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.adapters.triton_api import names
from fuselight.adapters.triton_api.launches.specializations import (
    LaunchRecord,
    config_text,
    recording_launches,
)


class Config:
    """A `triton.Config`."""

    def __init__(self, block: int, **more: Any) -> None:
        self.kwargs, self.num_warps, self.num_stages, self.num_ctas = {"BLOCK": block}, 4, 3, 1
        vars(self).update(more)

    def all_kwargs(self) -> dict[str, Any]:
        return {**self.kwargs, "num_warps": self.num_warps, "num_stages": self.num_stages}


class Kernel:
    """A `JITFunction`: counts its launches."""

    launches: list[int]

    def run(self, *, grid: Any, warmup: bool, **named: Any) -> None:
        del grid, warmup
        self.launches.append(named["BLOCK"])


REAL_RUN = Kernel.run


class Autotuner:
    """A `triton.runtime.Autotuner`."""

    def __init__(self, *configs: Config) -> None:
        self.fn, self.configs = Kernel(), list(configs)
        self.fn.launches = []
        self.keys, self.arg_names = ["n"], ["n"]
        self.best_config: Config | None = None
        self.configs_timings: dict[Config, list[float]] | None = None
        self.timed_runs: list[object] = []

    def run(self, *args: Any, **named: Any) -> None:
        del args
        if self.best_config is None:
            for config in self.configs:
                self.timed_runs.append(Kernel.run)
                self.fn.run(**named, **config.all_kwargs())
            self.configs_timings = {
                config: [0.01 * at, 0, 0] for at, config in enumerate(reversed(self.configs), 1)
            }
            self.best_config = self.configs[-1]
        self.fn.run(**named, **self.best_config.all_kwargs())


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> LaunchRecord:
    monkeypatch.setattr(names, "runtime_jit", lambda: SimpleNamespace(JITFunction=Kernel))
    monkeypatch.setattr(names, "autotuner", lambda: SimpleNamespace(Autotuner=Autotuner))
    monkeypatch.setattr(names, "make_backend", lambda _target: None)
    return LaunchRecord()


def test_configurations_are_timed_as_without_a_record(record: LaunchRecord) -> None:
    tuner = Autotuner(Config(128), Config(256))
    with recording_launches(record, None):
        for _ in range(2):
            tuner.run(1000, grid=(1,), warmup=False)
    assert tuner.timed_runs == [REAL_RUN, REAL_RUN]
    assert tuner.fn.launches == [128, 256, 256, 256]
    (tuning,) = record.tunings.values()
    assert [configuration.config.values for configuration in tuning.configurations] == [
        {"BLOCK": 128},
        {"BLOCK": 256},
    ]
    assert [configuration.measured_us for configuration in tuning.configurations] == [20.0, 10.0]
    assert (tuning.key, tuning.values, tuning.chosen) == (("n",), ("1000",), 1)
    assert Kernel.run is REAL_RUN


def test_one_configuration_is_no_choice(record: LaunchRecord) -> None:
    with recording_launches(record, None):
        Autotuner(Config(128)).run(1000, grid=(1,), warmup=False)
    assert record.tunings == {}


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (Config(128), 'triton.Config({"BLOCK": 128}, num_warps=4, num_stages=3)'),
        (Config(128, maxnreg=64), 'triton.Config({"BLOCK": 128}, num_warps=4, num_stages=3, maxnreg=64)'),
        (Config(128, pre_hook=print), ""),
    ],
)
def test_a_configuration_as_python(config: Config, text: str) -> None:
    assert config_text(config) == text
