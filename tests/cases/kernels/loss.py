"""A loss over many classes: a reduction in forward, and its tensors saved for backward."""

import torch
from torch import nn
from torch.nn import functional as F


# fuselight: Head()(f32[64, 32], i64[64] % 1000, train=True)
class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(32, 1000)

    def forward(self, x, target):
        logits = self.out(x)
        # backward: extern_kernels.mm
        # backward: triton_per_fused_sum
        # kernel: extern_kernels.addmm
        # saves: float32[64, 1000]
        return F.cross_entropy(logits, target)
        # backward(2.13): triton_per_fused__log_softmax__log_softmax_backward_data_arange_eq_expand_nll_loss_backward_nll_loss_forward_scalar_tensor_view
        # backward(2.11): triton_per_fused__log_softmax__log_softmax_backward_data_arange_eq_expand_nll_loss_backward_nll_loss_forward_scalar_tensor_view_where
        # backward(2.14, 2.15): triton_per_fused__log_softmax__log_softmax_backward_data_arange_eq_expand_nll_loss_backward_scalar_tensor_view
        # kernel(2.13, 2.14, 2.15): triton_per_fused__log_softmax_nll_loss_forward
        # kernel(2.11): triton_per_fused__log_softmax_nll_loss_forward_sub
        # kernel: triton_per_fused__log_softmax_prepare_softmax_online
        # saves: float32[64, 1] x 2
        # saves: float32[]
        # unfused: -1 they share no data: fusing them would save no memory traffic
        # unfused: -7 both reduce, but over tensors of different sizes
        # unfused: -7 they share no data: fusing them would save no memory traffic
        # unfused: 0 both reduce, but over tensors of different sizes
