"""One check that all pure functions here share."""

from __future__ import annotations

from torch import Tensor


def require_same_shape(**tensors: Tensor) -> None:
    """Raise ValueError, listing every shape by name, unless all are the same."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if len(set(shapes.values())) > 1:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"shapes must agree: {listed}")
