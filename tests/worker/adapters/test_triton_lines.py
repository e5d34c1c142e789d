"""Occupancy by the vendors' rules, and line maps of any text. Neither needs Triton."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuselight.adapters.triton_api import compiler
from fuselight.adapters.triton_api.lines import call_site, line_map
from fuselight.adapters.triton_api.occupancy import occupancy
from fuselight.shared.report import Device, Occupancy
from tests.support.kernels import A100, H100, MI300X

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("device", "registers", "shared", "warps", "wanted"),
    [
        (H100, 32, 0, 4, Occupancy(64, 64, 16, "warps")),
        (H100, 255, 0, 4, Occupancy(8, 64, 2, "registers")),
        (H100, 27, 8, 2, Occupancy(64, 64, 32, "warps")),
        (H100, 40, 0, 8, Occupancy(48, 64, 6, "registers")),
        (H100, 32, 0, 1, Occupancy(32, 64, 32, "blocks")),
        (H100, 32, 100 * 1024, 4, Occupancy(8, 64, 2, "shared memory")),
        (A100, 64, 163 * 1024, 4, Occupancy(4, 64, 1, "shared memory")),
        (MI300X, 128, 0, 4, Occupancy(16, 32, 4, "registers")),
        (MI300X, 40, 32 * 1024, 4, Occupancy(8, 32, 2, "shared memory")),
    ],
)
def test_occupancy_is_the_vendors(
    device: Device, registers: int, shared: int, warps: int, wanted: Occupancy
) -> None:
    assert occupancy(device, registers=registers, shared=shared, num_warps=warps) == wanted


@st.composite
def devices(draw: st.DrawFn) -> Device:
    """Devices with any figures; settings refuse an architecture of another backend, so there is none here."""
    backend, arch = draw(st.sampled_from([("cuda", "7.5"), ("cuda", "9.0"), ("cuda", ""), ("hip", "gfx942")]))
    strategy = st.builds(
        Device,
        key=st.just("x"),
        name=st.just("X"),
        backend=st.just(backend),
        arch=st.just(arch),
        multiprocessors=st.integers(0, 300),
        shared_sm_kb=st.integers(0, 300),
        registers=st.integers(0, 1 << 18),
        threads=st.integers(0, 4096),
        blocks=st.integers(0, 64),
        warp=st.sampled_from([0, 32, 64]),
    )
    return draw(strategy)


@given(
    devices(),
    st.integers(0, 300),
    st.integers(0, 1 << 20),
    st.integers(-1, 64),
)
def test_occupancy_is_never_more_than_the_device_has(
    device: Device, registers: int, shared: int, warps: int
) -> None:
    actual_occupancy = occupancy(device, registers=registers, shared=shared, num_warps=warps)
    if actual_occupancy is not None:
        assert 0 < actual_occupancy.warps <= actual_occupancy.most
        assert actual_occupancy.warps * device.warp <= device.threads
        assert actual_occupancy.blocks <= device.blocks


# --- line maps of any text

FILE = "/fuselight/0123/kernel.py"
FRAGMENTS = [
    "#loc = loc(",
    "#loc1 = loc(#loc1)",
    "#loc2 = loc(callsite(#loc1 at #loc3))",
    "#loc3 = loc(callsite(#loc2 at #loc3))",
    f'loc("{FILE}":7:1)',
    'loc("\\":1:1',
    "loc(#loc9) loc(",
    "!1 = !DILocation(line: 3, column: 1, scope: !1, inlinedAt: !1)",
    '!2 = !DIFile(filename: "kernel.py", directory: "/fuselight/0123")',
    "!3 = distinct !DISubprogram(scope: !3, file: !2, line: 99999999999999)",
    "%0 = add i32 1, 1, !dbg !1",
    f'\t.file\t1 "{FILE}"',
    '.file 1 "',
    "\t.loc\t1 7 3 // a.py:1:2 @[ kernel.py:5:6 ]",
    "\t.loc\t99999999999 1 1",
    ".loc",
    "\tadd.s32 %r1, %r2, %r3;",
    f'\t//## File "{FILE}", line 12',
    '//## File "',
    "        /*0010*/                   S2R R0, SR_TID.X ;",
    "}",
    "\x00\ud800",
]
any_text = st.one_of(
    st.text(), st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=20))).map("\n".join)
)


@settings(max_examples=80)
@given(
    st.sampled_from(["ttir", "ttgir", "llir", "ptx", "sass", "amdgcn", "other"]),
    any_text,
    st.one_of(st.just(FILE), st.text(max_size=10)),
)
def test_any_text_gives_as_many_numbers_as_lines(stage: str, text: str, file: str) -> None:
    numbers = line_map(stage, text, file)
    assert len(numbers) == len(text.split("\n"))
    assert all(type(line) is int and line >= 0 for line in numbers)
    assert call_site(text, file) >= 0
    assert compiler.at_call_sites(text, file).count("\n") == text.count("\n")


def test_a_location_that_refers_to_itself_ends() -> None:
    text = "#loc1 = loc(callsite(#loc2 at #loc1))\n#loc2 = loc(#loc1)\n%0 = op loc(#loc1)"
    assert line_map("ttir", text, FILE) == (0, 0, 0)
    deep = [f"#loc{index} = loc(#loc{index + 1})" for index in range(5000)]
    assert set(line_map("ttir", "\n".join([*deep, "%0 = op loc(#loc0)"]), FILE)) == {0}


def test_the_line_is_the_innermost_one_of_the_kernels_file() -> None:
    mlir = f'#loc1 = loc("{FILE}":4:1)\n#loc2 = loc("lib.py":9:1)\n#loc3 = loc("{FILE}":8:1)\n'
    mlir += "%0 = op loc(callsite(#loc2 at callsite(#loc3 at #loc1)))"
    assert line_map("ttgir", mlir, FILE)[-1] == 8
    assert call_site("lib.py:1:2 @[ kernel.py:8:1 @[ kernel.py:4:1 ] ]", FILE) == 8
    assert call_site("lib.py:1:2", FILE) == 0


def test_inline_assembly_and_inlined_code_as_triton_3_8_writes_them() -> None:
    text = (
        '\t.file\t1 "/k/kernel.py"\n\t.file\t2 "/lib/standard.py"\n'
        "\t.loc\t1 25 12                         // kernel.py:25:12\n"
        "\t// begin inline asm\n"
        "\t.loc\t1 25 12                         // kernel.py:25:12\n\tmov.u32 %r1, 0x0;\n"
        "\t.loc\t1 26 12                         // kernel.py:26:12\n\tld.global.b32 { %r1 }, [ %rd1 + 0 ];\n"
        "\t// end inline asm\n"
        "\t.loc\t2 293 12, function_name $L__info_string0, inlined_at 1 41 12 // standard.py:293:12\n"
        "\t.loc\t2 263 12, function_name $L__info_string0, inlined_at 2 293 12 // standard.py:263:12\n"
        "\tshfl.sync.bfly.b32 %r31, %r30, 16, 31, -1;\n"
    )
    moved = compiler.at_call_sites(text, "/k/kernel.py")
    assert moved.count("\n") == text.count("\n")
    entries = dict(zip(moved.split("\n"), line_map("ptx", moved, "/k/kernel.py"), strict=True))
    assert entries["\tld.global.b32 { %r1 }, [ %rd1 + 0 ];"] == 25
    assert entries["\tshfl.sync.bfly.b32 %r31, %r30, 16, 31, -1;"] == 41
