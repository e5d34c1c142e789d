"""Small programs that show a fault of the compiler: the graphs of a call as Python, and runs of what is made of them.

Invariant: no value of the user's, no name and no path of theirs is in the text of a graph, unless values are asked for.
"""
