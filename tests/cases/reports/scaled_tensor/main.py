# pytorch/pytorch#176679: a tensor subclass whose __torch_function__ scales additions
import torch


class ScaledTensor(torch.Tensor):
    @staticmethod
    def __new__(cls, data):
        return torch.Tensor._make_subclass(cls, data)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        out = super().__torch_function__(func, types, args, kwargs or {})
        # error: [FL401] "TypeError: Multiple dispatch failed for 'torch._ops.aten.mul.Tensor'"
        if isinstance(out, torch.Tensor) and func is torch.add:
            return out * 2.0
        return out


def residual(x, y):
    return torch.add(torch.mul(x, 3.0), y)


if __name__ == "__main__":
    torch.manual_seed(0)
    x, y = ScaledTensor(torch.randn(4)), ScaledTensor(torch.randn(4))
    compiled = torch.compile(residual, backend="aot_eager")
    print(residual(x, y))
    print(compiled(x, y))
    print(compiled(torch.Tensor(x), torch.Tensor(y)))
