"""Choosing the fastest of several ways, proving what it computed, and refusing what this device can never do."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from rooflab.measure.outcome import Failed, Unsupported
from rooflab.theory.dtypes import refusal

WRONG_KERNEL = "report this with the record: another arithmetic ran, or the kernel is wrong on this chip"
ANOTHER_BLAS = "install another NumPy build, or set OPENBLAS_CORETYPE to an older core"

LEAST_CACHES = 2  # that buffers must exceed together, so that each byte has left the cache before it is used again

Way = TypeVar("Way")
Search = list[dict[str, Any]]


class Checkable(Protocol):
    """Something whose result can be spoilt, computed anew and compared with float64."""

    def poison(self) -> None:
        """Fills the result with what no computation gives."""

    def relative_error(self) -> float:
        """Of what the result holds now, against float64."""


def fastest(ways: Mapping[str, Way], seconds: Callable[[Way], float], unit: str = "call") -> tuple[str, Search]:
    """The name of the way that takes least, and the seconds of each per `unit`. Raises ValueError where there is none."""
    tried: Search = [{"name": name, f"seconds_per_{unit}": seconds(way)} for name, way in ways.items()]
    return min(tried, key=lambda each: each[f"seconds_per_{unit}"])["name"], tried


def verified(error: float, most: float, what: str, remedy: str = WRONG_KERNEL, least: float = 0.0) -> dict[str, float]:
    """`error` and the largest one accepted, as a series holds them. Raises Failed outside of `least` to `most`, and for NaN."""
    if least <= error <= most:
        return {"relative_error": error, "tolerance": most}
    expected = (
        f"{least:.2g} to {most:.2g}: another arithmetic ran than was asked for" if least else f"at most {most:.2g}"
    )
    raise Failed(f"{what} is off by {error:.2g} relative to float64: expected {expected}", remedy)


def computed(case: Checkable, calls: Iterable[Callable[[], Any]], synchronize: Callable[[], Any]) -> float:
    """The relative error of `calls`, made once more on a poisoned result."""
    case.poison()
    for call in calls:
        call()
    synchronize()
    return case.relative_error()


def refuse_too_big(what: str, nbytes: int, total_bytes: int) -> None:
    """Raises Unsupported where something takes more than the device's whole memory."""
    if nbytes > total_bytes:
        raise Unsupported(f"{what} {nbytes} bytes, this GPU has {total_bytes}")


def refuse_cached(section: str, nbytes: int, cache_bytes: int | None) -> None:
    """Raises Unsupported where buffers of so many bytes together would be served by the last-level cache."""
    if cache_bytes and nbytes <= LEAST_CACHES * cache_bytes:
        raise Unsupported(
            f"buffers of {nbytes} bytes lie in the last-level cache of {cache_bytes} bytes, whose rate is not the memory's: "
            f"set {section}.buffer_bytes to more than {LEAST_CACHES * cache_bytes}"
        )


def refuse_format(capability: int, name: str) -> None:
    """Raises Unsupported where a chip of this compute capability (90 for 9.0) does not multiply a dtype or variant."""
    if reason := refusal(name, capability):
        raise Unsupported(reason)
