# truth: a gradient hook in compiled code reads a global that changes before the backward
# stage: capture
# seen: result 1: eager 4, compiled 40
import torch

clip = {"limit": 10.0}


def loss(x):
    hidden = x * 4.0
    hidden.register_hook(lambda grad: grad.clamp(-clip["limit"], clip["limit"]))  # <-
    return (hidden * hidden).sum()


def main():
    clip["limit"] = 10.0
    x = torch.tensor([0.5, 2.0], requires_grad=True)
    value = torch.compile(loss)(x)
    clip["limit"] = 1.0
    value.backward()
    return value.detach(), x.grad


if __name__ == "__main__":
    print(main())
