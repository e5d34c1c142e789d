"""Directives with other sizes: what changes together, and what is left as it is."""

from __future__ import annotations

import pytest

from fuselight.shared.inputs.grammar import parse_directive
from fuselight.shared.inputs.variations import SizedCall, sized_call, smaller_bases


def remainders(text: str) -> list[str]:
    """The calls with sizes that are not multiples of a block."""
    return [variation.text for variation in SizedCall(text).variations() if variation.kind == "remainder"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f(f32[1024])", ["f(f32[1023])", "f(f32[511])"]),
        ("f(f32[65])", ["f(f32[63])"]),  # 64 is a multiple of blocks
        ("f(f32[8, 512], f32[512])", ["f(f32[8, 511], f32[511])", "f(f32[7, 512], f32[512])"]),
        ("f(x=f32[1000], n=1000)", ["f(x=f32[999], n=999)"]),
        ("f(f32[50, 30], i64[20] % 50)", ["f(f32[49, 30], i64[20] % 49)"]),
        ("Net(dim=64)(f32[4, 64])", ["Net(dim=63)(f32[4, 63])", "Net(dim=64)(f32[3, 64])"]),
    ],
)
def test_equal_numbers_change_together(text: str, expected: list[str]) -> None:
    assert set(expected) <= set(remainders(text))


@pytest.mark.parametrize(
    ("text", "never"),
    [
        ("f(f32[10, 4, 32], f32[10, 16])", "32], f32[10, 15"),  # half of the channels
        ("f(f32[4, 64], i32[5])", "i32[4]"),  # offsets of 4 sequences
        ("f(f32[4, 64], i32[5])", "f32[3"),
        ("f(f32[3, 64], dim=3)", "f32[2"),  # may be an axis
        ("f(f32[B, 1], train=True)", "0"),
    ],
)
def test_sizes_that_may_depend_on_others_do_not_change_alone(text: str, never: str) -> None:
    assert not [variation.text for variation in SizedCall(text).variations() if never in variation.text]


def test_indices_stay_inside_of_what_they_index() -> None:
    call = SizedCall("f(f32[128], i64[20] % 50)")
    assert [group.lowest for group in call.groups if group.base == 128] == [50]
    assert all(" % 50" in variation.text for variation in call.variations())
    assert min(smaller_bases(next(group for group in call.groups if group.base == 128))) >= 50


def test_layouts_keep_the_sizes_of_a_tensor() -> None:
    layouts = {v.kind: v.text for v in SizedCall('f(f32[2, 6, 9], "ä")').variations() if "9" in v.text}
    assert layouts["slice"] == 'f(f32[2, 6, 16][:, :, :9], "ä")'
    assert layouts["transposed"] == 'f(f32[2, 9, 6].transpose(-2, -1), "ä")'
    assert "f(f32[9, 6].t())" in [variation.text for variation in SizedCall("f(f32[6, 9])").variations()]


def test_only_with_a_reference_floats_are_made_negative() -> None:
    text = "f(f32[6, 9], i64[6], reference=plain)"
    signs = [variation.text for variation in SizedCall(text).variations() if variation.kind == "negative"]
    assert signs == ["f(-f32[6, 9].abs(), i64[6], reference=plain)"]
    assert not [v for v in SizedCall("f(f32[6, 9])").variations() if v.kind == "negative"]


@pytest.mark.parametrize(
    "text", ["f(f32[4, 128], f32[128, 4])", "f(f32[], f32[0], f32[1])", "f(f32[7, 9].t(), i64[9] % 7)", "g()"]
)
def test_each_variation_is_a_directive(text: str) -> None:
    for variation in SizedCall(text).variations():
        parse_directive(variation.text)
        assert variation.text != text


def test_smaller_sizes_are_tried_around_powers_of_two() -> None:
    (group,) = SizedCall("f(f32[100])").groups
    assert smaller_bases(group) == [1, 2, 3, 4, 5, 8, 9, 17, 33, 65]
    assert SizedCall("f(f32[100])").with_bases({0: 65}) == "f(f32[65])"
    assert sized_call("no call") is None
