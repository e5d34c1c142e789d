"""The drop probability of a block grows linearly during training."""
import torch
from torch import nn


class DropBlock(nn.Module):
    def __init__(self, drop_prob=0.0, block_size=3):
        super().__init__()
        self.drop_prob = drop_prob
        self.block_size = block_size

    def forward(self, x):
        if not self.training or self.drop_prob == 0.0:
        # warning: [FL201] "recompiled: self.drop.drop_prob was 0.0, now 0.05"
            return x
        gamma = self.drop_prob / self.block_size**2
        mask = (torch.rand(x.shape[0], *x.shape[2:]) < gamma).float()
        mask = nn.functional.max_pool2d(mask[:, None], self.block_size, 1, self.block_size // 2)
        keep = 1 - mask
        return x * keep * keep.numel() / keep.sum()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.drop = DropBlock()

    def forward(self, x):
        return self.drop(self.conv(x)).mean(dim=(2, 3))


if __name__ == "__main__":
    torch.manual_seed(0)
    net = Net()
    compiled = torch.compile(net, backend="aot_eager")
    for step in range(6):
        net.drop.drop_prob = 0.05 * step
        compiled(torch.randn(2, 3, 8, 8)).sum().backward()
# run by: make corpora
