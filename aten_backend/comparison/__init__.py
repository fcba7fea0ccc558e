"""Backends side by side on the same workloads: speed, compile time, kernels, memory, and distance from float64."""
