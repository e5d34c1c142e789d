# truth: right: memory that nobody wrote is overwritten before it is read
# stage: none
# seen: equal
import torch


def staged(x):
    work = torch.empty(2, *x.shape)
    work[0] = x.sin()
    work[1] = x.cos()
    spare = torch.empty_like(x)
    torch.add(x, 1, out=spare)
    return (work.square().sum(0) - 1).abs() < 1e-3, spare


def main():
    return torch.compile(staged)(torch.linspace(-3, 3, 64))


if __name__ == "__main__":
    print(main())
