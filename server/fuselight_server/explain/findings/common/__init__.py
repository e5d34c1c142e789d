"""Texts and context that families of findings share."""
