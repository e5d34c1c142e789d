"""Programs as real processes over gloo: what is recorded of them, and what a world without a network does, is true."""

from __future__ import annotations

import pytest

from tests.support import golden
from tests.support.live_worker import LiveWorker
from tests.support.rank_programs import PROGRAMS, RANKS
from tests.support.rank_records import (
    RankRecords,
    compare_with_real,
    recorded_ranks,
    run_program,
    run_real_ranks,
    torch_release,
)

pytestmark = [pytest.mark.torch, pytest.mark.contract, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> RankRecords:
    records = run_real_ranks(tmp_path_factory.mktemp("real"))
    if golden.updating:
        records.write()
    return records


def test_the_recording_is_what_real_processes_do(real: RankRecords) -> None:
    assert real == recorded_ranks() or torch_release() != recorded_ranks().torch


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_world_without_a_network_does_the_same(live: LiveWorker, real: RankRecords, name: str) -> None:
    report = run_program(live, PROGRAMS[name], RANKS[name], file=f"{name}.py")
    compare_with_real(report, real.ranks[name])
