"""The backend of a product: the named one, or for ``"auto"`` the first of an order that may compute it.

The order is what was measured near the product, in the user's table or the shipped one (`harness.tuning.choice`). Then
come those of `harness.tuning.static_order`, by each backend's own rule on what pays, and all others by falling step. No
order can make a backend compute what it declines, or in an arithmetic that auto does not allow: every one of them is
asked (`Backend.keeps_arithmetic`, `Backend.loosens`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import numpy as np

from harness import machine, registry
from harness.api.arrays import HOST, Arrays
from harness.errors import BackendUnavailable
from harness.interface import ALIGNMENT, Backend, Shortcut
from harness.machine import Machine
from harness.problem import Problem
from harness.semiring import HALF
from harness.tuning.choice import orders
from harness.tuning.choice.classes import Sizes, class_of
from harness.tuning.choice.contenders import is_contender
from harness.tuning.stored import Chip


def choose(
    problem: Problem, name: str, arrays: Arrays = HOST, batch: tuple[int, ...] = (), count: int | None = None
) -> Backend:
    """Return the backend of that name, or for ``"auto"`` the best that can compute `problem` with such arrays.

    Of a batch `problem` is one product. `count` is the number of threads; None: all that this process may use.

    Raises
    ------
    BackendUnavailable
        If there is none, it declines, or it computes on the host and the arrays lie on a device.
    """
    return chooser(name, arrays, count)(problem, batch)


def chooser(name: str, arrays: Arrays, count: int | None) -> Callable[[Problem, tuple[int, ...]], Backend]:
    """Return `choose` for any product, and batch, of such arrays: what sizes do not change is asked once."""
    return _Automatic(arrays, count) if _is_auto(name) else functools.partial(_named, name, arrays)


def _named(name: str, arrays: Arrays, problem: Problem, batch: tuple[int, ...]) -> Backend:
    backend = registry.find(name)
    reason = registry.refusal(backend, problem)
    if reason is None and arrays.on_device and "device arrays" not in backend.takes:
        reason = "it computes on the host, and the arrays lie on a GPU"
    if reason:
        raise BackendUnavailable(
            f"backend {name!r} declines this product",
            got=f"{problem}: {reason}",
            fix=f"backend='auto', or {arrays.other_way}",
        )
    return backend


def check_backend(name: str) -> None:
    """Raise BackendUnavailable unless a backend of that name can run here, for a call that may have no product."""
    if not _is_auto(name):
        registry.find(name)


def _is_auto(name: object) -> bool:
    return isinstance(name, str) and name == "auto"


def _tried_first(arrays: Arrays) -> list[Backend]:
    """Return the backends that auto asks first; one of ours that cannot be loaded is no reason to take a slower one."""
    found = []
    for name in arrays.tried_first():
        if backend := _known(name):
            found.append(backend)
        else:
            registry.check_loaded(name)
    return found


class _Automatic:
    """The choice of ``"auto"`` among backends for such arrays, by `count` threads."""

    def __init__(self, arrays: Arrays, count: int | None) -> None:
        self._arrays, self._firsts = arrays, {backend.name: backend for backend in _tried_first(arrays)}
        place = _place(self._firsts.values(), on_device=arrays.on_device)
        self._tables = orders.tables_of(place) if place else ()
        is_asked = self._tables and not arrays.on_device
        self._threads = count or machine.detect().threads if is_asked else None
        self._able: dict[str, Backend | None] = {}

    def __call__(self, problem: Problem, batch: tuple[int, ...]) -> Backend:
        """Return the backend; raise BackendUnavailable if there is none."""
        whole = dataclasses.replace(problem, batch=batch) if batch else problem
        for name in self._measured(whole) if self._tables else ():
            backend = self._able[name] if name in self._able else self._look_at(name)
            if backend and registry.refusal(backend, problem) is None and is_contender(backend, problem):
                return backend
        behind = []
        for first in self._firsts.values():
            # before the others are asked, which takes ten times as long
            if not first.missing() and first.refuses(problem) is None and first.may_be_chosen(problem):
                if not batch or not first.is_behind(whole):
                    return first
                behind.append(first)
        return behind[0] if behind else _any_other(problem, self._arrays, self._firsts.values())

    def _measured(self, problem: Problem) -> tuple[str, ...]:
        """Return the order that was measured near `problem`, which may be a batch; empty if there is none."""
        firsts, one = self._firsts, problem.of_one()

        def suits(name: str) -> bool:
            return firsts[name].refuses(one) is None and firsts[name].pays(one)

        return orders.order(self._tables, class_of(problem, self._threads), Sizes.of(problem), firsts, suits)

    def _look_at(self, name: str) -> Backend | None:
        """Return a backend that a table names, if it is known and computes here with such arrays."""
        backend = _known(name)
        is_able = backend and ("device arrays" in backend.takes) == self._arrays.on_device
        self._able[name] = found = backend if backend and is_able and not registry.missing(backend) else None
        return found


def _any_other(problem: Problem, arrays: Arrays, firsts: Collection[Backend]) -> Backend:
    """Return the highest step that may be chosen, where none of the `firsts` computes `problem`."""
    # a device computes products of host arrays only if it is named, or as the last resort
    for on_device in (True,) if arrays.on_device else (False, True):
        for backend in registry.automatic(problem, on_device=on_device):
            return backend
    reasons = {first.name: first.missing() or first.refuses(problem) or "only if it is named" for first in firsts}
    got = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
    if arrays.on_device:
        fix = f"arrays on the host: {arrays.other_way}"
        raise BackendUnavailable(f"no backend computes {problem} on this GPU", got=got, fix=fix)
    wide = "float32" if problem.dtype == HALF else problem.dtype.name if problem.is_mixed else ""
    fix = f"convert with astype({wide!r})" if wide else ""
    raise BackendUnavailable(f"no backend here computes {problem}", got=got, fix=fix)


def _known(name: str) -> Backend | None:
    entry = registry.look_up(name)
    return entry.backend if entry else None


def _place(static: Iterable[Backend], *, on_device: bool) -> Machine | Chip | None:
    """Return what was measured on: this machine, or the architecture of the current GPU."""
    if not on_device:
        return machine.detect()
    arch = next(filter(None, (backend.architecture() for backend in static)), "")
    return Chip(arch) if arch else None


def limited_shortcut(shortcut: Shortcut, backend: Backend, problem: Problem, name: str, count: int | None) -> Shortcut:
    """Return a shortcut that takes no product for which ``"auto"`` would choose another backend.

    It is `shortcut` itself where no table names another one first, or `backend` was asked for by name.
    """
    if name != "auto" or not (tables := orders.tables_of(machine.detect())):
        return shortcut
    threads, static = count or machine.detect().threads, HOST.tried_first()
    classes = {class_of(like, threads) for like in _all_forms(problem)}
    fewest = min(orders.sizes_of_others(tables, classes, backend.name, static), default=None)
    if fewest is None:
        return shortcut

    def where_it_is_first(a: Any, b: Any, out: Any, *c: Any) -> bool:
        if _are_matrices(a, b, out) and a.size + b.size >= fewest:
            (m, k), n, batch = a.shape[-2:], b.shape[-1], out.shape[:-2]
            shapes = problem.laid_out(problem.layout, m=m, n=n, k=k, batch=batch)
            first = orders.order(tables, class_of(shapes, threads), Sizes.of(shapes), static)[:1]
            if first and first[0] != backend.name:
                return False
        return shortcut(a, b, out, *c)

    return where_it_is_first


def _are_matrices(*arrays: Any) -> bool:
    return all(x.__class__ is np.ndarray and x.ndim >= 2 for x in arrays)


def _all_forms(problem: Problem) -> Iterator[Problem]:
    """Yield a product of every class that a shortcut for products like `problem` may be called with."""
    for side in (ALIGNMENT, ALIGNMENT + 1):  # of whole and of ragged rows
        for m, batch in itertools.product((1, side), ((), (2,))):
            yield dataclasses.replace(problem, m=m, n=side, k=side, batch=batch)
