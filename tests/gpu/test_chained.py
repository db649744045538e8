"""Races of chained launches: every contender in every round, in orders that differ."""

from backends.gpu._tasks.chained import race


class Chain:
    """Takes so many seconds, and writes its name down."""

    def __init__(self, name, taken_s, calls):
        self._name, self._taken_s, self._calls = name, iter(taken_s), calls

    def sample(self):
        self._calls.append(self._name)
        return next(self._taken_s)


def test_rounds_have_all_contenders_in_orders_that_differ():
    calls = []
    times = race({name: Chain(name, (3.0, 1.0, 2.0, 9.0, 2.0), calls) for name in "abcd"}, 5)
    assert times == dict.fromkeys("abcd", 2.0)
    rounds = [calls[at : at + 4] for at in range(0, 20, 4)]
    assert all(sorted(order) == list("abcd") for order in rounds)
    assert len({tuple(order) for order in rounds}) > 2
    behind_a = {order[order.index("a") - 1] for order in rounds if order.index("a") > 0}
    assert len(behind_a) > 1
