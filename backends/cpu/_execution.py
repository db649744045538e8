"""Former module of `KernelExecution`, kept until version 0.2 for plug-ins that import it from here."""

from backends.cpu._ladder.execution import KernelExecution

__all__ = ["KernelExecution"]
