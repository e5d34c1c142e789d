"""The cost of a break as facts: graphs, operators on each side, code that runs in eager mode."""

import torch


# fuselight: between_two_graphs(f32[4])
def between_two_graphs(x):
    y = x.sin().cos()
    torch._dynamo.graph_break()
    # info: [GB0025] "is split into 2 graphs: 2 operators right before this line, 1 operator right after it"
    return y + 1


# fuselight: before_the_only_graph(f32[4])
def before_the_only_graph(x):
    print("first")  # warning: [GB0059] "the only graph of `before_the_only_graph` starts after this line, with 2 operators"
    return x.sin() + 1


# fuselight: after_the_only_graph(f32[4])
def after_the_only_graph(x):
    y = x.sin() + 1
    print("last")  # warning: [GB0059] "the only graph of `after_the_only_graph` ends here, after 2 operators"
    return y


# fuselight: no_graph_at_all(f32[4])
def no_graph_at_all(x):
    return eval("x + 1")  # warning: [GB0059] "`no_graph_at_all` has no graph left"


# fuselight: all_of_it_in_eager(f32[4])
def all_of_it_in_eager(x):  # info: [FL101] "The cause is the graph break on line 36"
    x = x.sin()
    for _ in range(2):
        print("in a loop")  # warning: [GB0059] "all of `all_of_it_in_eager` runs in eager mode, not only this line"
        x = x + 1
    return x


# fuselight: two_calls(f32[4])
# fuselight: two_calls(f32[4])
def two_calls(x):
    y = x.sin()
    print("met when it was compiled, not in the second call")  # warning: [GB0059] "is split into 2 graphs"
    return y + 1
