# truth: a buffer counts the calls; each call starts from another state, and the results differ from call to call
# stage: none
# seen: no difference beyond rounding
import torch


class Warmup(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        return x * (self.calls / 4).clamp(max=1.0)


def main():
    model = Warmup()
    compiled = torch.compile(model)
    return [compiled(torch.ones(3)) for _ in range(5)], model.calls


if __name__ == "__main__":
    print(main())
