"""Functions that JAX compiles, maps and differentiates: against NumPy, and against finite differences."""

import functools
import os
import subprocess
import sys

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from jax import numpy as jnp  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

import harness  # noqa: E402
import harness.jax as hj  # noqa: E402
from harness import ProblemError, paths, sequences  # noqa: E402
from harness.jax import ffi  # noqa: E402

SEMIRINGS = ["plus_times", "max_plus", "min_plus", "logaddexp_plus", "max_min"]
VIEWS = (
    [(3,), (3, 3), (5, 3)],
    [(2, 3), (3, 3), (2, 5, 3)],
    [(3,), (4, 3, 3), (2, 5, 3)],
    [(3,), (2, 4, 3, 3), (2, 5, 3)],
)


@pytest.fixture(autouse=True)
def wide():
    """Give JAX dtypes of 64 bits."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.fixture(params=["ffi", "pure_callback"])
def way(request, monkeypatch):
    """Call by either way."""
    if request.param == "pure_callback":
        monkeypatch.setattr(ffi, "is_available", lambda *_: False)
    return request.param


def array(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(0, 1, shape))


def reverse_gradients(function, *arguments):
    check_grads(function, arguments, order=1, modes=["rev"], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("semiring", SEMIRINGS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products(way, semiring, dtype):
    a, b = array(2, 4, 5).astype(dtype), array(5, 3, seed=1).astype(dtype)
    got = jax.jit(functools.partial(hj.gemm, semiring=semiring))(a, b)
    assert got.dtype == dtype
    assert np.array_equal(got, harness.gemm(np.asarray(a), np.asarray(b), semiring=semiring))


def test_products_of_integers_and_of_nothing(way):
    a = jnp.arange(6, dtype=jnp.int32).reshape(2, 3)
    assert np.array_equal(jax.jit(hj.gemm)(a, a.T), np.asarray(a) @ np.asarray(a).T)
    assert hj.gemm(jnp.zeros((0, 3)), jnp.zeros((3, 2))).shape == (0, 2)
    assert (hj.gemm(jnp.zeros((2, 0)), jnp.zeros((0, 2)), semiring="min_plus") == np.inf).all()
    half = jnp.ones((4, 4), jnp.float16)
    assert hj.gemm(half, half, semiring="max_plus").dtype == jnp.float16


@pytest.mark.parametrize("semiring", SEMIRINGS)
def test_gradients_of_products(semiring):
    product = functools.partial(hj.gemm, semiring=semiring)
    a, b = array(2, 4, 5), array(5, 3, seed=1)
    reverse_gradients(product, a, b)
    reverse_gradients(jax.jit(jax.vmap(product, in_axes=(0, None))), a, b)


def test_where_nothing_counts_gradients_are_zero():
    a = jnp.full((2, 3), -jnp.inf)
    for semiring in ("logaddexp_plus", "max_plus"):
        product = functools.partial(hj.gemm, semiring=semiring)
        grads = jax.vjp(product, a, jnp.zeros((3, 2)))[1](jnp.ones((2, 2)))
        assert all((x == 0).all() for x in grads)


def test_a_mapped_product_is_one_call(way, monkeypatch):
    calls = []
    original = harness.api.gemm.gemm

    def counted(*arguments, **options):
        calls.append([x.shape for x in arguments])
        return original(*arguments, **options)

    monkeypatch.setattr("harness.api.gemm.gemm", counted)
    a, b = array(100, 4, 5), array(5, 3)
    got = jax.jit(jax.vmap(functools.partial(hj.gemm, threads=1), in_axes=(0, None)))(a, b)
    assert np.allclose(got, np.asarray(a) @ np.asarray(b))
    assert calls == [[(100, 4, 5), (1, 5, 3)]]


def test_which_term_and_shortest_paths(way):
    a, b = array(3, 4, 5), array(5, 3, seed=1)
    for got, expected in zip(jax.jit(hj.gemm_argk)(a, b), harness.gemm_argk(np.asarray(a), np.asarray(b)), strict=True):
        assert np.array_equal(got, expected)
    weights = jnp.abs(array(4, 6, 6))
    expected = np.stack([paths.shortest_paths(np.asarray(x)) for x in weights])
    assert np.array_equal(jax.jit(jax.vmap(hj.shortest_paths))(weights), expected)


def test_contractions(way):
    a, b, c = array(3, 4), array(4, 5, seed=1), array(5, 3, seed=2)
    contract = functools.partial(hj.einsum, "ij,jk,kl->il")
    assert np.allclose(jax.jit(contract)(a, b, c), np.asarray(a) @ np.asarray(b) @ np.asarray(c))
    reverse_gradients(contract, a, b, c)
    mapped = jax.vmap(functools.partial(hj.einsum, "ij,jk->ik", semiring="max_plus"), in_axes=(0, None))
    assert np.allclose(mapped(jnp.stack([a, -a]), b)[1], (-np.asarray(a)[:, :, None] + np.asarray(b)).max(1))


@pytest.mark.parametrize("shapes", VIEWS)
def test_models(way, shapes):
    model = [array(*shape, seed=i) for i, shape in enumerate(shapes)]
    on_host = [np.asarray(x) for x in model]
    for function, expected in ((hj.forward, sequences.forward), (hj.viterbi, sequences.viterbi)):
        for got, want in zip(jax.jit(function)(*model), expected(*on_host), strict=True):
            assert np.allclose(got, want, rtol=1e-14)
    lengths = jnp.array([3, 5])[: 1 if len(shapes[2]) == 2 else 2]
    total = lambda *x: hj.forward(*x, lengths)[0]  # noqa: E731
    assert np.allclose(total(*model), sequences.forward(*on_host, np.asarray(lengths))[0])


@pytest.mark.parametrize("shapes", VIEWS)
@pytest.mark.parametrize("which", ["forward", "viterbi"])
def test_gradients_of_models(shapes, which):
    model = [array(*shape, seed=i) for i, shape in enumerate(shapes)]
    result = {"forward": lambda *x: hj.forward(*x)[0], "viterbi": lambda *x: hj.viterbi(*x)[1]}[which]
    reverse_gradients(jax.jit(result), *model)
    many = [jnp.stack([x, -x, 2 * x]) for x in model]
    reverse_gradients(jax.vmap(result), *many)
    reverse_gradients(jax.vmap(result, in_axes=(None, None, 0)), *model[:2], many[2])
    own = jax.vmap(jax.grad(lambda *x: result(*x).sum(), argnums=(0, 1, 2)), in_axes=(None, None, 0))
    one_by_one = [jax.grad(lambda *x: result(*x).sum(), argnums=(0, 1, 2))(*model[:2], x) for x in many[2]]
    for got, expected in zip(own(*model[:2], many[2]), zip(*one_by_one, strict=True), strict=True):
        assert np.allclose(got, np.stack(expected), atol=1e-12)


@pytest.mark.parametrize("semiring", ["plus_times", "logaddexp_plus", "max_plus"])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans(semiring, reverse):
    a, initial = array(2, 5, 3, 3), array(3, seed=1)
    scan = functools.partial(hj.scan, semiring=semiring, reverse=reverse)
    vectors = lambda a, initial: scan(a, initial=initial)  # noqa: E731
    options = {"semiring": semiring, "reverse": reverse}
    assert np.allclose(jax.jit(scan)(a), sequences.scan(np.asarray(a), **options))
    assert np.allclose(
        jax.jit(vectors)(a, initial), sequences.scan(np.asarray(a), initial=np.asarray(initial), **options)
    )
    assert np.allclose(jax.vmap(vectors, in_axes=(0, None))(a, initial), vectors(a, initial))
    reverse_gradients(scan, a)
    reverse_gradients(vectors, a, initial)


def test_bad_input_is_refused_when_it_is_traced():
    with pytest.raises(ProblemError, match="gemm: "):
        jax.jit(hj.gemm)(jnp.zeros((2, 3)), jnp.zeros((2, 3)))
    with pytest.raises(ProblemError, match="forward: transition does not chain"):
        jax.jit(hj.forward)(jnp.zeros(3), jnp.zeros((3, 4)), jnp.zeros((5, 3)))
    with pytest.raises(ProblemError, match="scan: a is no sequence"):
        hj.scan(jnp.zeros((3, 2)))
    with pytest.raises(ProblemError, match="no gradients over plus_min"):
        jax.vjp(functools.partial(hj.gemm, semiring="plus_min"), *[jnp.zeros((2, 2))] * 2)


def test_what_is_wrong_with_values_is_an_error_of_jax():
    with pytest.raises(Exception, match="an edge is NaN"):
        jax.jit(hj.shortest_paths)(jnp.full((2, 2), jnp.nan)).block_until_ready()
    assert np.array_equal(hj.gemm(jnp.eye(2), jnp.eye(2)), np.eye(2))  # and the next call is right


def test_donated_arrays_and_calls_in_a_loop():
    a = array(4, 4)
    expected = np.linalg.matrix_power(np.asarray(a), 9)
    power = jax.jit(lambda x: jax.lax.fori_loop(0, 8, lambda _, y: hj.gemm(y, a), x), donate_argnums=0)
    assert np.allclose(power(a + 0), expected)


def test_a_donated_array_is_not_read_after_it_is_written():
    a = array(2, 5, 3, 3)
    expected = sequences.scan(np.asarray(a), "max_plus")
    scan = jax.jit(lambda x: hj.scan(hj.scan(x, "max_plus"), "max_plus"), donate_argnums=0)
    assert np.allclose(scan(a + 0), sequences.scan(expected, "max_plus"))
    model = [array(3), array(3, 3), array(2, 5, 3)]
    total = jax.jit(lambda *x: (hj.forward(*x)[0], x[2] * 0), donate_argnums=2)
    assert np.allclose(total(*model[:2], model[2] + 0)[0], sequences.forward(*map(np.asarray, model))[0])


def test_a_mapped_model_is_one_call(way, monkeypatch):
    calls = []
    original = sequences.models._forward

    def counted(model, *rest):
        calls.append(model.emission.shape)
        return original(model, *rest)

    monkeypatch.setattr("harness.sequences.models._forward", counted)
    model = [array(3), array(3, 3), array(100, 5, 3)]
    expected = sequences.forward(*map(np.asarray, model))[0]
    calls.clear()
    got = jax.jit(jax.vmap(lambda *x: hj.forward(*x)[0], in_axes=(None, None, 0)))(*model)
    assert np.allclose(got, expected)
    assert calls == [(100, 5, 3)]


def test_sharded_arrays_are_right():
    """In a process whose JAX has two devices."""
    program = """
import jax, numpy as np
jax.config.update("jax_enable_x64", True)
from jax import numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import harness.jax as hj
from harness import sequences
assert len(jax.devices()) == 2
there = lambda x, *axes: jax.device_put(x, NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P(*axes)))
rng = np.random.default_rng(1)
a, b = rng.normal(size=(8, 6)), rng.normal(size=(6, 4))
for axes in (("x", None), (None, "x")):
    assert np.allclose(jax.jit(hj.gemm)(there(a, *axes), there(b, "x", None)), a @ b)
emission = rng.normal(size=(4, 5, 3))
got = jax.jit(hj.forward)(jnp.zeros(3), jnp.zeros((3, 3)), there(emission, "x"))
for x, y in zip(got, sequences.forward(np.zeros(3), np.zeros((3, 3)), emission)):
    assert np.allclose(x, y)
grad = jax.jit(jax.grad(lambda e: hj.forward(jnp.zeros(3), jnp.zeros((3, 3)), e)[0].sum()))(there(emission, "x"))
assert np.allclose(grad, sequences.posterior(np.zeros(3), np.zeros((3, 3)), emission))
"""
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
