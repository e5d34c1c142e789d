# truth: fused code rounds to bfloat16 once, eager after each operator; compiled is closer to float64 (largest error 0.061 against 0.111)
# stage: none
# seen: no difference beyond rounding
import torch


def block(x, gate):
    return torch.nn.functional.silu(gate * 1.3) * x + x / 3.0


def main():
    x = torch.linspace(-4, 4, 64, dtype=torch.bfloat16)
    return torch.compile(block)(x, x.flip(0))


if __name__ == "__main__":
    print(main())
