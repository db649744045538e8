"""Products of PyTorch tensors with gradients: `gemm` as an autograd function, over semirings that have one.

Users import `gemm` from `harness.torch`, which needs the package torch (extra "torch"). Imports the nouns and `api`.
Never imports `run`, `timing`, `store` or a backend.
"""

from importlib.util import find_spec

from harness.errors import BackendUnavailable

if find_spec("torch") is None:
    raise BackendUnavailable(
        "harness.torch: PyTorch is not installed", expected="the package torch", fix="pip install torch"
    )

from harness.torch.product import gemm

__all__ = ["gemm"]
