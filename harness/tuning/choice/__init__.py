"""The order in which ``backend="auto"`` tries backends, as measured: data by class of product, and their lookup.

`classes` says what two products must share to be computed best by the same backend. `orders` reads the table that is
shipped beside it (``measured/*.json``), and the user's own, which ``harness tune --auto`` writes and which comes first.
Where neither has measured anything near a product, the orders of `harness.tuning.static_order` hold, with each
backend's own rule on what pays.
"""
