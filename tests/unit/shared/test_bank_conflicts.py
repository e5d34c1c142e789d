"""Cycles of an access of shared memory, from the addresses that PTX gives to the lanes of a warp."""

from __future__ import annotations

import pytest

from fuselight.shared.bank_conflicts import LaneAddresses, wavefronts


def lanes(ptx: str) -> tuple[int, ...] | None:
    return LaneAddresses(ptx).of("[%r9], %r1")


@pytest.mark.parametrize(
    ("stride", "width", "cycles"),
    [
        (4, 4, 1),
        (8, 4, 2),
        (128, 4, 32),
        (0, 4, 1),
        (1, 1, 1),
        (16, 16, 4),
        (8, 8, 2),
        (128, 16, 32),
        (132, 4, 1),
    ],
)
def test_lanes_of_one_bank_come_one_after_the_other(stride: int, width: int, cycles: int) -> None:
    assert wavefronts(tuple(stride * lane for lane in range(32)), width) == cycles


def test_addresses_are_computed_from_the_lane() -> None:
    ptx = """
	mov.u32 	%r1, %tid.x;
	and.b32 	%r2, %r1, 7;
	shl.b32 	%r3, %r2, 4;
	bfe.u32 	%r4, %r1, 3, 2;
	mad.lo.s32 	%r5, %r4, 1024, %r3;
	xor.b32 	%r6, %r5, 16;
	mov.b32 	%r7, global_smem;
	add.s32 	%r9, %r7, %r6;
"""
    assert lanes(ptx) == tuple(((lane % 8 * 16) + (lane // 8 % 4) * 1024) ^ 16 for lane in range(32))


def test_what_is_the_same_for_all_lanes_changes_no_difference() -> None:
    ptx = """
	mov.u32 	%r1, %tid.x;
	shl.b32 	%r2, %r1, 2;
	mov.u32 	%r3, %ctaid.x;
	ld.param.b32 	%r4, [kernel_param_0];
	mul.lo.s32 	%r5, %r3, %r4;
	add.s32 	%r6, %r6, 1;
	add.s32 	%r7, %r5, %r6;
	add.s32 	%r9, %r7, %r2;
"""
    addresses = lanes(ptx)
    assert addresses is not None
    assert [address - addresses[0] for address in addresses] == [4 * lane for lane in range(32)]


@pytest.mark.parametrize(
    "operation",
    ["ld.global.b32 %r2, [%rd1];", "shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;", "or.b32 %r2, %r1, %r3;"],
    ids=["a loaded value", "a value of another lane", "an unknown value in a bit operation"],
)
def test_an_address_that_may_differ_otherwise_is_not_known(operation: str) -> None:
    ptx = f"mov.u32 %r1, %tid.x;\nmov.u32 %r3, %ctaid.x;\n{operation}\nadd.s32 %r9, %r1, %r2;"
    assert lanes(ptx) is None


def test_a_choice_by_the_lane_is_computed() -> None:
    ptx = """
	mov.u32 	%r1, %tid.x;
	and.b32 	%r2, %r1, 1;
	setp.eq.b32 	%p1, %r2, 0;
	selp.b32 	%r3, 0, 576, %p1;
	neg.s32 	%r4, %r2;
	and.b32 	%r5, %r4, 64;
	add.s32 	%r9, %r3, %r5;
"""
    assert lanes(ptx) == tuple(640 if lane % 2 else 0 for lane in range(32))


@pytest.mark.parametrize("text", ["", "[%r1]", "no address", "[%r9+0x10]", "mov.u32 %r9, ;"])
def test_any_text_is_read(text: str) -> None:
    LaneAddresses(text).of(text)
