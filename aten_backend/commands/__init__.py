"""The subcommands of `xpu-aten`, one a module: ``add`` says what each takes, ``run`` does it."""
