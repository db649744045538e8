"""The program around a call: its Ctrl-C, forks and folders, as code that cannot stand them needs them."""

from harness.surroundings.files import is_there, write_whole
from harness.surroundings.forks import at_fork, hold_across_forks
from harness.surroundings.interpreters import is_main_interpreter
from harness.surroundings.interrupts import interrupts_held, is_to_end, may_handle
from harness.surroundings.packages import INSTALL_CUPY, shadow_of
from harness.surroundings.processors import can_keep, keep_on, processors
from harness.surroundings.working_directory import working_directory

__all__ = [
    "INSTALL_CUPY",
    "at_fork",
    "can_keep",
    "hold_across_forks",
    "interrupts_held",
    "is_main_interpreter",
    "is_there",
    "is_to_end",
    "keep_on",
    "may_handle",
    "processors",
    "shadow_of",
    "working_directory",
    "write_whole",
]
