"""The backends that auto tries first where nothing was measured near a product."""

# Backends that gemm(..., backend="auto") tries first, for arrays on the host and on a GPU; then any by falling step.
AUTO_FIRST = ("cpu-simd", "cpu-mixed")
AUTO_FIRST_ON_GPU = (
    "gpu-mv-tuned",
    "gpu-ozaki",
    "gpu-cublas",
    "gpu-tensor-core",
    "gpu-bits",
    "gpu-paired",
    "gpu-tuned",
)
