"""A wrapper of torch or of a library is shown with the name and docstring of the wrapped function."""

import torch
from torch import nn


# fuselight: stack(f32[4, 8])
# fuselight: stack(f32[5, 8])
stack = nn.Sequential(nn.Linear(8, 8), nn.ReLU())  # warning: [FL201] "`Sequential` was compiled again"


# fuselight: compiled(f32[4, 8])
# fuselight: compiled(f32[5, 8])
compiled = torch.compile(nn.Linear(8, 8))  # warning: [FL201] "recompiled: input.size(0) was 4, now 5"


class Talks(nn.Module):
    def forward(self, x):
        print("in between")  # warning: [GB0059] "this line runs in eager"
        return x * 2


# fuselight: talking(f32[4, 8])
talking = nn.Sequential(nn.Linear(8, 8), Talks())
