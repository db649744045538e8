"""``python -m harness``: the same as the command ``gemm-harness``."""

from harness.cli import main

if __name__ == "__main__":
    main()
