# truth: the program returns its buffer without a copy: earlier results change in eager mode, too
# stage: none
# seen: no difference beyond rounding
import torch


class Averaged(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("level", torch.zeros(4))

    def forward(self, x):
        self.level.mul_(0.5).add_(x)
        return self.level, (x - self.level).square().sum()


def main():
    compiled = torch.compile(Averaged())
    with torch.no_grad():
        return [compiled(torch.full((4,), float(at))) for at in range(1, 4)]


if __name__ == "__main__":
    print(main())
