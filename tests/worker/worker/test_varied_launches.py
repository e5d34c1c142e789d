"""Faults of Triton kernels that only other sizes and strides show, and the smallest call of a fault."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.support.kernels import NO_TRITON

pytest.importorskip("triton", reason=NO_TRITON)
pytest.importorskip("numpy")

from fuselight.worker.child.kernel_launches import VariedResult
from tests.support.checked_kernels import CODES, HAS_BLOCK_POINTERS, checked_file, directives, expected

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU, nothing stands in for it"),
]
FILES = Path(__file__).parents[2] / "cases" / "launches"


def varied(name: str, *functions: str) -> dict[str, VariedResult]:
    """What varied calls of functions of a file show; of all functions, if none is named."""
    with checked_file(FILES / f"{name}.py") as checked:
        return {
            directive[0]: checked.vary(*directive)
            for directive in directives(FILES / f"{name}.py")
            if not functions or directive[0] in functions
        }


def test_right_kernels_have_no_fault_at_other_sizes() -> None:
    results = varied("right_kinds")
    assert {name: (result.faults, result.mismatches) for name, result in results.items()} == dict.fromkeys(
        results, ((), ())
    )
    assert "masks_of_both_axes(f32[19, 50])" in results["masks_of_both_axes"].calls
    assert "fewer_programs(f32[1023])" in results["fewer_programs"].calls
    if HAS_BLOCK_POINTERS:
        assert "refuses_remainders(f32[31, 31])" in results["refuses_remainders"].refused


def test_faults_that_only_other_sizes_show_are_on_their_lines() -> None:
    functions = ("stride_of_the_input", "grid_for_multiples", "block_without_check", "contiguous_only")
    results = varied("planted_kinds", *functions)
    lines = {
        (fault.location.line, CODES[fault.kind]) for result in results.values() for fault in result.faults
    }
    planted = expected(FILES / "planted_kinds.py")
    assert len(lines) == len(results) - 1
    assert lines <= planted
    (grid,) = results["grid_for_multiples"].faults
    assert (grid.inputs, grid.is_of_variation) == ("grid_for_multiples(f32[257])", True)
    if HAS_BLOCK_POINTERS:
        (block,) = results["block_without_check"].faults
        assert (block.inputs, block.elements) == ("block_without_check(f32[1, 1])", 1)
    (stride,) = results["stride_of_the_input"].faults
    assert "][:, :64])" in stride.inputs
    (mismatch,) = results["contiguous_only"].mismatches
    assert (mismatch.reference, mismatch.is_of_variation) == ("same", True)


def test_the_smallest_call_of_a_fault_is_named() -> None:
    results = varied("planted_kinds", "two_rows_to_one", "inclusive_rows")
    assert results["two_rows_to_one"].smallest == {"0": "two_rows_to_one(f32[2, 1])"}
    assert results["inclusive_rows"].smallest == {"0": "inclusive_rows(f32[1, 1])"}


def test_a_kernel_that_is_right_for_the_sizes_of_its_directive_only_has_one_fault_for_a_line() -> None:
    results = varied("directive_sizes")
    assert not results["asks_for_multiples"].faults
    assert results["asks_for_multiples"].refused
    faults = [fault for result in results.values() for fault in result.faults]
    lines = {(fault.location.line, CODES[fault.kind]) for fault in faults}
    assert lines == expected(FILES / "directive_sizes.py")
    assert len(faults) == len(lines)
    assert [(fault.inputs, fault.has_other_strides) for fault in faults] == [
        ("rounds_its_grid_up(f32[1], f32[1])", False),
        ("one_stride_for_both(f32[2, 65][:, :64])", True),
    ]
