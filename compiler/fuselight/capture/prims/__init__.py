"""Records what the operators of captured graphs decompose into, as parts of a Report."""
