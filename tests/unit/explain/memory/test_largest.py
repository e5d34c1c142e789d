"""The largest batch that fits is that of trying every batch, and takes few estimates."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuselight.shared.devices import find
from fuselight.shared.report import MemoryEstimate, MemoryPeak, Report, StepPhase
from fuselight_server.explain.memory.fit import LargestBatch, fitting_bytes
from fuselight_server.explain.memory.largest import find_largest
from tests.support import reports

T4 = find("t4")
LIMIT = fitting_bytes(T4)
Moments = list[tuple[int, int]]
"""(bytes at a batch of 0, bytes of each element of the batch) of the moments of a step."""


def size_of(moments: Moments, batch: int) -> int:
    return max(base + each * batch for base, each in moments)


def searched(eager: Moments, compiled: Moments | None) -> tuple[LargestBatch, list[tuple[int, ...]]]:
    asked: list[tuple[int, ...]] = []

    def peak(moments: Moments, batch: int) -> MemoryPeak:
        return MemoryPeak(size_of(moments, batch), 0, StepPhase.FORWARD, "", None)

    async def estimated(batches: tuple[int, ...]) -> Report:
        asked.append(batches)
        memory = tuple(
            MemoryEstimate(
                "f()",
                training=False,
                batch=batch,
                eager=peak(eager, batch),
                compiled=peak(compiled, batch) if compiled is not None else None,
            )
            for batch in batches
        )
        return replace(reports.report(), memory=memory, target_device=T4)

    return asyncio.run(find_largest(estimated)), asked


def largest(moments: Moments) -> int:
    return min((LIMIT - base) // each if base <= LIMIT else -1 for base, each in moments if each)


MOMENT = st.tuples(st.integers(0, LIMIT * 2), st.integers(1 << 14, LIMIT))


@given(moments=st.lists(MOMENT, min_size=1, max_size=3))
def test_a_batch_that_is_named_fits_and_the_next_one_does_not(moments: Moments) -> None:
    largest_batch, asked = searched(moments, moments)
    assert largest_batch.eager == largest_batch.compiled
    assert len(asked) <= 7
    if largest_batch.eager is not None:
        assert largest_batch.eager == max(largest(moments), 0)
        assert size_of(moments, largest_batch.eager + 1) > LIMIT


@pytest.mark.parametrize(
    ("moments", "batch"),
    [
        ([(10**9, 10**6)], (LIMIT - 10**9) // 10**6),
        ([(6 * 10**9, 0), (10**9, 5 * 10**6)], (LIMIT - 10**9) // (5 * 10**6)),  # as with a large optimizer
        ([(10**9, 10**6), (0, 2 * 10**6)], LIMIT // (2 * 10**6)),
        ([(20 * 10**9, 10**6)], 0),
        ([(0, LIMIT)], 1),
    ],
)
def test_steps_as_they_are_have_an_answer(moments: Moments, batch: int) -> None:
    assert searched(moments, moments)[0] == LargestBatch(batch, batch)


def test_a_form_that_cannot_run_is_not_determined() -> None:
    assert searched([(10**9, 10**6)], None)[0].compiled is None


def test_what_does_not_grow_is_not_determined() -> None:
    assert searched([(10**9, 0)], [(10**9, 0)])[0] == LargestBatch(None, None)
