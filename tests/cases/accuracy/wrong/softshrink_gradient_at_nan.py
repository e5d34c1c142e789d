# truth: the gradient of softshrink at a NaN is 0 instead of the incoming gradient
# stage: functionalization
# seen: result 0: eager 1, compiled 0
import torch


def denoise(x):
    return torch.nn.functional.softshrink(x).sum()  # <-


def main():
    x = torch.tensor([2.0, float("nan"), -3.0, 0.1], requires_grad=True)
    value = torch.compile(denoise)(x)
    value.backward()
    return x.grad


if __name__ == "__main__":
    print(main())
