"""Triton kernels whose estimated times are compared with a GPU (triton_times.py): with `tl.dot`, and bound by memory.

Each function with a directive makes one launch, or more of one kernel. `REFERENCES` has what the results of those with
`tl.dot` must be.
"""

import torch
import triton
import triton.language as tl

from tests.cases.launches import right_kernels


@triton.jit
def matmul_kernel(
    a, b, c, M, N, K, sam, sak, sbk, sbn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, PRECISION: tl.constexpr, SUM: tl.constexpr,
):  # fmt: skip
    """The one of Triton's tutorial: rows of tiles in groups, so that tiles are still in the cache."""
    place = tl.program_id(0)
    down, across = tl.cdiv(M, BM), tl.cdiv(N, BN)
    in_group = GROUP * across
    first = place // in_group * GROUP
    height = min(down - first, GROUP)
    rows = ((first + place % in_group % height) * BM + tl.arange(0, BM)) % M
    columns = (place % in_group // height * BN + tl.arange(0, BN)) % N
    inner = tl.arange(0, BK)
    left = a + rows[:, None] * sam + inner[None, :] * sak
    right = b + inner[:, None] * sbk + columns[None, :] * sbn
    total = tl.zeros((BM, BN), SUM)
    for at in range(0, K, BK):
        x = tl.load(left, mask=inner[None, :] < K - at, other=0)
        y = tl.load(right, mask=inner[:, None] < K - at, other=0)
        total = tl.dot(x, y, total, input_precision=PRECISION, out_dtype=SUM)
        left += BK * sak
        right += BK * sbk
    rows = (first + place % in_group % height) * BM + tl.arange(0, BM)
    columns = place % in_group // height * BN + tl.arange(0, BN)
    tl.store(c + rows[:, None] * N + columns[None, :], total, mask=(rows[:, None] < M) & (columns[None, :] < N))


def matmul(a, b, tile, warps, stages, precision="tf32"):
    (M, K), N = a.shape, b.shape[1]
    exact = a.dtype == torch.int8
    c = torch.empty(M, N, dtype=torch.int32 if exact else a.dtype, device=a.device)
    grid = (triton.cdiv(M, tile[0]) * triton.cdiv(N, tile[1]),)
    matmul_kernel[grid](
        a, b, c, M, N, K, *a.stride(), *b.stride(), *tile, GROUP=8, PRECISION=precision,
        SUM=tl.int32 if exact else tl.float32, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return c


# fuselight: matmul_small(bf16[1024, 1024], bf16[1024, 1024])
def matmul_small(a, b):
    return matmul(a, b, (64, 64, 64), 4, 3)


# fuselight: matmul_square(bf16[4096, 4096], bf16[4096, 4096])
def matmul_square(a, b):
    return matmul(a, b, (128, 256, 64), 8, 3)


# fuselight: matmul_large(f16[8192, 8192], f16[8192, 8192])
def matmul_large(a, b):
    return matmul(a, b, (128, 256, 64), 8, 4)


# fuselight: matmul_middle_tiles(bf16[4096, 4096], bf16[4096, 4096])
def matmul_middle_tiles(a, b):
    return matmul(a, b, (128, 128, 32), 4, 4)


# fuselight: matmul_small_tiles(bf16[4096, 4096], bf16[4096, 4096])
def matmul_small_tiles(a, b):
    return matmul(a, b, (32, 32, 32), 4, 3)


# fuselight: matmul_one_stage(bf16[4096, 4096], bf16[4096, 4096])
def matmul_one_stage(a, b):
    return matmul(a, b, (128, 128, 32), 8, 1)


# fuselight: matmul_tf32(f32[4096, 4096], f32[4096, 4096])
def matmul_tf32(a, b):
    return matmul(a, b, (128, 128, 32), 8, 3)


# fuselight: matmul_float32(f32[2048, 2048], f32[2048, 2048])
def matmul_float32(a, b):
    return matmul(a, b, (64, 64, 32), 4, 3, "ieee")


# fuselight: matmul_int8(i8[4096, 4096], i8[4096, 4096])
def matmul_int8(a, b):
    return matmul(a, b, (128, 128, 128), 8, 3)


# fuselight: matmul_of_144_tiles(bf16[1536, 4096], bf16[4096, 1536])
def matmul_of_144_tiles(a, b):
    return matmul(a, b, (128, 128, 64), 8, 3)


# fuselight: matmul_of_16_rows(bf16[16, 8192], bf16[8192, 8192])
def matmul_of_16_rows(a, b):
    return matmul(a, b, (16, 64, 128), 4, 4)


@triton.jit
def attention_kernel(
    q, k, v, out, T, scale, CAUSAL: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr
):
    """As in Triton's tutorial, without descriptors: the running maximum and sum of each row stay in registers."""
    block = tl.program_id(0)
    head = tl.program_id(1).to(tl.int64) * T * D
    rows, channels = block * BM + tl.arange(0, BM), tl.arange(0, D)
    query = tl.load(q + head + rows[:, None] * D + channels[None, :])
    best = tl.full((BM,), -float("inf"), tl.float32)
    norm = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    end = T
    if CAUSAL:
        end = (block + 1) * BM
    for first in range(0, end, BN):
        columns = first + tl.arange(0, BN)
        at = head + columns[:, None] * D + channels[None, :]
        score = tl.dot(query, tl.trans(tl.load(k + at))) * scale
        if CAUSAL:
            score = tl.where(columns[None, :] <= rows[:, None], score, -float("inf"))
        peak = tl.maximum(best, tl.max(score, 1))
        weight = tl.exp2(score - peak[:, None])
        old = tl.exp2(best - peak)
        norm = norm * old + tl.sum(weight, 1)
        value = tl.load(v + at)
        total = tl.dot(weight.to(value.dtype), value, total * old[:, None])
        best = peak
    tl.store(out + head + rows[:, None] * D + channels[None, :], total / norm[:, None])


def attention(q, k, v, causal, tile, warps, stages):
    out = torch.empty_like(q)
    heads, T, D = q.shape
    scale = D**-0.5 * 1.44269504
    attention_kernel[(T // tile[0], heads)](
        q, k, v, out, T, scale, CAUSAL=causal, D=D, BM=tile[0], BN=tile[1], num_warps=warps, num_stages=stages
    )
    return out


# fuselight: attention_64(bf16[64, 2048, 64], bf16[64, 2048, 64], bf16[64, 2048, 64])
def attention_64(q, k, v):
    return attention(q, k, v, False, (128, 64), 4, 3)


# fuselight: attention_128(f16[32, 4096, 128], f16[32, 4096, 128], f16[32, 4096, 128])
def attention_128(q, k, v):
    return attention(q, k, v, False, (128, 64), 8, 3)


# fuselight: causal_attention(bf16[32, 4096, 128], bf16[32, 4096, 128], bf16[32, 4096, 128])
def causal_attention(q, k, v):
    return attention(q, k, v, True, (128, 64), 8, 3)


# fuselight: short_attention(bf16[16, 512, 64], bf16[16, 512, 64], bf16[16, 512, 64])
def short_attention(q, k, v):
    return attention(q, k, v, False, (64, 64), 4, 2)


@triton.jit
def experts_kernel(
    x, weights, ends, out, K, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """Rows of each expert by its own matrix; where they end is in memory."""
    expert = tl.program_id(2)
    begin = tl.load(ends + expert)
    end = tl.load(ends + expert + 1)
    rows = begin + tl.program_id(1) * BM + tl.arange(0, BM)
    if begin + tl.program_id(1) * BM < end:
        columns, inner = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, BK)
        total = tl.zeros((BM, BN), tl.float32)
        for at in range(0, K, BK):
            left = tl.load(x + rows[:, None] * K + at + inner[None, :], mask=rows[:, None] < end, other=0.0)
            right = tl.load(weights + expert.to(tl.int64) * K * N + (at + inner[:, None]) * N + columns[None, :])
            total = tl.dot(left, right, total)
        tl.store(out + rows[:, None] * N + columns[None, :], total, mask=rows[:, None] < end)


def experts(x, weights, tile):
    count, K, N = weights.shape
    each = x.shape[0] // count
    ends = torch.arange(count + 1, dtype=torch.int32, device=x.device) * each
    out = torch.empty(x.shape[0], N, dtype=x.dtype, device=x.device)
    grid = (N // tile[1], triton.cdiv(each, tile[0]), count)
    experts_kernel[grid](x, weights, ends, out, K, N, *tile, num_warps=8, num_stages=3)
    return out


# fuselight: experts_of_many_rows(bf16[8192, 2048], bf16[16, 2048, 1408])
def experts_of_many_rows(x, weights):
    return experts(x, weights, (128, 128, 64))


# fuselight: experts_of_few_rows(bf16[512, 2048], bf16[64, 2048, 1408])
def experts_of_few_rows(x, weights):
    return experts(x, weights, (16, 128, 64))


@triton.jit
def split_kernel(a, b, c, M, N, K, PART: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Each program has a part of the inner dimension, and adds to the result."""
    rows, columns = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.program_id(2) * PART + tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for at in range(0, PART, BK):
        left = tl.load(a + rows[:, None] * K + at + inner[None, :])
        right = tl.load(b + (at + inner[:, None]) * N + columns[None, :])
        total = tl.dot(left, right, total)
    tl.atomic_add(c + rows[:, None] * N + columns[None, :], total)


# fuselight: split_matmul(f16[128, 16384], f16[16384, 512])
def split_matmul(a, b):
    c = torch.zeros(a.shape[0], b.shape[1], device=a.device)
    M, N, K = *c.shape, a.shape[1]
    split_kernel[(M // 64, N // 64, 16)](a, b, c, M, N, K, PART=K // 16, BM=64, BN=64, BK=64)
    return c


@triton.jit
def packed_kernel(a, b, scales, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Weights of 8 bits are widened in registers."""
    rows, columns = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for at in range(0, K, BK):
        left = tl.load(a + rows[:, None] * K + at + inner[None, :])
        right = tl.load(b + (at + inner[:, None]) * N + columns[None, :])
        total = tl.dot(left, right.to(left.dtype), total)
    total *= tl.load(scales + columns)[None, :]
    tl.store(c + rows[:, None] * N + columns[None, :], total)


# fuselight: matmul_of_packed_weights(bf16[2048, 4096], i8[4096, 4096], f32[4096])
def matmul_of_packed_weights(a, b, scales):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    packed_kernel[(M // 128, N // 128)](a, b, scales, c, M, N, K, 128, 128, 64, num_warps=8, num_stages=3)
    return c


@triton.jit
def chunks_kernel(q, k, v, out, T, D: tl.constexpr, BT: tl.constexpr):
    """Linear attention: one program a head, which goes from chunk to chunk with its state."""
    head = tl.program_id(0).to(tl.int64) * T * D
    rows, channels = tl.arange(0, BT), tl.arange(0, D)
    state = tl.zeros((D, D), tl.float32)
    for first in range(0, T, BT):
        at = head + (first + rows[:, None]) * D + channels[None, :]
        query, key, value = tl.load(q + at), tl.load(k + at), tl.load(v + at)
        score = tl.where(rows[:, None] >= rows[None, :], tl.dot(query, tl.trans(key)), 0.0)
        result = tl.dot(score.to(value.dtype), value) + tl.dot(query, state.to(query.dtype))
        state += tl.dot(tl.trans(key), value)
        tl.store(out + at, result)


# fuselight: linear_attention(bf16[64, 4096, 64], bf16[64, 4096, 64], bf16[64, 4096, 64])
def linear_attention(q, k, v):
    out = torch.empty_like(q)
    chunks_kernel[(q.shape[0],)](q, k, v, out, q.shape[1], D=64, BT=64, num_warps=4)
    return out


# fuselight: matmul_of_int8_columns(i8[4096, 4096], i8[4096, 4096].t())
def matmul_of_int8_columns(a, b):
    return matmul(a, b, (128, 128, 128), 8, 3)


# fuselight: matmul_of_tf32_columns(f32[4096, 4096], f32[4096, 4096].t())
def matmul_of_tf32_columns(a, b):
    return matmul(a, b, (128, 128, 32), 8, 3)


# fuselight: matmul_tall(bf16[16384, 1024], bf16[1024, 512])
def matmul_tall(a, b):
    return matmul(a, b, (128, 128, 64), 8, 3)


# fuselight: matmul_wide_tiles(f16[4096, 4096], f16[4096, 4096])
def matmul_wide_tiles(a, b):
    return matmul(a, b, (64, 256, 64), 4, 3)


# fuselight: matmul_two_warps(bf16[2048, 2048], bf16[2048, 2048])
def matmul_two_warps(a, b):
    return matmul(a, b, (64, 64, 32), 2, 4)


# fuselight: matmul_of_64_rows(bf16[64, 4096], bf16[4096, 11008])
def matmul_of_64_rows(a, b):
    return matmul(a, b, (64, 128, 64), 4, 4)


# fuselight: causal_attention_64(f16[96, 1024, 64], f16[96, 1024, 64], f16[96, 1024, 64])
def causal_attention_64(q, k, v):
    return attention(q, k, v, True, (64, 64), 4, 3)


# fuselight: experts_of_64_rows(bf16[4096, 1024], bf16[8, 1024, 4096])
def experts_of_64_rows(x, weights):
    return experts(x, weights, (64, 128, 64))


# fuselight: linear_attention_of_256_heads(f16[256, 1024, 64], f16[256, 1024, 64], f16[256, 1024, 64])
def linear_attention_of_256_heads(q, k, v):
    return linear_attention(q, k, v)


# fuselight: plain_matmul(f32[2048, 2048], f32[2048, 2048])
def plain_matmul(a, b):
    return right_kernels.matmul(a, b)


# fuselight: plain_attention(f16[32, 2048, 64], f16[32, 2048, 64], f16[32, 2048, 64])
def plain_attention(q, k, v):
    return right_kernels.attention(q, k, v)


def _product(a, b):
    return a.double() @ b.double()


def _attention(scale=None, causal=False):
    def attention_of(q, k, v):
        scores = q.float() @ k.float().transpose(1, 2) * (scale or q.shape[-1] ** -0.5)
        if causal:
            scores = scores.masked_fill(scores.new_ones(scores.shape[1:]).triu(1).bool(), -float("inf"))
        return scores.softmax(-1) @ v.float()

    return attention_of


def _linear_attention(q, k, v):
    return (q.float() @ k.float().transpose(1, 2)).tril() @ v.float()


def _experts(x, weights):
    return (x.view(weights.shape[0], -1, x.shape[1]).float() @ weights.float()).flatten(0, 1)


REFERENCES = {
    **dict.fromkeys(
        "matmul_small matmul_square matmul_large matmul_middle_tiles matmul_small_tiles matmul_one_stage matmul_tf32 "
        "matmul_float32 matmul_int8 matmul_of_144_tiles matmul_of_16_rows split_matmul plain_matmul "
        "matmul_of_int8_columns matmul_of_tf32_columns matmul_tall matmul_wide_tiles matmul_two_warps "
        "matmul_of_64_rows short_matmul".split(),
        _product,
    ),
    **dict.fromkeys(("attention_64", "attention_128", "short_attention"), _attention()),
    **dict.fromkeys(("causal_attention", "causal_attention_64"), _attention(causal=True)),
    "plain_attention": _attention(scale=1.0, causal=True),
    **dict.fromkeys(("linear_attention", "linear_attention_of_256_heads"), _linear_attention),
    **dict.fromkeys(("experts_of_many_rows", "experts_of_few_rows", "experts_of_64_rows"), _experts),
    "matmul_of_packed_weights": lambda a, b, scales: _product(a, b) * scales,
}


# fuselight: add(f32[16777216], f32[16777216])
def add(x, y):
    return right_kernels.add(x, y)


# fuselight: small_add(f32[65536], f32[65536])
def small_add(x, y):
    return right_kernels.add(x, y)


# fuselight: softmax(bf16[8192, 4096])
def softmax(x):
    return right_kernels.softmax(x)


# fuselight: rms_norm(bf16[16384, 4096], bf16[4096])
def rms_norm(x, weight):
    return right_kernels.rms_norm(x, weight)


# fuselight: gated(bf16[8192, 16384])
def gated(x):
    return right_kernels.gated(x)


# fuselight: rotary(bf16[8192, 32, 128], bf16[2048, 64], bf16[2048, 64])
def rotary(x, cos, sin):
    return right_kernels.rotary(x, cos, sin)


# fuselight: cross_entropy(f32[8192, 32000], i64[8192] % 32000)
def cross_entropy(logits, labels):
    return right_kernels.cross_entropy(logits, labels)


# fuselight: embedding(bf16[50000, 2048], i64[16384] % 50000)
def embedding(table, index):
    return right_kernels.embedding(table, index)


# fuselight: histogram(i64[4194304] % 16)
def histogram(values):
    return right_kernels.histogram(values)


# fuselight: cumulative_sum(f32[8192, 4096])
def cumulative_sum(x):
    return right_kernels.cumulative_sum(x)


# fuselight: transpose(f16[8192, 8192])
def transpose(x):
    return right_kernels.transpose(x)


# fuselight: dequantize(u8[8192, 8192], f32[8192, 512])
def dequantize(packed, scales):
    return right_kernels.dequantize(packed, scales)


# fuselight: causal_conv(f32[16384, 2048], f32[4, 2048])
def causal_conv(x, weight):
    return right_kernels.causal_conv(x, weight)


# fuselight: argmax(f32[262144, 128])
def argmax(x):
    return right_kernels.argmax(x)


# fuselight: softmax_of_short_rows(f32[131072, 256])
def softmax_of_short_rows(x):
    return right_kernels.softmax(x)


# fuselight: add_of_half(bf16[67108864], bf16[67108864])
def add_of_half(x, y):
    return right_kernels.add(x, y)


# fuselight: gated_small(bf16[512, 4096])
def gated_small(x):
    return right_kernels.gated(x)


# fuselight: short_matmul(bf16[256, 512], bf16[512, 256])
def short_matmul(a, b):
    return matmul(a, b, (64, 64, 64), 4, 3)


UNSEEN = (
    "matmul_of_int8_columns matmul_of_tf32_columns matmul_tall matmul_wide_tiles matmul_two_warps matmul_of_64_rows "
    "causal_attention_64 experts_of_64_rows linear_attention_of_256_heads softmax_of_short_rows add_of_half gated_small"
).split()
"""Calls that were written after the model of the estimate, and measured once."""
