"""Kinds of values that options take, beyond those of click."""

from __future__ import annotations

import math
from typing import Any

import click

__all__ = ["FiniteFloat"]


class FiniteFloat(click.FloatRange):
    """A number, which neither `nan` (it passes every comparison with a bound) nor `inf` is."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number to count with.", param, ctx)
        return number
