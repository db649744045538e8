"""Kernels of sequences on the CPU, where steps by weights and by logarithms take turns; each planted bug is found."""

import numpy as np
import pytest
from llvmlite import ir

from backends.cpu._sequences import run, scaled, step, terms
from backends.cpu._vector import code as v
from harness.sequences import backward, forward, viterbi
from tests._support.planted_kernels import compile_anew
from tests.sequences.test_models import by_definition, random_model

DTYPES = [np.float32, np.float64]


def agree(model, dtype, lengths):
    """Assert that alphas, betas and best paths are those of the definitions."""
    model = [x.astype(dtype) for x in model]
    reach = max(float(np.abs(x[np.isfinite(x)]).max(initial=1)) for x in model)
    states, tolerance = model[0].shape[-1], 30 * float(np.finfo(dtype).eps)
    for function, which in ((forward, 0), (backward, 1)):
        got = function(*model, lengths)[1]
        for b, length in enumerate(lengths):
            matrices = model[1][b, : max(length - 1, 0)] if model[1].ndim == 4 else model[1]
            expected = by_definition(model[0][b], matrices, model[2][b, :length])[which]
            np.testing.assert_allclose(got[b, :length], expected, tolerance, tolerance * reach * (length + states))
            assert (got[b, length:] == -np.inf).all()
    rounded = [np.round(x / 2) for x in model]  # of which sums are exact, and ties are many
    paths, scores = viterbi(*rounded, lengths)
    for b, length in enumerate(lengths):
        x, pointers = rounded[0][b] + rounded[2][b, 0], []
        for t in range(1, length):
            each = x[:, None] + (rounded[1][b, t - 1] if rounded[1].ndim == 4 else rounded[1])
            pointers.append(each.argmax(axis=0))
            x = each.max(axis=0) + rounded[2][b, t]
        path = [int(x.argmax())]
        for pointer in pointers[::-1]:
            path.insert(0, int(pointer[path[0]]))
        assert scores[b] == x.max()
        if x.max() > -np.inf:
            assert paths[b].tolist() == [*path, *[-1] * (len(rounded[2][b]) - length)]


def ordinary():
    for dtype in DTYPES:
        for states in (1, 3, 8, 17, 70):
            agree(random_model(states, 3, 12, states, absent=0.1), dtype, [12, 5, 1])


def changing():
    """Matrices of their own for each step."""
    for dtype in DTYPES:
        agree(random_model(5, 3, 7, 19, each=True, absent=0.2), dtype, [7, 4, 1])


def in_turns():
    """Most steps are narrow; in others weights vanish, come back, or are all that is left."""
    for dtype in DTYPES:
        for states in (3, 8, 20):
            initial, transition, emission = random_model(states, 2, 60, states)
            transition[np.tri(states, k=-1, dtype=bool)] = -np.inf  # states are left for good
            emission[0, ::7, 1:] -= 400
            emission[0, 3::7, 0] -= 3000
            emission[1, 10::9] += np.linspace(-900, 900, states)
            emission[1, 15::9, : states // 2] = -np.inf
            agree((initial, transition, emission), dtype, [60, 60])


def wide():
    for dtype in DTYPES:
        for of_matrix, of_emission in ((1, 300), (300, 1), (300, 300)):
            rng = np.random.default_rng(of_matrix + of_emission)
            matrix = np.where(rng.random((9, 9)) < 0.3, -np.inf, rng.normal(0, of_matrix, (9, 9)))
            agree((np.zeros((2, 9)), matrix, rng.normal(0, of_emission, (2, 30, 9))), dtype, [30, 21])


def growing():
    """Sums that grow with each step."""
    for dtype in DTYPES:
        agree([np.zeros(shape) for shape in ((1, 8), (8, 8), (1, 400, 8))], dtype, [400])


CHECKS = (ordinary, changing, in_turns, wide, growing)


@pytest.mark.parametrize("check", CHECKS)
def test_kernels_as_they_are_pass_each_check(check):
    check()


def constant_bit(value):
    return ir.Constant(ir.IntType(1), value)


def replaced(result):
    """Return a change of what a function returns."""
    return lambda right: lambda *arguments: result(right(*arguments), *arguments)


# By name: the module or class, its function, what makes a wrong one of it, and the check that must fail.
BUGS = {
    "a scaled step always counts": (
        scaled, "scaled", replaced(lambda found, *_: [*found[:-1], constant_bit(1)]), in_turns,
    ),
    "weights are always narrow": (scaled, "weigh", replaced(lambda *_: constant_bit(1)), wide),
    "every sum is trusted": (
        scaled,
        "logarithms",
        lambda right: lambda code, w, lines, numbers, _: right(
            code, w, lines, numbers, ir.Constant(code.element, 0.0)
        ),
        wide,
    ),
    "n of the step before is forgotten": (
        scaled,
        "scaled",
        lambda right: lambda *given: [*(found := right(*given))[:6], ir.Constant(found[6].type, 0), found[7]],
        growing,
    ),
    "lines do not change places": (
        scaled, "scaled", replaced(lambda found, code, w, lines, *_: [found[0], *lines[:2], *lines[3:], *found[5:]]),
        ordinary,
    ),
    "a row of the matrix is left out": (
        terms,
        "sum_of_terms",
        lambda right: lambda code, w, *rest: right(
            code, type(w)(**{**vars(w), "states": code.b.sub(w.states, v.size(1))}), *rest
        ),
        changing,
    ),
    "what is taken off is lost": (terms, "settle", replaced(lambda _, *given: given[-1]), changing),
    "an offset is rounded to whole numbers": (
        step.Code,
        "keep",
        lambda right: lambda code, value, here, at, edge, offset: right(
            code, value, here, at, edge, code.b.sitofp(code.b.fptosi(offset, v.SIZE), offset.type)
        ),
        ordinary,
    ),
    "the last of equal states is taken": (
        ir.IRBuilder,
        "fcmp_ordered",
        lambda right: lambda b, kind, *rest, **options: right(b, "<=" if kind == "<" else kind, *rest, **options),
        ordinary,
    ),
}  # fmt: skip


@pytest.mark.deep(but=3)
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug, monkeypatch):
    where, name, plant, check = BUGS[bug]
    compile_anew(monkeypatch)
    monkeypatch.setattr(run, "_compiled", run._compiled.__wrapped__)
    monkeypatch.setattr(where, name, plant(getattr(where, name)))
    with pytest.raises(AssertionError):
        check()
