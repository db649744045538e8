"""Sequences on a GPU that the host plays: one launch for all steps, against the same on the host."""

import numpy as np
import pytest

from harness.sequences import backward, forward, posterior, sample, scan, viterbi
from harness.sequences.arguments import read_model
from harness.sequences.gradients import of_likelihood
from tests.gpu.host_kernels import BY_THE_SHIM

pytestmark = BY_THE_SHIM


def random_model(seed, count, steps, states, *, each, dtype, spread=2.0):
    rng = np.random.default_rng(seed)
    shape = (count, max(steps - 1, 0), states, states) if each else (states, states)
    values = [rng.normal(0, spread, size) for size in ((count, states), shape, (count, steps, states))]
    if np.dtype(dtype).kind == "f":
        for x in values:
            x[rng.random(x.shape) < 0.2] = -np.inf
    return [x.astype(dtype) for x in values]


@pytest.mark.deep(but=3)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize(("steps", "states"), [(6, 1), (6, 5), (6, 40), (1, 5), (0, 5)])
def test_models_are_those_of_the_host(gpu, steps, states, each, dtype):
    lengths = np.minimum([6, 0, 3, 1], steps)
    model = random_model(states, 4, steps, states, each=each, dtype=dtype)
    there = [gpu.array(x) for x in model]
    tolerance = 1e-12 if dtype == "float64" else 3e-6
    for function in (forward, backward):
        for got, expected in zip(function(*there, lengths), function(*model, lengths), strict=True):
            np.testing.assert_allclose(got.get(), expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(posterior(*there, lengths).get(), posterior(*model, lengths), atol=tolerance)
    paths, scores = viterbi(*there, lengths)
    expected = viterbi(*model, lengths)
    np.testing.assert_array_equal(paths.get(), expected[0])
    np.testing.assert_allclose(scores.get(), expected[1], rtol=tolerance)
    np.testing.assert_array_equal(sample(*there, lengths, key=1).get(), sample(*model, lengths, key=1))
    assert ("sequence" in {name for name, _ in gpu.launches}) == (steps > 0)


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("chunk_steps", [10, 1000])
def test_gradients_are_those_of_the_host(gpu, monkeypatch, chunk_steps, each):
    monkeypatch.setattr("harness.sequences.chunks.CHUNK_STEPS", chunk_steps)
    model = random_model(7, 3, 20, 5, each=each, dtype="float64")
    lengths, g = None if chunk_steps == 10 else [20, 0, 7], np.array([1.0, 2.0, -0.5])
    if lengths:
        model[2][1:, 7:] = np.nan  # beyond the end nothing is looked at
    found = []
    for place in (gpu.array, np.asarray):
        read = read_model("forward", *[place(x) for x in model], lengths, counts=False)
        with np.errstate(all="ignore"):
            found.append(of_likelihood(read, place(g), is_shared=not each))
    for got, expected in zip(*found, strict=True):
        assert np.isfinite(expected).all()
        np.testing.assert_allclose(got.get(), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("spread", [60.0, 400.0])
def test_wide_ranges_lose_no_term(gpu, spread):
    model = random_model(1, 2, 9, 20, each=False, dtype="float32", spread=spread)
    got = forward(*[gpu.array(x) for x in model])
    for x, expected in zip(got, forward(*[x.astype(np.float64) for x in model]), strict=True):
        np.testing.assert_allclose(x.get(), expected, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
@pytest.mark.parametrize("states", [9, 70])
def test_ties_and_scores(gpu, states, dtype):
    rng = np.random.default_rng(states)
    model = [rng.integers(-1, 2, size).astype(dtype) for size in ((3, states), (states, states), (3, 7, states))]
    paths, scores = viterbi(*[gpu.array(x) for x in model], [7, 4, 1])
    expected = viterbi(*model, [7, 4, 1])
    np.testing.assert_array_equal(paths.get(), expected[0])
    np.testing.assert_array_equal(scores.get(), expected[1])


@pytest.mark.parametrize("semiring", ["plus_times", "min_plus", "logaddexp_plus", "max_plus"])
def test_scans_of_vectors_and_matrices(gpu, semiring):
    a = np.random.default_rng(3).random((2, 5, 6, 6))
    for options in ({}, {"reverse": True}, {"initial": a[:, 0, 0]}, {"initial": a[:, 0, 0], "reverse": True}):
        there = {name: gpu.array(x) if name == "initial" else x for name, x in options.items()}
        np.testing.assert_allclose(
            scan(gpu.array(a), semiring, **there).get(), scan(a, semiring, **options), rtol=1e-12
        )


@pytest.mark.parametrize(("dtype", "states"), [("float32", 37), ("float64", 37), ("float32", 40)])
def test_steps_of_many_states_are_products(gpu, monkeypatch, dtype, states):
    for name, least in (("PRODUCT_STATES", 30), ("PRODUCT_COUNT", 4), ("LEAST_DEPTH", 8)):
        monkeypatch.setattr(f"backends.gpu._sequences.program.{name}", least)
    lengths = np.array([6, 0, 3, 1, 6])
    for spread in (2.0, 300.0):
        model = random_model(9, 5, 6, states, each=False, dtype=dtype, spread=spread)
        there, tolerance = [gpu.array(x) for x in model], 1e-12 if dtype == "float64" else 3e-6
        for function in (forward, backward):
            for got, expected in zip(function(*there, lengths), function(*model, lengths), strict=True):
                np.testing.assert_allclose(got.get(), expected, rtol=tolerance, atol=tolerance * spread * 50)
        paths, scores = viterbi(*there, lengths)
        np.testing.assert_array_equal(paths.get(), viterbi(*model, lengths)[0])
        np.testing.assert_allclose(scores.get(), viterbi(*model, lengths)[1], rtol=tolerance)
    names = [name for name, _ in gpu.launches]
    assert names.count("sequence") == 2 * 3 * 6
    whole = [np.round(x).astype("int32") for x in random_model(9, 5, 6, states, each=False, dtype="int32")]
    np.testing.assert_array_equal(viterbi(*[gpu.array(x) for x in whole])[0].get(), viterbi(*whole)[0])


@pytest.mark.deep(but=1)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("steps", [20, 26, 31])
def test_long_sequences_are_cut_into_chunks(gpu, monkeypatch, dtype, steps):
    for place in ("harness.sequences.chunks", "backends.gpu._sequences.program"):
        monkeypatch.setattr(f"{place}.CHUNK_STEPS", 10)
    model = random_model(steps, 2, steps, 5, each=False, dtype=dtype)
    model[2][1, 3] = -np.inf
    there, tolerance = [gpu.array(x) for x in model], 1e-12 if dtype == "float64" else 3e-6
    for function in (forward, backward):
        for got, expected in zip(function(*there), function(*model), strict=True):
            np.testing.assert_allclose(got.get(), expected, rtol=tolerance, atol=10 * tolerance)
    np.testing.assert_allclose(posterior(*there).get(), posterior(*model), atol=10 * tolerance)
    paths, scores = viterbi(*there)
    np.testing.assert_array_equal(paths.get(), viterbi(*model)[0])
    np.testing.assert_allclose(scores.get(), viterbi(*model)[1], rtol=tolerance)
    whole = random_model(steps, 2, steps, 5, each=False, dtype="int32")
    np.testing.assert_array_equal(
        viterbi(*[gpu.array(x.astype(dtype)) for x in whole])[0].get(), viterbi(*whole)[0]
    )  # of equal scores
    assert {name for name, _ in gpu.launches} >= {"factors", "sequence", "maps", "trace"}
    assert len([name for name, _ in gpu.launches if name == "sequence"]) > 2 * 4
