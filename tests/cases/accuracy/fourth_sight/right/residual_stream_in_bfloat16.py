# truth: a deep residual chain in bfloat16 drifts by rounding: compiled code is closer to float64
# stage: none
# seen: no difference beyond rounding
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def main():
    torch.manual_seed(0)
    model = nn.Sequential(*[Block(64) for _ in range(6)]).bfloat16()
    x = torch.randn(8, 64, dtype=torch.bfloat16)
    out = torch.compile(model)(x)
    out.float().pow(2).mean().backward()
    return out, model[0].up.weight.grad


if __name__ == "__main__":
    print(main())
