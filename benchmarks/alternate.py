"""Ours and theirs in turn, on one stream of one card, so that both meet the same chip."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

Call = Callable[[], Any]


def block(device: Any, call: Call, count: int) -> float:
    """Seconds per call of `count` calls between two synchronisations."""
    device.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        call()
    device.synchronize()
    return (time.perf_counter() - start) / count


def alternate(
    device: Any, ours: Call, theirs: Call, blocks: int = 10, block_s: float = 0.015, gap_s: float = 0.2
) -> tuple[list[float], list[float]]:
    """Seconds per call of `blocks` blocks each, taken in turn, after an idle gap and a little untimed work."""
    for call in (ours, theirs):  # the first calls load libraries and choose algorithms
        block(device, call, 3)
    counts = [max(1, round(block_s / block(device, call, 3))) for call in (ours, theirs)]
    samples: tuple[list[float], list[float]] = ([], [])
    for _ in range(blocks):
        for call, count, kept in zip((ours, theirs), counts, samples, strict=True):
            time.sleep(gap_s)
            block(device, call, max(1, count // 8))
            kept.append(block(device, call, count))
    return samples


def row(name: str, peer: str, samples: tuple[list[float], list[float]], per_call: int = 1) -> dict[str, Any]:
    """Medians and their ratio: theirs over ours, so that more than 1 means that ours is faster. `per_call`: steps in a call."""
    ratios = [theirs / ours for ours, theirs in zip(*samples, strict=True)]
    return {
        "case": name,
        "peer": peer,
        "ours_s": median(samples[0]) / per_call,
        "peer_s": median(samples[1]) / per_call,
        "ratio": median(samples[1]) / median(samples[0]),
        "ratio_low": min(ratios),
        "ratio_high": max(ratios),
    }


def fastest(device: Any, calls: dict[str, Call], count: int = 10) -> str:
    """The name of the fastest call."""
    for call in calls.values():
        block(device, call, 2)
    return min(calls, key=lambda name: min(block(device, calls[name], count) for _ in range(3)))
