"""Operators of Conch, forward."""

from conch.ops.activation.gelu_tanh_and_mul import gelu_tanh_and_mul
from conch.ops.activation.silu_and_mul import silu_and_mul
from conch.ops.normalization.gemma_rms_norm import gemma_rms_norm
from conch.ops.normalization.rms_norm import fused_add_rms_norm, rms_norm


# fuselight: gelu(f32[8, 200])
def gelu(x):
    return gelu_tanh_and_mul(x)


# fuselight: silu(f32[8, 200])
def silu(x):
    return silu_and_mul(x)


# fuselight: norm(f32[8, 200], f32[200])
def norm(x, weight):
    return rms_norm(x, weight, 1e-6)


# fuselight: gemma_norm(f32[8, 200], f32[200])
def gemma_norm(x, weight):
    return gemma_rms_norm(x, weight, 1e-6)


# fuselight: added_norm(f32[8, 200], f32[8, 200], f32[200])
def added_norm(x, residual, weight):
    return fused_add_rms_norm(x * 1, residual * 1, weight, 1e-6)
