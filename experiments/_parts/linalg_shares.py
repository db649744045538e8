"""The share of an algorithm's time that products take, from runs that wait for each of them.

Such a run does more than a plain one, and the first of them are slow: caches are cold and threads asleep. So the
fastest of some runs counts, and only if it took about as long as a plain run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from harness.analysis.shares import MOST_OF_A_RUN
from harness.api.arrays import kind_of
from harness.linalg.elimination import LU
from harness.linalg.products import Products
from harness.linalg.stages import Stages
from harness.linalg.triangles import Triangle
from harness.linalg.triangular_systems import default_block
from harness.timing.clock import timed

# Runs whose stages are timed: so many, or where they are long as many as fit these seconds.
RUNS, FEWEST_RUNS, SECONDS = 7, 2, 20.0
BLOCK = 64  # columns of a panel of elimination

Options = Mapping[str, Any]
Arrays = dict[str, Any]


def measured(
    run: Callable[[], object], staged: Callable[[], Mapping[str, float]], *, wait: Callable[[], None]
) -> dict[str, Any]:
    """Return the seconds by stage of the fastest run, and the share of products; nothing if it was much slower.

    Parameters
    ----------
    run : callable
        Starts a plain run. It alternates with the timed ones, so that what slows the machine down slows both.
    staged : callable
        Returns the seconds of a run by stage.
    wait : callable
        Returns when the plain run is done.
    """
    staged()  # compiles kernels
    plain, apart, spent = list[float](), list[Mapping[str, float]](), 0.0
    while len(apart) < RUNS and (len(apart) < FEWEST_RUNS or spent < SECONDS):
        alone = dict[str, float]()
        with timed(alone, "run", wait):
            run()
        plain.append(alone["run"])
        apart.append(dict(staged()))
        spent += plain[-1] + sum(apart[-1].values())
    fastest = min(apart, key=lambda seconds: sum(seconds.values()))
    total = sum(fastest.values())
    if total > MOST_OF_A_RUN * min(plain):
        return {}
    products = sum(spent for stage, spent in fastest.items() if stage.endswith("products"))
    return {"seconds": fastest, "share": products / total}


def of_trsm(arrays: Arrays, options: Options) -> Mapping[str, float]:
    """Return the seconds of one solve by stages."""
    kind = kind_of("trsm", arrays)
    a, x = arrays["a"], arrays["b"].copy()
    stages = Stages(kind, is_timed=True)
    with Products("trsm", kind, np.dtype(a.dtype), options["backend"], options["threads"], stages=stages) as products:
        given = {key: options[key] for key in ("method", "inverses") if key in options}
        given["block"] = options.get("block", default_block(kind, *arrays["b"].shape))
        Triangle(a, products, lower=True, unit_diagonal=False, caller="trsm", **given).solve(x)
    stages.enter_time()
    return stages.seconds


def of_refine(arrays: Arrays, options: Options) -> Mapping[str, float]:
    """Return the seconds of the factorisation by stages, its operands as wide as the factors."""
    low = arrays["a"].astype("float64" if options["factor_dtype"] == "float64" else "float32")
    kind = kind_of("refine", {"a": low})
    stages = Stages(kind, is_timed=True)
    chosen = np.dtype(low.dtype), options["backend"], options["threads"]
    with Products("refine", kind, *chosen, stages=stages) as products:
        LU(low, products, products, block=BLOCK)
    stages.enter_time()
    return stages.seconds
