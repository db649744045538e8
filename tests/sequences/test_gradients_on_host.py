"""Gradients of the log-likelihood over NumPy against finite differences: those of PyTorch and JAX are made of them."""

import numpy as np
import pytest

from harness.sequences import forward
from harness.sequences.arguments import read_model
from harness.sequences.gradients import of_likelihood

G, LENGTHS, STEP = np.array([1.0, -2.0, 0.5]), [4, 2, 0], 1e-6
NAMES = "initial", "transition", "emission"


def differences(model, name):
    """Return the central differences of the weighted log-likelihoods by one argument."""
    found = np.zeros(model[name].shape)
    for at in np.ndindex(found.shape):
        totals = []
        for step in (STEP, -STEP):
            moved = {**model, name: model[name].copy()}
            moved[name][at] += step
            totals.append(G @ forward(*moved.values(), LENGTHS)[0])
        found[at] = (totals[0] - totals[1]) / (2 * STEP)
    return found


@pytest.mark.parametrize("shape", [(3, 3), (3, 3, 3, 3)], ids=["one matrix", "a matrix a step"])
@pytest.mark.parametrize("has_impossible", [False, True])
def test_gradients_are_differences(shape, has_impossible, rng):
    values = [rng.normal(0, 1, x) for x in ((3, 3), shape, (3, 4, 3))]
    model = dict(zip(NAMES, values, strict=True))
    if has_impossible:
        model["transition"][..., 0, 1] = model["emission"][0, 2, 0] = -np.inf
    read = read_model("forward", *model.values(), LENGTHS, counts=False)
    with np.errstate(all="ignore"):
        found = of_likelihood(read, G, is_shared=len(shape) == 2)
        for name, gradient in zip(NAMES, found, strict=True):
            expected = differences(model, name)
            is_number = np.isfinite(model[name])
            assert np.allclose(gradient[is_number], expected[is_number], atol=1e-8), name
            assert (gradient[~is_number] == 0).all(), name
