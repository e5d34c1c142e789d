"""Profiles of one call: recording, joining kernels to source lines, idle time, and compile phases."""
