"""Notebooks as Python: their cells, the commands of IPython in them, and the text of all cells as one module.

Invariant: nothing here runs a cell or reads an output. The text of a module has one line for each line of a cell.
"""
