# truth: a function in the graph (allow_in_graph) reads a global while it is traced; later values are ignored
# stage: functionalization
# seen: result 1: eager 11, compiled 5
import torch

calibration = {"scale": 2.0}


@torch.compiler.allow_in_graph
def calibrated(x):
    return x * calibration["scale"]


def measure(x):
    return calibrated(x) + 1.0  # <-


def main():
    calibration["scale"] = 2.0
    compiled = torch.compile(measure)
    x = torch.tensor([1.0, 2.0])
    first = compiled(x)
    calibration["scale"] = 5.0
    return first, compiled(x)


if __name__ == "__main__":
    print(main())
