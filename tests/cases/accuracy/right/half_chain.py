# truth: a chain in float16 keeps its middle values in float32 when compiled (largest error 0.0038 against 0.0094)
# stage: none
# seen: no difference beyond rounding
import torch


def curve(x):
    return ((x * 1.7 + 0.1) * x - 0.33) * x + 1.0


def main():
    return torch.compile(curve)(torch.linspace(-2, 2, 64, dtype=torch.float16))


if __name__ == "__main__":
    print(main())
