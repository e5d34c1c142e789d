"""Directives that do not fit the layers that they reach: the directive is named, not the correct line."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class Sizes:
    width: int = 12
    kinds: int = 20


class Stem(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.patches = nn.Conv2d(3, sizes.width, 4, 4)

    def forward(self, pictures):
        return self.patches(pictures)


# fuselight: Backbone(Sizes())(f32[2, 8])
# error: [FL501] "the call passes f32[2, 8], but `conv2d` needs 4 dimensions"
# fuselight: Backbone(Sizes())(f32[2, 5, 16, 16])
# error: [FL501] "the call passes f32[2, 5, 16, 16], but `conv2d` needs 3 channels in dimension 1"
# fuselight: Backbone(7)(f32[2, 3, 16, 16])
# error: [FL501] "the call passes 7 for `sizes`, which has no attribute `width`"
class Backbone(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.stem = Stem(sizes)

    def forward(self, pictures):
        return self.stem(pictures / 255).mean((2, 3))


# fuselight: Words(20)(f32[2, 8])
# error: [FL501] "the call passes f32[2, 8], but `embedding` needs whole numbers, such as i64"
# fuselight: Words(20)(i64[2, 8] % 5000)
# error: [FL501] "the call passes i64[2, 8], but `embedding` needs numbers from 0 to 19"
class Words(nn.Module):
    def __init__(self, kinds):
        super().__init__()
        self.table = nn.Embedding(kinds, 6)

    def forward(self, words):
        return self.table(words)


# fuselight: Series()(f32[4])
# error: [FL501] "the call passes f32[4], and `LSTM` raises ValueError"
class Series(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTM(10, 4)

    def forward(self, steps):  # info(2.11, 2.13, 2.14): [FL101] "is not compiled"
        return self.cell(steps)[0]
        # warning(2.11, 2.13, 2.14): [GB0014] "LSTM"
        # warning(2.15): [GB0148] "graph break: RNN, GRU and LSTM modules are not traced"


# fuselight: unpacks(f32[4, 4])
# error: [FL501] "the call passes f32[4, 4], and the code raises ValueError: not enough values to unpack (expected 4, got 2)"
def unpacks(pictures):
    count, channels, height, width = pictures.shape
    return pictures.reshape(count, channels * height * width)


# fuselight: too_long(f32[2, 300])
# error: [FL501] "the call passes f32[2, 300], and the code raises AssertionError: 300 steps, of 128"
def too_long(steps):
    assert steps.shape[1] <= 128, f"{steps.shape[1]} steps, of 128"
    return steps * 2


# fuselight: flattened(f32[2, 3, 4], f32[5, 8])
# error: [FL501] "the call passes f32[2, 3, 4] and f32[5, 8] (f32[2, 12] here), but `linear` needs 8 in the last dimension"
def flattened(x, weight):
    return F.linear(x.flatten(1), weight)


# fuselight: wrong_between_layers()(f32[2, 8])
class wrong_between_layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(32, 16)

    def forward(self, x):
        return self.second(self.first(x))
        # error: [FL401] "RuntimeError"


# fuselight: wrong_type_in_the_code(f32[4])
def wrong_type_in_the_code(x):
    return torch.add(x, [1, 2])
    # error: [FL401] "must be Tensor"
    # warning: [GB0112] "does not match"
