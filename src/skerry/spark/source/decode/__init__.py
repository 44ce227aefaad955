"""Payloads to columns: what Spark and every other tool can read without knowing our bytes.

One function with two engines that give equal results (`columnar`): compiled where that is possible,
numpy otherwise. The rules stand in `exact`.
"""

from __future__ import annotations

from skerry.spark.source.decode.exact import WHOLE
from skerry.spark.source.decode.payloads import decode_payloads

__all__ = ["WHOLE", "decode_payloads"]
