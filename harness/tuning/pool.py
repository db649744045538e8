"""How long threads of the pool look for work before they sleep; the machine is that of `harness.tuning.cpu`."""

# Polls of an idle thread for work, with a pause between, before it sleeps: about 40 us on that machine. Waking it
# takes 10 to 50 us. OpenMP's threads poll for 1 to 10 ms, which halved the speed of interleaved NumPy products of
# n = 500. With 40 us these keep 0.95 to 1.0 of it.
# A thread that waits for others to finish their parts yields so often before it sleeps, which takes about 5 ms. If it
# slept after 40 us, a tenth of the interleaved products took 2 to 5 times as long, and NumPy's next ones too.
# Measured 2026-11-22, interleaved with np.matmul, on that machine.
# A worker whose loop still runs polls so much longer, about 1 ms. On 16 processors of unlike speed, n = 300 and 500,
# products took 1.25 times as long with workers that slept after 40 us as with ones that polled (Xeon, 2026-11-23).
POOL_LOOKS, POOL_YIELDS, POOL_PATIENCE = 1000, 20_000, 20_000
