"""Operators of Liger Kernel, forward and backward."""

from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction
from liger_kernel.ops.dyt import LigerDyTFunction
from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction
from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction
from liger_kernel.ops.geglu import LigerGELUMulFunction
from liger_kernel.ops.group_norm import LigerGroupNormFunction
from liger_kernel.ops.jsd import LigerJSDFunction
from liger_kernel.ops.kl_div import LigerKLDivLossFunction
from liger_kernel.ops.layer_norm import LigerLayerNormFunction
from liger_kernel.ops.multi_token_attention import LigerMultiTokenAttentionFunction
from liger_kernel.ops.poly_norm import LigerPolyNormFunction
from liger_kernel.ops.relu_squared import LigerReLUSquaredFunction
from liger_kernel.ops.rms_norm import LigerRMSNormFunction
from liger_kernel.ops.rope import LigerRopeFunction
from liger_kernel.ops.softmax import LigerSoftmaxFunction
from liger_kernel.ops.sparsemax import LigerSparsemaxFunction
from liger_kernel.ops.swiglu import LigerSiLUMulFunction
from liger_kernel.ops.tvd import LigerTVDLossFunction


# fuselight: rms_norm(f32[8, 256], f32[256], train=True)
def rms_norm(x, weight):
    return LigerRMSNormFunction.apply(x, weight, 1e-6)


# fuselight: layer_norm(f32[8, 256], f32[256], f32[256], train=True)
def layer_norm(x, weight, bias):
    return LigerLayerNormFunction.apply(x, weight, bias, 1e-6)


# fuselight: group_norm(f32[4, 8, 32], f32[8], f32[8], train=True)
def group_norm(x, weight, bias):
    return LigerGroupNormFunction.apply(x, weight, bias, 8, 2, 1e-6)


# fuselight: swiglu(f32[8, 300], f32[8, 300], train=True)
def swiglu(gate, value):
    return LigerSiLUMulFunction.apply(gate, value)


# fuselight: geglu(f32[8, 300], f32[8, 300], train=True)
def geglu(gate, value):
    return LigerGELUMulFunction.apply(gate, value)


# fuselight: softmax(f32[8, 100], train=True)
def softmax(x):
    return LigerSoftmaxFunction.apply(x)


# fuselight: sparsemax(f32[8, 100], train=True)
def sparsemax(x):
    return LigerSparsemaxFunction.apply(x, -1)


# fuselight: dynamic_tanh(f32[8, 100], f32[1], f32[100], f32[100])
def dynamic_tanh(x, alpha, gamma, beta):
    return LigerDyTFunction.apply(x, alpha, gamma, beta)


# fuselight: poly_norm(f32[8, 100], f32[3], f32[], train=True)
def poly_norm(x, weight, bias):
    return LigerPolyNormFunction.apply(x, weight, bias)


# fuselight: relu_squared(f32[8, 100], train=True)
def relu_squared(x):
    return LigerReLUSquaredFunction.apply(x)


# fuselight: fused_add_rms_norm(f32[8, 256], f32[8, 256], f32[256], train=True)
def fused_add_rms_norm(x, residual, weight):
    return LigerFusedAddRMSNormFunction.apply(x, residual, weight, 1e-6)


# fuselight: cross_entropy(f32[8, 500], i64[8] % 500, train=True)
def cross_entropy(logits, labels):
    return LigerCrossEntropyFunction.apply(logits, labels, None)[0]


# fuselight: fused_linear_cross_entropy(f32[8, 64], f32[200, 64], i64[8] % 200, train=True)
def fused_linear_cross_entropy(x, weight, labels):
    return LigerFusedLinearCrossEntropyFunction.apply(x, weight, labels)[0]


# fuselight: divergence(f32[8, 100], f32[8, 100], train=True)
def divergence(x, target):
    return LigerKLDivLossFunction.apply(x.log_softmax(-1), target.softmax(-1))


# fuselight: jensen_shannon(f32[8, 100], f32[8, 100], train=True)
def jensen_shannon(x, target):
    return LigerJSDFunction.apply(x.log_softmax(-1), target.log_softmax(-1))


# fuselight: total_variation(f32[8, 100], f32[8, 100], train=True)
def total_variation(x, target):
    return LigerTVDLossFunction.apply(x.softmax(-1), target.softmax(-1))


# fuselight: multi_token_attention(f32[2, 4, 16, 16], f32[4, 4, 3, 3], train=True)
def multi_token_attention(scores, weight):
    return LigerMultiTokenAttentionFunction.apply(scores, weight, None, 1, 1)


# fuselight: rotary(f32[2, 4, 16, 32], f32[2, 4, 16, 32], f32[1, 16, 32], f32[1, 16, 32], train=True)
def rotary(q, k, cos, sin):
    return LigerRopeFunction.apply(q * 1, k * 1, cos.detach(), sin.detach())
