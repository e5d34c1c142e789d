"""Recompilations because a relation between symbolic sizes no longer holds."""


# fuselight: equal_sizes(f32[4], f32[4], dynamic=True)
# fuselight: equal_sizes(f32[4], f32[5], dynamic=True)
def equal_sizes(x, y):  # warning: [FL201] "torch takes equal sizes for one"
    if x.size(0) == y.size(0):
        return x + y
    return x.sum() + y.sum()


# fuselight: threshold(f32[4], dynamic=True)
# fuselight: threshold(f32[14], dynamic=True)
def threshold(x):
    if x.size(0) > 8:  # info: [FL201] "recompiled: the outcome of `x.size(0) > 8` changed: x.size(0) is 14"
        return x + 1
    return x - 1


# fuselight: divisible(f32[4], dynamic=True)
# fuselight: divisible(f32[7], dynamic=True)
def divisible(x):
    if x.size(0) % 2 == 0:  # warning: [FL201] "x.size(0) % 2"
        return x + 1
    return x - 1


# fuselight: any_size_will_do(f32[4], dynamic=True)
# fuselight: any_size_will_do(f32[7], dynamic=True)
def any_size_will_do(x):
    return x * x.size(0)


# fuselight: dynamic_by_itself(f32[4])
# fuselight: dynamic_by_itself(f32[7])
# fuselight: dynamic_by_itself(f32[9])
def dynamic_by_itself(x):
    return x * 2  # warning: [FL201] "x.size(0) was 4, now 7"
