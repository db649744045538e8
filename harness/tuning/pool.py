"""How long threads of the pool look for work before they sleep; the machine is that of `harness.tuning.cpu`."""

# Polls of an idle thread for work, with a pause between, before it sleeps: about 40 us. A thread that waits for others
# to finish their parts yields so often before it sleeps, about 5 ms. A worker whose loop still runs polls so much
# longer, about 1 ms.
POOL_LOOKS, POOL_YIELDS, POOL_PATIENCE = 1000, 20_000, 20_000
