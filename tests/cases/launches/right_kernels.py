"""Right kernels of many kinds: no finding of them is true. Some have a directive with sizes of production as well."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


# fuselight: add(f32[1000], f32[1000])
# fuselight: add(bf16[3000000001], bf16[3000000001])
def add(x, y):
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
    return out


@triton.jit
def softmax_kernel(x, out, stride, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + at, mask=at < N, other=-float("inf"))
    value = tl.exp(value.to(tl.float32) - tl.max(value, 0))
    tl.store(out + row * N + at, value / tl.sum(value, 0), mask=at < N)


# fuselight: softmax(f32[33, 100])
# fuselight: softmax(f32[32, 128][:, :100])
# fuselight: softmax(bf16[700000, 8000])
def softmax(x):
    out = torch.empty(x.shape, dtype=x.dtype)
    softmax_kernel[(x.shape[0],)](x, out, x.stride(0), x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


@triton.jit
def rms_norm_kernel(x, weight, out, rstd, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, N, BLOCK):
        at = first + tl.arange(0, BLOCK)
        value = tl.load(x + row * N + at, mask=at < N, other=0.0).to(tl.float32)
        total += value * value
    scale = 1 / tl.sqrt(tl.sum(total) / N + eps)
    tl.store(rstd + row, scale)
    for first in range(0, N, BLOCK):
        at = first + tl.arange(0, BLOCK)
        value = tl.load(x + row * N + at, mask=at < N, other=0.0).to(tl.float32)
        factor = tl.load(weight + at, mask=at < N, other=0.0).to(tl.float32)
        tl.store(out + row * N + at, value * scale * factor, mask=at < N)


# fuselight: rms_norm(f32[9, 300], f32[300])
# fuselight: rms_norm(bf16[600000, 5120], bf16[5120])
def rms_norm(x, weight):
    out, rstd = torch.empty_like(x), torch.empty(x.shape[0])
    rms_norm_kernel[(x.shape[0],)](x, weight, out, rstd, x.shape[1], 1e-6, BLOCK=128)
    return out, rstd


@triton.jit
def weight_gradient_kernel(dy, x, partial, locks, N, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < N
    part = tl.load(dy + row * N + at, mask=inside, other=0.0) * tl.load(
        x + row * N + at, mask=inside, other=0.0
    )
    group = row % GROUPS
    lock, count = locks + group, locks + GROUPS + group
    target = partial + group * N + at
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        part += tl.load(target, mask=inside)
    tl.store(target, part, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


# fuselight: weight_gradient(f32[20, 50], f32[20, 50])
def weight_gradient(dy, x):
    partial = torch.zeros(4, x.shape[1])
    locks = torch.zeros(8, dtype=torch.int32)
    weight_gradient_kernel[(x.shape[0],)](dy, x, partial, locks, x.shape[1], GROUPS=4, BLOCK=64)
    return partial.sum(0)


@triton.jit
def matmul_kernel(a, b, c, M, N, K, sam, sak, sbk, sbn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    left = a + rows[:, None].to(tl.int64) * sam + inner[None, :] * sak
    right = b + inner[:, None] * sbk + columns[None, :].to(tl.int64) * sbn
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(0, K, BK):
        x = tl.load(left, mask=(rows[:, None] < M) & (inner[None, :] + first < K), other=0.0)
        y = tl.load(right, mask=(inner[:, None] + first < K) & (columns[None, :] < N), other=0.0)
        total += tl.dot(x, y)
        left += BK * sak
        right += BK * sbk
    at = rows[:, None].to(tl.int64) * N + columns[None, :]
    tl.store(c + at, total, mask=(rows[:, None] < M) & (columns[None, :] < N))


# fuselight: matmul(f32[50, 70], f32[70, 30])
# fuselight: matmul(f32[50, 70], f32[30, 70].t())
# fuselight: matmul(f16[65536, 8192], f16[8192, 65536])
def matmul(a, b):
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    matmul_kernel[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), BM=32, BN=32, BK=32)
    return c


@triton.jit
def attention_kernel(q, k, v, out, T, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    head = tl.program_id(1).to(tl.int64) * T * D
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    channels = tl.arange(0, D)
    query = tl.load(q + head + rows[:, None] * D + channels[None, :], mask=rows[:, None] < T, other=0.0)
    best = tl.full((BM,), -float("inf"), tl.float32)
    norm = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for first in range(0, T, BN):
        columns = first + tl.arange(0, BN)
        at = head + columns[:, None] * D + channels[None, :]
        key = tl.load(k + at, mask=columns[:, None] < T, other=0.0)
        score = tl.dot(query, tl.trans(key))
        score = tl.where((columns[None, :] <= rows[:, None]) & (columns[None, :] < T), score, -float("inf"))
        peak = tl.maximum(best, tl.max(score, 1))
        weight = tl.exp(score - peak[:, None])
        old = tl.exp(best - peak)
        norm = norm * old + tl.sum(weight, 1)
        value = tl.load(v + at, mask=columns[:, None] < T, other=0.0)
        total = total * old[:, None] + tl.dot(weight.to(value.dtype), value)
        best = peak
    tl.store(
        out + head + rows[:, None] * D + channels[None, :], total / norm[:, None], mask=rows[:, None] < T
    )


# fuselight: attention(f32[2, 50, 32], f32[2, 50, 32], f32[2, 50, 32])
# fuselight: attention(f16[512, 100000, 128], f16[512, 100000, 128], f16[512, 100000, 128])
def attention(q, k, v):
    out = torch.empty_like(q)
    heads, T, D = q.shape
    attention_kernel[(triton.cdiv(T, 32), heads)](q, k, v, out, T, D=D, BM=32, BN=32)
    return out


@triton.jit
def dropout_kernel(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    keep = tl.rand(seed, at) > p
    tl.store(out + at, tl.where(keep, value / (1 - p), 0.0), mask=at < n)


# fuselight: dropout(f32[1000])
# fuselight: dropout(f32[300000000])
def dropout(x):
    out = torch.empty_like(x)
    dropout_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), 0.5, 123456789, BLOCK=1024)
    return out


@triton.jit
def silu(x):
    return x * tl.sigmoid(x)


@triton.jit
def gated_kernel(x, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    gate = tl.load(x + row * 2 * N + at, mask=at < N).to(tl.float32)
    value = tl.load(x + row * 2 * N + N + at, mask=at < N)
    tl.store(out + row * N + at, silu(gate).to(value.dtype) * value, mask=at < N)


# fuselight: gated(f32[7, 200])
# fuselight: gated(bf16[200000, 28672])
def gated(x):
    out = torch.empty(x.shape[0], x.shape[1] // 2, dtype=x.dtype)
    gated_kernel[(x.shape[0], triton.cdiv(out.shape[1], 256))](x, out, out.shape[1], BLOCK=256)
    return out


@triton.jit
def rotary_kernel(x, cos, sin, T, D: tl.constexpr):
    token = tl.program_id(0)
    head = tl.program_id(1)
    at = tl.arange(0, D // 2)
    first = x + (token.to(tl.int64) * tl.num_programs(1) + head) * D
    c, s = tl.load(cos + (token % T) * (D // 2) + at), tl.load(sin + (token % T) * (D // 2) + at)
    left, right = tl.load(first + at), tl.load(first + D // 2 + at)
    tl.store(first + at, left * c - right * s)
    tl.store(first + D // 2 + at, right * c + left * s)


# fuselight: rotary(f32[10, 4, 32], f32[10, 16], f32[10, 16])
# fuselight: rotary(bf16[1000000, 32, 128], bf16[8192, 64], bf16[8192, 64])
def rotary(x, cos, sin):
    x = x.clone()
    rotary_kernel[(x.shape[0], x.shape[1])](x, cos, sin, cos.shape[0], D=x.shape[2])
    return x


@triton.jit
def cross_entropy_kernel(logits, labels, losses, V, ignored, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(labels + row)
    first = logits + row * V
    if label == ignored:
        tl.store(losses + row, 0.0)
        return
    at = tl.arange(0, BLOCK)
    value = tl.load(first + at, mask=at < V, other=-float("inf"))
    peak = tl.max(value, 0)
    log_sum = peak + tl.log(tl.sum(tl.exp(value - peak), 0))
    tl.store(losses + row, log_sum - tl.load(first + label))


# fuselight: cross_entropy(f32[12, 100], i64[12] % 100)
# fuselight: cross_entropy(f32[65536, 128256], i64[65536] % 128256)
def cross_entropy(logits, labels):
    losses = torch.empty(logits.shape[0])
    block = triton.next_power_of_2(logits.shape[1])
    cross_entropy_kernel[(logits.shape[0],)](logits, labels, losses, logits.shape[1], -100, BLOCK=block)
    return losses.mean()


@triton.jit
def embedding_kernel(table, index, out, H, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    row = tl.load(index + token)
    at = tl.arange(0, BLOCK)
    tl.store(out + token * H + at, tl.load(table + row * H + at, mask=at < H), mask=at < H)


# fuselight: embedding(f32[50, 30], i64[20] % 50)
# fuselight: embedding(bf16[128256, 8192], i64[1000000] % 128256)
def embedding(table, index):
    out = torch.empty(index.numel(), table.shape[1], dtype=table.dtype)
    block = triton.next_power_of_2(table.shape[1])
    embedding_kernel[(index.numel(),)](table, index, out, table.shape[1], BLOCK=block)
    return out


@triton.jit
def histogram_kernel(values, counts, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(values + at, mask=at < n, other=0)
    tl.atomic_add(counts + value, 1, mask=at < n)


# fuselight: histogram(i64[1000] % 16)
def histogram(values):
    counts = torch.zeros(16, dtype=torch.int32)
    histogram_kernel[(triton.cdiv(values.numel(), 128),)](values, counts, values.numel(), BLOCK=128)
    return counts


@triton.jit
def cumsum_kernel(x, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    carry = 0.0
    for first in range(0, N, BLOCK):
        at = first + tl.arange(0, BLOCK)
        value = tl.load(x + row * N + at, mask=at < N, other=0.0)
        tl.store(out + row * N + at, tl.cumsum(value, 0) + carry, mask=at < N)
        carry += tl.sum(value)


# fuselight: cumulative_sum(f32[5, 300])
def cumulative_sum(x):
    out = torch.empty_like(x)
    cumsum_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=64)
    return out


@triton.jit
def transpose_kernel(x, out, M, N, BLOCK: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tile = tl.load(x + rows[:, None] * N + columns[None, :], mask=inside)
    tl.store(out + columns[:, None] * M + rows[None, :], tl.trans(tile), mask=tl.trans(inside))


# fuselight: transpose(f32[70, 50])
# fuselight: transpose(f16[100000, 50000])
def transpose(x):
    M, N = x.shape
    out = torch.empty(N, M, dtype=x.dtype)
    transpose_kernel[(triton.cdiv(M, 32), triton.cdiv(N, 32))](x, out, M, N, BLOCK=32)
    return out


@triton.jit
def dequantize_kernel(packed, scales, out, N, GROUP: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    group = tl.program_id(1)
    at = group * GROUP + tl.arange(0, GROUP)
    byte = tl.load(packed + row * (N // 2) + at // 2, mask=at < N, other=0)
    value = ((byte >> ((at % 2) * 4).to(tl.uint8)) & 0xF).to(tl.float32) - 8
    scale = tl.load(scales + row * tl.num_programs(1) + group)
    tl.store(out + row * N + at, value * scale, mask=at < N)


# fuselight: dequantize(u8[6, 64], f32[6, 4])
# fuselight: dequantize(u8[100000, 16384], f32[100000, 1024])
def dequantize(packed, scales):
    rows, N = packed.shape[0], packed.shape[1] * 2
    out = torch.empty(rows, N)
    dequantize_kernel[(rows, scales.shape[1])](packed, scales, out, N, GROUP=N // scales.shape[1])
    return out


@triton.jit
def split_dot_kernel(a, b, out, K, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(a + row * K + at, mask=at < K, other=0.0)
    tl.atomic_add(out + row, tl.sum(left * tl.load(b + at, mask=at < K, other=0.0)))


# fuselight: split_dot(f32[8, 500], f32[500])
def split_dot(a, b):
    out = torch.zeros(a.shape[0])
    split_dot_kernel[(a.shape[0], triton.cdiv(a.shape[1], 128))](a, b, out, a.shape[1], BLOCK=128)
    return out


@triton.jit
def last_program_kernel(x, partial, counter, out, n, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    at = program * BLOCK + tl.arange(0, BLOCK)
    tl.store(partial + program, tl.sum(tl.load(x + at, mask=at < n, other=0.0)))
    if tl.atomic_add(counter, 1) == PROGRAMS - 1:
        tl.store(out, tl.sum(tl.load(partial + tl.arange(0, PROGRAMS))))


# fuselight: sum_by_last_program(f32[1000])
def sum_by_last_program(x):
    partial, out = torch.empty(8), torch.empty(1)
    counter = torch.zeros(1, dtype=torch.int32)
    last_program_kernel[(8,)](x, partial, counter, out, x.numel(), PROGRAMS=8, BLOCK=128)
    return out


@triton.jit
def causal_conv_kernel(x, weight, out, T, C, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for tap in tl.static_range(WIDTH):
        source = token - WIDTH + 1 + tap
        value = tl.load(x + source * C + at, mask=(at < C) & (source >= 0), other=0.0)
        total += value * tl.load(weight + tap * C + at, mask=at < C, other=0.0)
    tl.store(out + token * C + at, total, mask=at < C)


# fuselight: causal_conv(f32[20, 70], f32[4, 70])
def causal_conv(x, weight):
    out = torch.empty_like(x)
    grid = (x.shape[0], triton.cdiv(x.shape[1], 64))
    causal_conv_kernel[grid](x, weight, out, x.shape[0], x.shape[1], WIDTH=weight.shape[0], BLOCK=64)
    return out


@triton.jit
def argmax_kernel(x, values, places, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * N + at, mask=at < N, other=-float("inf"))
    tl.store(values + row, tl.max(value, 0))
    tl.store(places + row, tl.argmax(value, 0))


# fuselight: argmax(f32[9, 100])
def argmax(x):
    values, places = torch.empty(x.shape[0]), torch.empty(x.shape[0], dtype=torch.int64)
    argmax_kernel[(x.shape[0],)](x, values, places, x.shape[1], BLOCK=128)
    return values, places


@triton.jit
def clamped_copy_kernel(x, out, n, BLOCK: tl.constexpr):
    first = tl.minimum(tl.program_id(0) * BLOCK, n - BLOCK)
    at = first + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at) * 2)


# fuselight: clamped_copy(f32[1000])
def clamped_copy(x):
    out = torch.empty_like(x)
    clamped_copy_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out


@triton.jit
def by_block_pointer_kernel(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_block_ptr(x, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    target = tl.make_block_ptr(out, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    for _ in range(0, N, BN):
        value = tl.load(source, boundary_check=(0, 1), padding_option="zero")
        tl.store(target, value + 1, boundary_check=(0, 1))
        source = tl.advance(source, (0, BN))
        target = tl.advance(target, (0, BN))


# fuselight: by_block_pointers(f32[30, 100])
# fuselight: by_block_pointers(f16[1000000, 5000])
def by_block_pointers(x):
    out = torch.empty_like(x)
    M, N = x.shape
    by_block_pointer_kernel[(triton.cdiv(M, 16),)](x, out, M, N, BM=16, BN=32)
    return out


tuned_add_kernel = triton.autotune(
    [triton.Config({"BLOCK": 256}, num_warps=4), triton.Config({"BLOCK": 1024}, num_warps=8)], key=[]
)(add_kernel)


# fuselight: tuned_add(f32[1000], f32[1000])
def tuned_add(x, y):
    out = torch.empty_like(x)
    tuned_add_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, out, x.numel())
    return out
