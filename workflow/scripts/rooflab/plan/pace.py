"""How often a product is taken on a card that is slow in its format: counts shrink until it takes about LIMIT_S, by a rule of
the card's kind alone. Its size and its name stay, the samples stay enough for a median, and the lab's own products as they are.

The rule is in the key: what it gives is what the spec holds. A card that is not slow, or not known, keeps the config's counts.
"""

from collections.abc import Callable, Mapping
from typing import Any

from rooflab.theory import work

LIMIT_S = 20.0
SLOW_FLOP_PER_S = (
    12e12  # by the vendor: below it a product of n = 8192 takes a tenth of a second, and is taken 150 times
)
REACHED = 0.6  # of the vendor's figure, under a power limit
LEAST = 5  # samples of a burst, and products of the lab's one block
LAB_SIZE = 4096
# shares of the products that fit into the limit; a candidate algorithm takes about five
OF_LAB, OF_BURST, OF_SEARCH, OF_WARMUP = 0.3, 0.2, 0.3, 0.03
PRODUCTS_PER_ALGORITHM = 5

Pace = Callable[[str], float | None]  # dtype -> the vendor's dense peak on the card, FLOP/s; None where it is not known


def paced(spec: Mapping[str, Any], rate: float | None) -> dict[str, Any]:
    """The parameters of a product with fewer counts where the card of this `rate`, FLOP/s, takes long for it."""
    if rate is None or rate >= SLOW_FLOP_PER_S or spec["n"] <= LAB_SIZE:
        return dict(spec)
    fit = LIMIT_S * REACHED * rate / work.square_product(spec["n"])
    counts = {
        "warmups": max(1, int(OF_WARMUP * fit)),
        "iterations": max(LEAST, int(OF_LAB * fit)),
        "burst_blocks": max(LEAST, int(OF_BURST * fit)),
        "algorithms": int(OF_SEARCH * fit / PRODUCTS_PER_ALGORITHM),
    }
    return {**spec, **{name: min(spec[name], count) for name, count in counts.items()}}
