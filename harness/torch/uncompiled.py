"""`harness.torch.gemm` in a function that `torch.compile` traces: called as it is, its kernels are compiled already.

A module of its own, which `gemm` imports when it is traced: `torch.compiler.disable` imports the whole compiler.
"""

import torch

from harness.torch import product

gemm = torch.compiler.disable(product.gemm)
