import torch
import torch.nn.functional as F
from torch import nn


class Filter(nn.Module):
    def __init__(self, channels=4, stride=1, circular=False, power=1, keep=True):
        super().__init__()
        self.stride, self.circular, self.power, self.keep = stride, circular, power, keep
        self.kernel = nn.Parameter(torch.randn(channels, 1, 3))

    def forward(self, x, training_only=False):
        if training_only and not self.training:
            return x
        y = F.pad(x, (1, 1), mode="circular" if self.circular else "constant")
        y = F.conv1d(y, self.kernel, stride=self.stride, groups=self.kernel.shape[0])
        y = y.abs() ** self.power * y.sign()
        if not self.keep:
            y = y - y.mean(-1, keepdim=True)
        return y


# fuselight: Filter()(f32[2, 4, 10])
