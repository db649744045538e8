"""Marks for tests of what only some vector units have."""

from __future__ import annotations

import pytest

from backends.cpu._vector.unit import usable_units

# Without masks B is always packed and no call is short, so that nothing of either can be seen.
needs_masks = pytest.mark.skipif(
    not {4, 8}.issubset(usable_units()[0].masked_bytes), reason="this processor masks no loads: B is always packed"
)
