"""Gradients of sequences over PyTorch: against finite differences, and where nothing is possible."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from harness import ProblemError  # noqa: E402
from harness.sequences import chain, forward, posterior, scan, viterbi  # noqa: E402

LENGTHS = [4, 2, 0]


def tensor(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(0, 1, shape)).requires_grad_()


@pytest.mark.parametrize("initial", [(3,), (3, 3)])
@pytest.mark.parametrize("transition", [(3, 3), (3, 3, 3), (3, 3, 3, 3), (3, 1, 3, 3)])
@pytest.mark.parametrize("function", [forward, viterbi])
def test_models_of_batches(function, initial, transition):
    which = 0 if function is forward else 1
    model = tensor(*initial), tensor(*transition, seed=1), tensor(3, 4, 3, seed=2)
    assert torch.autograd.gradcheck(lambda *x: function(*x, LENGTHS)[which] * torch.tensor([1.0, -2.0, 0.5]), model)


def test_no_steps_have_gradients_of_zero():
    model = tensor(3), tensor(3, 3), tensor(2, 0, 3)
    for x in (forward(*model)[0], viterbi(*model)[1]):
        assert all((grad == 0).all() for grad in torch.autograd.grad(x.sum(), model))


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("states", [1, 3])
def test_models_of_one_sequence(steps, states):
    model = tensor(states), tensor(states, states, seed=1), tensor(steps, states, seed=2)
    assert torch.autograd.gradcheck(lambda *x: forward(*x)[0], model)
    assert torch.autograd.gradcheck(lambda *x: viterbi(*x)[1], model)


def test_the_gradient_of_the_emission_is_the_posterior():
    model = tensor(3), tensor(3, 3, seed=1), tensor(2, 6, 3, seed=2)
    forward(*model)[0].sum().backward()
    assert np.allclose(model[2].grad, posterior(*[x.detach() for x in model]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_narrow_tensors_have_gradients_of_their_dtype(dtype):
    model = [x.detach().to(dtype).requires_grad_() for x in (tensor(3), tensor(3, 3), tensor(2, 6, 3))]
    total, alphas = forward(*model)
    assert total.dtype == torch.float32
    assert not alphas.requires_grad
    total.sum().backward()
    assert [x.grad.dtype for x in model] == [dtype] * 3


@pytest.mark.parametrize("transition", [(3, 3), (3, 3, 3)])
def test_where_nothing_is_possible_gradients_are_zero(transition):
    model = [tensor(3), tensor(*transition), tensor(2, 4, 3)]
    with torch.no_grad():
        model[2][0, 2] = -torch.inf
        model[1][..., 0, 1] = -torch.inf
    for function, which in ((forward, 0), (viterbi, 1)):
        grads = torch.autograd.grad(function(*model)[which][0], model)
        assert all((x == 0).all() for x in grads)
        grads = torch.autograd.grad(function(*model)[which][1], model)
        assert all(x.isfinite().all() for x in grads)
        assert (grads[1][..., 0, 1] == 0).all()


def test_lost_weights_do_not_overflow():
    model = [x.detach().float().requires_grad_() for x in (tensor(4), tensor(4, 4) * 60, tensor(30, 4) * 60)]
    wide = [x.detach().double().requires_grad_() for x in model]
    forward(*model)[0].backward()
    forward(*wide)[0].backward()
    for narrow, exact in zip(model, wide, strict=True):
        assert torch.allclose(narrow.grad.double(), exact.grad, atol=1e-3)


@pytest.mark.parametrize("semiring", ["plus_times", "logaddexp_plus", "max_plus"])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_scans_and_chains(semiring, steps):
    a, initial = tensor(2, steps, 3, 3), tensor(2, 3, seed=1)
    assert torch.autograd.gradcheck(lambda x: chain(x, semiring), a)
    for reverse in (False, True):
        assert torch.autograd.gradcheck(lambda x, r=reverse: scan(x, semiring, reverse=r), a)
        both = (a, initial)
        assert torch.autograd.gradcheck(lambda x, y, r=reverse: scan(x, semiring, initial=y, reverse=r), both)
        got = scan(a, semiring, initial=initial, reverse=reverse).detach()
        assert torch.allclose(got, scan(a.detach(), semiring, initial=initial.detach(), reverse=reverse))


def test_what_has_no_gradient_says_so():
    with pytest.raises(ProblemError, match="no gradients over lor_land"):
        chain(tensor(2, 3, 3), "lor_land")
    with pytest.raises(ProblemError, match="transition does not chain"):
        forward(tensor(3), tensor(4, 3), tensor(5, 3))
    emission = tensor(5, 3)
    total, _ = forward(tensor(3), tensor(3, 3), emission)
    (first,) = torch.autograd.grad(total, emission, create_graph=True)
    with pytest.raises(ProblemError, match="cannot be differentiated again"):
        first.sum().backward()


def test_tensors_without_gradients_are_computed_in_place():
    model = [x.detach() for x in (tensor(3), tensor(3, 3), tensor(2, 4, 3))]
    total, alphas = forward(*model, torch.tensor([4, 2]))
    expected = forward(*[x.numpy() for x in model], [4, 2])
    assert np.array_equal(total, expected[0])
    assert np.array_equal(alphas, expected[1])
    assert viterbi(*model)[0].dtype == torch.int32
