import torch
from torch import nn


class ResBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, padding=1)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x):  # warning: [FL102] "`ResBlock.forward` is no longer compiled: it reached the recompile limit"
        return self.skip(x) + torch.relu(self.conv(x))
        # info: [FL201] "recompiled: x.size(1) was 4, now 8"


class UNet(nn.Module):
    def __init__(self, widths=(4, 8, 12, 16, 20, 24)):
        super().__init__()
        self.stem = nn.Conv2d(3, widths[0], 3, padding=1)
        pairs = list(zip(widths, widths[1:]))
        self.down = nn.ModuleList(ResBlock(a, b) for a, b in pairs)
        self.up = nn.ModuleList(ResBlock(b, a) for a, b in reversed(pairs))
        self.head = nn.Conv2d(widths[0], 3, 1)

    def forward(self, x):
        h = self.stem(x)
        for block in self.down:
            h = block(h)
        for block in self.up:
            h = block(h)
        return self.head(h)
