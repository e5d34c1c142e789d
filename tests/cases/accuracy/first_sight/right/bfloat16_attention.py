# truth: attention in bfloat16: compiled code keeps more digits between its operators than eager mode
# stage: none
# seen: no difference beyond rounding
import torch


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inward, self.outward = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)

    def forward(self, x):
        query, key, value = self.inward(x).chunk(3, dim=-1)
        scores = query @ key.transpose(-1, -2) / 32**0.5
        causal = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).tril()
        weights = scores.masked_fill(~causal, float("-inf")).softmax(-1)
        return self.outward(weights @ value)


def main():
    model = Attention().to(torch.bfloat16)
    x = torch.linspace(-3, 3, 2 * 16 * 32).cos().reshape(2, 16, 32).to(torch.bfloat16)
    value = torch.compile(model)(x)
    value.float().square().mean().backward()
    return value.detach(), model.inward.weight.grad


if __name__ == "__main__":
    print(main())
