"""The only place that knows dpctl (in the user's process) and numba-dpex (in the compiler processes)."""
