"""A video decoder works on slices of its input if the input is large, with a memory between them."""
import torch
from torch import nn


class CausalConv(nn.Module):
    def __init__(self, channels=4, kernel=3):
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, kernel)
        self.keep = kernel - 1
        self.memory = None

    def forward(self, x, memory_state="disabled"):
        if memory_state != "active" or self.memory is None:
            past = x.new_zeros(x.size(0), x.size(1), self.keep)
        else:
            past = self.memory
        joined = torch.cat((past, x), dim=-1)
        if memory_state != "disabled":
            self.memory = joined[..., -self.keep :].detach()
        return self.conv(joined)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv_in = CausalConv()
        self.limit = 10

    def forward(self, x):
        if x.size(-1) <= self.limit:  # info: [FL201] "recompiled: x.size(2) was 8, now 24"
            return self.conv_in(x)
        parts = list(x.split(self.limit, dim=-1))
        for i, part in enumerate(parts):
            parts[i] = self.conv_in(part, memory_state="initializing" if i == 0 else "active")
        out = torch.cat(parts, dim=-1)
        if out.abs().max() > 1e4:  # warning: [GB0170] "graph break: a branch depends on the data of a tensor"
            raise OverflowError("decoder output is not finite")
        return out


if __name__ == "__main__":
    decoder = torch.compile(Decoder().eval())
    with torch.no_grad():
        decoder(torch.randn(1, 4, 8))
        decoder(torch.randn(1, 4, 24))
        decoder(torch.randn(1, 4, 24))
# run by: make corpora
