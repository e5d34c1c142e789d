# truth: a schedule changes between forward and backward, and the backward does not read it
# stage: none
# seen: no difference beyond rounding
import torch

schedule = {"rate": 1.0}


def loss(weight, x):
    rate = schedule["rate"]
    return ((x @ weight).tanh() * rate).square().sum()


def main():
    schedule["rate"] = 1.0
    compiled = torch.compile(loss)
    weight = torch.linspace(-1, 1, 4).requires_grad_()
    for _ in range(3):
        value = compiled(weight, torch.linspace(0, 1, 8).reshape(2, 4))
        schedule["rate"] *= 0.5
        value.backward()
        with torch.no_grad():
            weight -= 0.1 * weight.grad
        weight.grad = None
    return weight.detach()


if __name__ == "__main__":
    print(main())
