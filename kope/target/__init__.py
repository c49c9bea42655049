"""Targets: toolchains and hardware that candidates are built for and run on."""
