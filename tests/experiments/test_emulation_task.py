"""What the task of emulated products measures beside time."""

import types

from experiments._parts.emulation_task import joules


class Execution:
    """Takes 3 J a product of a counter that stands at 100 J."""

    def __init__(self, *, is_counted=True):
        self.products = 0
        if is_counted:
            self.queue = types.SimpleNamespace(joules=lambda: 100 + 3.0 * self.products)

    def run(self):
        self.products += 1

    def wait(self):
        pass


def test_energy_is_that_of_one_product():
    assert joules(Execution(), 0.001) == 3


def test_without_a_counter_there_is_no_energy():
    assert joules(Execution(is_counted=False), 0.001) is None
    silent = Execution()
    silent.queue = types.SimpleNamespace(joules=lambda: None)
    assert joules(silent, 0.001) is None
