"""Operators of flash-linear-attention, forward and backward."""

import torch.nn.functional as F
from fla.modules.norm.fused_norm_gate import rms_norm_gated
from fla.modules.norm.l2norm import l2norm
from fla.ops.delta_rule import chunk_delta_rule
from fla.ops.gated_delta_rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule
from fla.ops.gla import chunk_gla, fused_recurrent_gla
from fla.ops.hgrn import fused_recurrent_hgrn
from fla.ops.linear_attn import chunk_linear_attn
from fla.ops.retention import chunk_retention
from fla.ops.simple_gla import chunk_simple_gla


# fuselight: gated_delta_rule(f32[1, 96, 2, 32], f32[1, 96, 2, 32], f32[1, 96, 2, 32], f32[1, 96, 2], f32[1, 96, 2], train=True)
def gated_delta_rule(q, k, v, g, beta):
    return chunk_gated_delta_rule(q, F.normalize(k, dim=-1), v, F.logsigmoid(g), beta.sigmoid())[0]


# fuselight: recurrent_gated_delta_rule(f32[1, 20, 2, 32], f32[1, 20, 2, 32], f32[1, 20, 2, 32], f32[1, 20, 2], f32[1, 20, 2])
def recurrent_gated_delta_rule(q, k, v, g, beta):
    k = F.normalize(k, dim=-1)
    return fused_recurrent_gated_delta_rule(q, k, v, F.logsigmoid(g), beta=beta.sigmoid())[0]


# fuselight: delta_rule(bf16[1, 64, 2, 32], bf16[1, 64, 2, 32], bf16[1, 64, 2, 32], bf16[1, 64, 2], train=True)
def delta_rule(q, k, v, beta):
    return chunk_delta_rule(q, F.normalize(k, dim=-1), v, beta.sigmoid())[0]


# fuselight: gated_linear_attention(f32[1, 64, 1, 16], f32[1, 64, 1, 16], f32[1, 64, 1, 16], f32[1, 64, 1, 16], train=True)
def gated_linear_attention(q, k, v, g):
    return chunk_gla(q, k, v, F.logsigmoid(g))[0]


# fuselight: recurrent_gla(f32[1, 20, 2, 32], f32[1, 20, 2, 32], f32[1, 20, 2, 32], f32[1, 20, 2, 32], train=True)
def recurrent_gla(q, k, v, g):
    return fused_recurrent_gla(q, k, v, F.logsigmoid(g))[0]


# fuselight: retention(f32[1, 64, 2, 32], f32[1, 64, 2, 32], f32[1, 64, 2, 32], train=True)
def retention(q, k, v):
    return chunk_retention(q, k, v)[0]


# fuselight: simple_gated_attention(f32[1, 64, 2, 32], f32[1, 64, 2, 32], f32[1, 64, 2, 32], f32[1, 64, 2], train=True)
def simple_gated_attention(q, k, v, g):
    return chunk_simple_gla(q, k, v, F.logsigmoid(g))[0]


# fuselight: linear_attention(f32[1, 64, 2, 32], f32[1, 64, 2, 32], f32[1, 64, 2, 32], train=True)
def linear_attention(q, k, v):
    return chunk_linear_attn(q, k, v, normalize=False)[0]


# fuselight: hgrn(f32[1, 20, 64], f32[1, 20, 64], train=True)
def hgrn(x, g):
    return fused_recurrent_hgrn(x, F.logsigmoid(g))[0]


# fuselight: gated_norm(f32[1, 40, 64], f32[1, 40, 64], f32[64], train=True)
def gated_norm(x, gate, weight):
    return rms_norm_gated(x, gate, weight, None)


# fuselight: unit_norm(f32[40, 64], train=True)
def unit_norm(x):
    return l2norm(x)
