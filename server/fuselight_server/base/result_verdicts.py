"""The words for the verdict on compiled results: lenses, hovers, reports, pages and commands all use them."""

from __future__ import annotations

AS_EAGER = "as eager"
DIFFERS = "differs"
NOT_COMPARED = "not compared"
