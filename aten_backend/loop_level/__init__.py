"""The loop level: everything that knows TorchInductor. No other package imports ``torch._inductor``."""
