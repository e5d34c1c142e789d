"""Code generation by AOTAutograd and Inductor, by their private names, for a device that may be absent.

Not imported with torch_api: Inductor takes most of a second, and a capture needs none of it.
"""
