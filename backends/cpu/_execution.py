"""The former place of `KernelExecution`, for plug-ins that import it from here, until version 0.2."""

from backends.cpu._ladder.execution import KernelExecution

__all__ = ["KernelExecution"]
