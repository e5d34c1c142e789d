# truth: a layer that draws its noise and drops units: other numbers of the same distribution
# stage: none
# seen: other random numbers
import torch


class Noisy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(32, 32)
        self.drop = torch.nn.Dropout(0.25)

    def forward(self, x):
        x = self.drop(self.layer(x).relu())
        return x + 0.1 * torch.randn_like(x)


def main():
    torch.manual_seed(0)
    module = Noisy()
    out = torch.compile(module)(torch.randn(16, 32))
    out.sum().backward()
    return out, module.layer.weight.grad


if __name__ == "__main__":
    print(main())
