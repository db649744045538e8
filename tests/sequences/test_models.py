"""Hidden Markov models: against an enumeration of all paths, against the definitions in float64, and bad input."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from harness import ProblemError
from harness.sequences import backward, forward, posterior, sample, viterbi

BACKENDS = ["auto", "cpu-numpy"]  # a kernel of all steps, and products


def random_model(seed, count, steps, states, *, each=False, absent=0.0, dtype=np.float64):
    """Return initial, transition and emission of small integers and fractions; a part of all values is -inf."""
    rng = np.random.default_rng(seed)
    shape = (count, max(steps - 1, 0), states, states) if each else (states, states)
    values = [rng.normal(0, 2, size) for size in ((count, states), shape, (count, steps, states))]
    for x in values:
        x[rng.random(x.shape) < absent] = -np.inf
    return [x.astype(dtype) for x in values]


def values_of_paths(initial, transition, emission, length):
    """Return the value of every path of one sequence, by its states."""
    states = initial.size
    matrices = np.broadcast_to(transition, (max(emission.shape[0] - 1, 0), states, states))
    values = {}
    for path in itertools.product(range(states), repeat=length):
        value = initial[path[0]] if path else initial.dtype.type(0)
        for t, state in enumerate(path):
            value = value + emission[t, state] + (matrices[t - 1, path[t - 1], state] if t else 0)
        values[path] = value
    return values


def by_definition(initial, transition, emission):
    """Return alphas and betas of one sequence, in float64."""
    initial, transition, emission = (np.asarray(x, np.float64) for x in (initial, transition, emission))
    steps, states = emission.shape
    matrices = np.broadcast_to(transition, (max(steps - 1, 0), states, states))
    alphas, betas = np.empty((steps, states)), np.zeros((steps, states))
    with np.errstate(all="ignore"):
        for t in range(steps):
            before = logsumexp(alphas[t - 1][:, None] + matrices[t - 1], axis=0) if t else initial
            alphas[t] = before + emission[t]
        for t in range(steps - 2, -1, -1):
            betas[t] = logsumexp(matrices[t] + emission[t + 1] + betas[t + 1], axis=1)
    return alphas, betas


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("absent", [0.0, 0.4])
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize(("steps", "states"), [(0, 3), (1, 1), (1, 4), (2, 3), (5, 2), (4, 3), (6, 1)])
def test_all_paths_are_counted(steps, states, each, absent, backend):
    count = 4
    model = random_model(steps + 10 * states, count, steps, states, each=each, absent=absent)
    lengths = np.random.default_rng(states).integers(0, steps, count, endpoint=True)
    total, alphas = forward(*model, lengths, backend=backend)
    same, betas = backward(*model, lengths, backend=backend)
    marginals = posterior(*model, lengths, backend=backend)
    paths, scores = viterbi(*model, lengths, backend=backend)
    for b, length in enumerate(lengths):
        matrices = model[1][b] if each else model[1]
        values = values_of_paths(model[0][b], matrices, model[2][b], length)
        every = np.array(list(values.values()))
        with np.errstate(all="ignore"):
            expected = logsumexp(every)
        assert total[b] == pytest.approx(expected, abs=1e-12)
        assert same[b] == pytest.approx(expected, abs=1e-12)
        assert scores[b] == pytest.approx(every.max(), abs=1e-12)
        assert (paths[b, length:] == -1).all()
        assert (alphas[b, length:] == -np.inf).all()
        assert (betas[b, length:] == -np.inf).all()
        if length and every.max() > -np.inf:
            assert values[tuple(paths[b, :length])] == pytest.approx(every.max(), abs=1e-12)
        for t, j in itertools.product(range(length), range(states)):
            through = [value for path, value in values.items() if path[t] == j]
            probability = np.exp(logsumexp(through) - expected) if every.max() > -np.inf else 0.0
            assert marginals[b, t, j] == pytest.approx(probability, abs=1e-12)
        assert (marginals[b, length:] == 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("states", [1, 7, 8, 16, 33, 70])
def test_ragged_batches_are_as_defined(states, each, dtype):
    count, steps = 3, 9
    model = random_model(states, count, steps, states, each=each, absent=0.1, dtype=dtype)
    lengths = np.array([steps, 4, 1])
    tolerance = 2e-5 if dtype == np.float32 else 1e-12
    (total, alphas), (_, betas) = forward(*model, lengths), backward(*model, lengths)
    assert alphas.dtype == betas.dtype == total.dtype == dtype
    for b, length in enumerate(lengths):
        matrices = model[1][b, : length - 1] if each else model[1]
        expected = by_definition(model[0][b], matrices, model[2][b, :length])
        for got, want in zip((alphas, betas), expected, strict=True):
            assert np.allclose(got[b, :length], want, rtol=tolerance, atol=tolerance)
        with np.errstate(all="ignore"):
            assert total[b] == pytest.approx(logsumexp(expected[0][-1]), rel=tolerance)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("spread", [50.0, 300.0, 2000.0])
def test_wide_ranges_lose_no_term(spread, dtype, backend):
    rng = np.random.default_rng(int(spread))
    model = [(-rng.random(shape) * spread).astype(dtype) for shape in ((20,), (20, 20), (12, 20))]
    model[1][rng.random((20, 20)) < 0.2] = -np.inf
    alphas = forward(*model, backend=backend)[1]
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    assert np.allclose(alphas, by_definition(*model)[0], rtol=tolerance, atol=tolerance * spread)


def test_a_long_sequence_keeps_the_digits_of_float32():
    steps, states = 20_000, 5
    initial, transition, emission = random_model(1, 1, steps, states)
    transition = transition - logsumexp(transition, axis=1, keepdims=True)
    model = [x.astype(np.float32) for x in (initial[0], transition, emission[0])]
    exact = forward(*[x.astype(np.float64) for x in model])[1]
    loop = np.empty_like(model[2])
    for t in range(steps):
        rows = loop[t - 1][:, None] + model[1] if t else None
        top = rows.max(axis=0) if t else None
        loop[t] = model[2][t] + (model[0] if rows is None else np.log(np.exp(rows - top).sum(axis=0)) + top)
    assert loop.dtype == np.float32
    error = np.abs(forward(*model)[1] - exact).max()
    assert error <= np.abs(loop - exact).max()
    assert error <= 2 * np.spacing(np.abs(exact).max().astype(np.float32))


def test_posteriors_of_a_long_sequence_in_float32_sum_to_one():
    model = [x.astype(np.float32) for x in random_model(2, 1, 5000, 6)]
    marginals = posterior(*model)
    assert np.allclose(marginals, posterior(*[x.astype(np.float64) for x in model]), atol=2e-5)
    assert np.allclose(marginals.sum(axis=-1), 1, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32])
@pytest.mark.parametrize("backend", BACKENDS)
def test_of_equal_paths_the_smallest_states_win(dtype, backend):
    zeros = [np.zeros(shape, dtype) for shape in ((2, 9), (9, 9), (2, 5, 9))]
    zeros[2][0, 4, 3] = zeros[2][0, 1, 2] = 1
    paths, scores = viterbi(*zeros, backend=backend)
    assert paths.tolist() == [[0, 2, 0, 0, 3], [0] * 5]
    assert scores.tolist() == [2, 0]
    assert scores.dtype == dtype


@pytest.mark.parametrize("backend", BACKENDS)
def test_integer_scores_saturate(backend):
    least, most = np.iinfo(np.int32).min, np.iinfo(np.int32).max
    model = [np.array(x, np.int32) for x in ([5, -5], [[0, -9], [0, 0]], [[most - 2, least + 2], [-1, -1], [-1, -1]])]
    path, score = viterbi(*model, backend=backend)
    assert (path.tolist(), score) == ([0, 0, 0], most - 2)
    assert viterbi(*[np.full(shape, least, np.int32) for shape in ((2,), (2, 2), (3, 2))], backend=backend)[1] == least


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [forward, backward, posterior, viterbi, sample])
def test_no_sequences(function, backend):
    model = np.zeros(3), np.zeros((3, 3)), np.zeros((0, 5, 3))
    got = function(*model, [], backend=backend)
    assert {x.shape for x in (got if isinstance(got, tuple) else (got,))} <= {(0,), (0, 5), (0, 5, 3)}


@pytest.mark.parametrize("states", [3, 256, 257, 300])
def test_back_pointers_hold_every_state(states):
    steps = 6
    rng = np.random.default_rng(states)
    route = rng.integers(max(states - 9, 0), states, steps)
    emission = np.zeros((steps, states), np.int32)
    emission[np.arange(steps), route] = 100
    paths, score = viterbi(np.zeros(states, np.int32), rng.integers(0, 9, (states, states)).astype(np.int32), emission)
    assert paths.tolist() == route.tolist()
    assert score >= 600


def test_sequences_are_traced_in_chunks(monkeypatch):
    model = random_model(5, 7, 20, 11)
    lengths = np.array([20, 3, 0, 20, 1, 19, 8])
    whole = viterbi(*model, lengths)
    monkeypatch.setattr("backends.cpu._sequences.run.POINTER_BYTES", 1000)
    for got, expected in zip(viterbi(*model, lengths), whole, strict=True):
        assert np.array_equal(got, expected)


def test_sixteen_bits_are_computed_as_thirty_two():
    model = random_model(3, 2, 4, 3, dtype=np.float16)
    for got, expected in zip(forward(*model), forward(*[x.astype(np.float32) for x in model]), strict=True):
        assert got.dtype == np.float32
        assert np.array_equal(got, expected)


def test_strides_and_shared_arguments_change_nothing():
    initial, transition, emission = random_model(4, 3, 6, 10)
    expected = forward(np.broadcast_to(initial[0], (3, 10)), transition, emission)
    strided = np.asfortranarray(transition), np.asfortranarray(emission)
    for got in (forward(initial[0], *strided, threads=1), forward(initial[0], transition[None, None], emission)):
        assert np.array_equal(got[0], expected[0])
        assert np.array_equal(got[1], expected[1])


def test_samples_are_drawn_from_the_posterior():
    initial, transition, emission = random_model(6, 1, 4, 3, absent=0.2)
    many = 20_000
    paths = sample(initial[0], transition, np.broadcast_to(emission[0], (many, 4, 3)), key=np.random.default_rng(1))
    values = values_of_paths(initial[0], transition, emission[0], 4)
    expected = dict(zip(values, softmax(list(values.values())), strict=True))
    found = dict.fromkeys(values, 0.0)
    for path in paths:
        found[tuple(path)] += 1 / many
    assert max(abs(found[path] - expected[path]) for path in values) < 0.015
    assert all(found[path] == 0 for path, probability in expected.items() if probability == 0)
    assert np.array_equal(
        sample(initial[0], transition, emission[0], key=3), sample(initial[0], transition, emission[0], key=3)
    )


def test_impossible_sequences():
    initial, transition, emission = random_model(7, 2, 5, 3)
    emission[1, 2] = -np.inf
    total, _ = forward(initial, transition, emission)
    assert total[1] == -np.inf
    assert np.isfinite(total[0])
    assert (posterior(initial, transition, emission)[1] == 0).all()
    assert viterbi(initial, transition, emission)[1][1] == -np.inf
    assert (sample(initial, transition, emission, key=1)[1] == -1).all()
    assert forward(initial, transition, emission, [5, 2])[0][1] > -np.inf


@pytest.mark.parametrize(
    ("shapes", "lengths", "message"),
    [
        (((3,), (3, 4), (5, 3)), None, "transition does not chain"),
        (((3,), (3, 3), (5, 4)), None, "initial does not chain"),
        (((3,), (5, 3, 3), (5, 3)), None, "transition does not chain"),
        (((2, 3), (2, 3, 3), (2, 5, 3)), None, "transition does not chain"),
        (((3,), (3, 3), (3,)), None, "emission does not chain"),
        (((0,), (0, 0), (5, 0)), None, "emission does not chain"),
        (((3,), (3, 3), (2, 5, 3)), [5, 6], "a length lies beyond"),
        (((3,), (3, 3), (2, 5, 3)), [-1, 5], "a length lies beyond"),
        (((3,), (3, 3), (2, 5, 3)), [5.0, 5.0], "lengths are not"),
        (((3,), (3, 3), (2, 5, 3)), [5], "lengths are not"),
    ],
)
@pytest.mark.parametrize("function", [forward, backward, posterior, viterbi, sample])
def test_what_does_not_fit_is_refused(function, shapes, lengths, message):
    with pytest.raises(ProblemError, match=f"{function.__name__}: {message}"):
        function(*map(np.zeros, shapes), lengths)


def test_dtypes_without_logarithms_are_refused():
    for dtype in (np.int32, np.complex128, np.bool_):
        model = [np.zeros(shape, dtype) for shape in ((3,), (3, 3), (5, 3))]
        with pytest.raises(ProblemError, match="holds no logarithms"):
            forward(*model)
    with pytest.raises(ProblemError, match="viterbi: uint8 holds no logarithms"):
        viterbi(*[np.zeros(shape, np.uint8) for shape in ((3,), (3, 3), (5, 3))])
    with pytest.raises(ProblemError, match="key is no source"):
        sample(np.zeros(3), np.zeros((3, 3)), np.zeros((5, 3)), key="seed")


def test_probabilities_are_noticed():
    start, step, seen = np.full(2, 0.5), np.full((2, 2), 0.5), np.zeros((3, 2))
    with pytest.warns(UserWarning, match="initial looks like probabilities"):
        forward(start, np.log(step), seen)
    with pytest.warns(UserWarning, match="transition looks like probabilities"):
        viterbi(np.log(start), step, seen)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        forward(np.array([3.0, 0.5]), np.array([[2.0, 0.1], [1.0, 0.4]]), seen)  # potentials of a CRF
