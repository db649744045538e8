"""Complex tensors of PyTorch: conjugates that it takes when they are read, and gradients by its convention."""

from __future__ import annotations

import importlib.util

import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("package torch is not installed", allow_module_level=True)

import torch

from harness import ProblemError, axpy, einsum, gemm, gemv, ger, herk, syrk
from harness.api.libraries.pytorch import PyTorch
from harness.torch import gemm as recorded


def drawn(*shape):
    return torch.randn(*shape, dtype=torch.complex128, generator=torch.Generator().manual_seed(sum(shape)))


A, B, C, V = drawn(5, 6), drawn(6, 4), drawn(5, 4), drawn(6)


def test_lazy_conjugates_are_taken_without_a_copy(monkeypatch):
    taken = []
    monkeypatch.setattr(PyTorch, "view", lambda self, x, place: taken.append(x) or x.numpy())  # which takes no lazy one
    for call, expected in (
        (lambda: gemm(A.conj(), B), A.conj() @ B),
        (lambda: gemm(B.mH, A.mH, alpha=1j), 1j * (B.mH @ A.mH)),
        (lambda: gemm(A.conj(), B, conjugate="ab"), A @ B.conj()),
        (lambda: gemv(A, V.conj()), A @ V.conj()),
        (lambda: ger(V, V.conj()), torch.outer(V, V.conj())),
        (lambda: syrk(A.conj()), (A.conj() @ A.mH).tril()),
        (lambda: herk(A.conj()), (A.conj() @ A.mT).tril()),
    ):
        torch.testing.assert_close(call(), expected)
    assert {x.data_ptr() for x in taken} == {A.data_ptr(), B.data_ptr(), V.data_ptr()}


def test_what_else_is_conjugated_or_negated_when_it_is_read_is_right():
    torch.testing.assert_close(gemm(A, B, C.conj(), beta=2j), A @ B + 2j * C.conj())
    torch.testing.assert_close(axpy(V.conj(), V), V + V.conj())
    torch.testing.assert_close(einsum("ik,kj->ij", A.conj(), B), A.conj() @ B)
    assert A.conj().imag.is_neg()
    torch.testing.assert_close(gemm(A.conj().imag, B.real), -A.imag @ B.real)
    for out in (C.conj(), C.conj().imag):
        with pytest.raises(ProblemError, match="out does not hold its elements"):
            gemm(A if out.is_complex() else A.real, B if out.is_complex() else B.real, out=out)


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b, c: recorded(a, b, c, alpha=1 - 2j, beta=2j),
        lambda a, b, c: recorded(b.mH, a.mH),
        lambda a, b, c: recorded(a.conj(), b.conj(), c.conj(), beta=1j),
    ],
)
def test_gradients_are_those_of_finite_differences_and_so_are_their_own(function):
    arguments = [x.clone().requires_grad_() for x in (A, B, C)]
    assert torch.autograd.gradcheck(function, arguments)
    assert torch.autograd.gradgradcheck(function, arguments)


def test_gradients_under_vmap():
    x = drawn(3, 5, 6)
    torch.testing.assert_close(torch.func.vmap(lambda x: recorded(x.conj(), B))(x), x.conj() @ B)
