# truth: the logarithm of a probability that underflows: infinite in float32 in both modes, finite in float64
# stage: none
# seen: no difference beyond rounding
import torch


def surprise(logits, target):
    probability = torch.softmax(logits, -1).gather(-1, target[:, None]).squeeze(-1)
    entropy = -(probability.log())
    return entropy, entropy.clamp_max(100.0).mean()


def main():
    logits = torch.tensor([[0.0, 120.0, 3.0], [4.0, 4.0, 4.0], [300.0, 0.0, -300.0]], requires_grad=True)
    values, mean = torch.compile(surprise)(logits, torch.tensor([0, 1, 2]))
    mean.backward()
    return values.detach(), mean.detach(), logits.grad


if __name__ == "__main__":
    print(main())
