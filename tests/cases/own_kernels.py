"""The program's own Triton kernels, on a machine without a GPU: launches are computed, and what is outside is not."""

import torch
import triton
import triton.language as tl


@triton.jit
def shift(x, out, length, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < length) + 1, mask=at < length)


@triton.jit
def shift_all(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at)  # error: [FL941] "`shift_all` reads `x[100]`, and `x` has 100 elements"
    tl.store(out + at, value, mask=at < 100)
    # nothing of a call with one element: the launch is the same for each size


@triton.jit
def by_assembly(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    text: tl.constexpr = "{ mul.f32 $0, $1, $1; add.f32 $0, $0, $1; }"
    value = tl.inline_asm_elementwise(text, "=f,f", [tl.load(x + at)], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(out + at, value)


# fuselight: in_graph(f32[100])
@torch.compile
def in_graph(x):
    if not x.is_cuda:
        raise ValueError("for CUDA tensors")
    out = torch.empty_like(x)
    with torch.cuda.device(x.device):
        shift[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out.relu()


# fuselight: beside_a_graph(f32[100])
@torch.compile
def beside_a_graph(x):
    out = torch.empty_like(x)
    shift[(2,)](x, out, x.numel(), BLOCK=64)
    if out.sum() > 0:  # warning: [GB0170] "a branch depends on the data of a tensor"
        shift[(2,)](out, x, x.numel(), BLOCK=64)
    return x * 2


# fuselight: out_of_bounds(f32[100])
@torch.compile
def out_of_bounds(x):
    out = torch.empty_like(x)
    shift_all[(2,)](x, out, BLOCK=64)
    return out.relu()


# fuselight: unknown_values(f32[64])
@torch.compile
def unknown_values(x):
    out = torch.empty_like(x)
    by_assembly[(1,)](x, out, BLOCK=64)  # info: [FL606] "`by_assembly` writes are not known: it has inline assembly"
    return out.relu()


# fuselight: selects_a_device(f32[8])
@torch.compile
def selects_a_device(x):
    with torch.cuda.device(0):
        return x.sin() + 1


# fuselight: raises_by_unknown_values(f32[64])
@torch.compile(fullgraph=False)
def raises_by_unknown_values(x):
    out = torch.empty_like(x)
    by_assembly[(1,)](x, out, BLOCK=64)  # info: [FL606] "it has inline assembly"
    return check(out)  # warning: [GB0098] "calls `check`"


@torch.compiler.disable
def check(out):
    if out.sum() != 3:
        raise ValueError("wrong kernel")  # error: [FL401] "It may come from values that are not those of a GPU"
    return out


@triton.jit
def copy_row(x, out, length, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + tl.program_id(0).to(tl.int64) * length + at, mask=at < length)
    tl.store(out + tl.program_id(0) * length + at, value, mask=at < length)  # error: [FL944] "`out[2457595904]`"


# fuselight: large_rows(bf16[600000, 4096])
@torch.compile
def large_rows(x):  # info: [FL602] "the tensors of the directive take 4.9 GB"
    out = torch.empty_like(x)
    copy_row[(x.shape[0],)](x, out, x.shape[1], BLOCK=4096)  # hint: [FL607] "not every access of `copy_row` was checked"
    return out.relu()


@triton.jit
def own_block(x, out, length, BLOCK: tl.constexpr):
    at = tl.program_id(0) * (BLOCK // 2) + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < length) + tl.program_id(0)
    tl.store(out + at, value, mask=at < length)  # error: [FL942] "different values to `out[32]`"  # warning: [FL943] "28 elements"


# fuselight: races(f32[220])
@torch.compile
def races(x):
    out = torch.empty_like(x)
    own_block[(5,)](x, out, x.numel(), BLOCK=64)
    return out.relu()


def plus_two(x):
    return x + 2


# fuselight: shifted(f32[100], reference=plus_two)
@torch.compile
def shifted(x):
    out = torch.empty_like(x)
    shift[(2,)](x, out, x.numel(), BLOCK=64)  # error: [FL948] "100 of 100 elements differ from `plus_two`"
    return out


CONFIGS = [triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})]


@triton.autotune(CONFIGS, key=["length"])  # error: [FL949] "the first result of `add_up` is wrong"
@triton.jit
def add_up(x, total, length, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total, tl.sum(tl.load(x + at, mask=at < length, other=0.0)))


# fuselight: added_up(f32[100])
@torch.compile
def added_up(x):
    total = torch.zeros(1)
    add_up[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, total, x.numel())
    return total
