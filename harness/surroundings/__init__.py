"""The program around a call: its Ctrl-C and its working directory, as code that cannot stand them needs them."""

from harness.surroundings.interrupts import interrupts_held
from harness.surroundings.working_directory import working_directory

__all__ = ["interrupts_held", "working_directory"]
