# truth: a stateful module with a Python list, a counter and a buffer that grows: all are as in eager mode
# stage: none
# seen: no difference beyond rounding
import torch


class Beam(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.history = []
        self.calls = 0
        self.register_buffer("seen", torch.zeros(0))

    def forward(self, x):
        self.calls += 1
        self.history.append(x.mean())
        self.seen = torch.cat([self.seen, x[:1]])
        return x * self.calls + torch.stack(self.history).sum()


def main():
    beam = Beam()
    compiled = torch.compile(beam)
    return [compiled(torch.arange(4.0) + i) for i in range(4)], beam.seen, beam.calls


if __name__ == "__main__":
    print(main())
