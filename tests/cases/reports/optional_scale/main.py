# pytorch/pytorch#129601: a wrapper subclass whose inner scale is optional
import torch


class OptionalScaled(torch.Tensor):
    @staticmethod
    def __new__(cls, data, scale, *, constant=0):
        return torch.Tensor._make_wrapper_subclass(
            cls, data.size(), strides=data.stride(), dtype=data.dtype, device=data.device
        )

    def __init__(self, data, scale, *, constant=0):
        self._data, self._scale, self.constant = data, scale, constant

    def __tensor_flatten__(self):
        names = ["_data"] if self._scale is None else ["_data", "_scale"]
        return names, self.constant

    @staticmethod
    def __tensor_unflatten__(inner, constant, size, stride):
        return OptionalScaled(inner["_data"], inner.get("_scale"), constant=constant)

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        def plain(value):
            if not isinstance(value, OptionalScaled):
                return value
            data = value._data + value.constant
            return data if value._scale is None else data * value._scale

        return func(*(plain(arg) for arg in args), **(kwargs or {}))


@torch.compile(backend="aot_eager")
def project(x, weight):
    return torch.mm(x, weight).relu()
    # warning: [FL201] "recompiled: the metadata that weight.__tensor_flatten__() returns was 0, now 1"
    # warning: [FL201] "recompiled: weight._scale was a tensor, now None"


if __name__ == "__main__":
    torch.manual_seed(0)
    x, data = torch.randn(3, 4), torch.randn(4, 5)
    for scale in (torch.tensor(2.0), None):
        for constant in (0, 1):
            print(project(x, OptionalScaled(data, scale, constant=constant)).sum().item())
# run by: make corpora
