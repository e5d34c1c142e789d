# truth: a nested region reads a global that its caller replaces; the second and third call reuse the first graph's value
# stage: capture
# seen: result 0: eager 15, compiled 3
import torch


class Carry:
    total = torch.zeros(3)


carry = Carry()


@torch.compiler.nested_compile_region
def doubled():
    return carry.total * 2.0 + 1.0  # <-


def run(x):
    global carry
    for _ in range(3):
        carry = Carry()
        carry.total = x
        x = doubled()
    return x


def main():
    global carry
    carry = Carry()
    return torch.compile(run)(torch.ones(3))


if __name__ == "__main__":
    print(main())
