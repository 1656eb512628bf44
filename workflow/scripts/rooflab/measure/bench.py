"""How things are timed: warm-up, synchronise, timed block, synchronise. Which device it is stays outside.

A `Bench` is handed a clock, a sleep, the device's synchronise and its state; tests hand it fakes and check the order
of events. Every method returns one *series*: the seconds of each timed sample, and how they were taken.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rooflab.measure.clock import Call, Stamps, Track, Watch, cost_s
from rooflab.measure.series import Series, series

PULSE_S = 5.0
ANSWER_S = 0.01  # the driver takes some milliseconds to tell temperature and energy
LONG_S = 0.3  # a call so long is a load of its own, tells its time at once, and needs no ramp
RAMP_S = 0.002  # untimed work after an idle gap: the first launches run while the chip wakes up


def _nothing() -> None:
    return None


def _silent(text: str) -> None:
    return None


def _no_state() -> dict[str, Any]:
    return {}


def _no_gauges() -> dict[str, float | None]:
    return {}


@dataclass
class Bench:
    """Times calls on one device.

    `synchronize` returns when the device is idle (nothing to do on a CPU); `state` reads the chip's state (clocks,
    throttle reasons) and `gauges` its temperature and energy counter alone; neither is called inside a timed region.
    `stamps` mark the stream of what is timed; `pulse` is the sign of life; `device` is what a GPU stage works on,
    `weights_path` the checkpoint the user gave, `load_calls` how many calls in flight make a load worth reading the state
    under (one on a CPU, whose calls are not queued), `beside` the specs to be measured in turns with a stage's own.
    """

    synchronize: Callable[[], Any] = _nothing
    state: Callable[[], dict[str, Any]] = _no_state
    pulse: Callable[[str], None] = _silent
    clock: Callable[[], float] = time.perf_counter
    sleep: Callable[[float], None] = time.sleep
    weights_path: str | None = None
    device: Any = None
    load_calls: int = 10
    gauges: Callable[[], dict[str, float | None]] = _no_gauges
    stamps: Stamps | None = None
    beside: tuple[dict[str, Any], ...] = ()

    def __post_init__(self) -> None:
        """Times a pair of stamps, before anything is warm."""
        self.pair_s = cost_s(self.stamps, self.synchronize, self.clock) if self.stamps else 0.0

    def watch(self, expected_s: float | None, parts: int = 1) -> Watch:
        """What times blocks of about `expected_s` (None: not known), and the clock inside them."""
        return Watch(self.stamps, self.synchronize, self.clock, expected_s, self.pair_s, parts)

    def warm_up(self, call: Call, times: int) -> None:
        """Untimed calls, then an idle device."""
        for _ in range(times):
            call()
        self.synchronize()

    def timed(self, call: Call, times: int) -> float:
        """Seconds of `times` calls between two synchronisations of the device."""
        self.synchronize()
        start = self.clock()
        for _ in range(times):
            call()
        self.synchronize()
        return self.clock() - start

    def sync_each(
        self,
        call: Call,
        *,
        name: str,
        implementation: str,
        warmups: int,
        iterations: int,
        launch: str = "python",
        cache: str | None = "warm",
        nodes: int = 1,
    ) -> Series:
        """One sample per call, the device synchronised on both sides of each. `nodes`: kernels one call replays."""
        before = self.state()
        watch = self.watch(self._warm_up_timed(call, warmups) or 0.0)
        timed = watch.timed if watch.where else self.timed
        samples = []
        for index in range(iterations):
            samples.append(timed(call, 1))
            if index % 100 == 0:
                self.pulse(name)
        timing = "graph" if launch == "graph" and nodes > 1 else "sync_each"
        chip = {"before": before, "during": self._state_under_load(call), "after": self.state()}
        taken = series(name, implementation, launch, timing, cache, warmups, nodes, samples, chip)
        return taken | watch.taken()

    def blocks(
        self,
        call: Call,
        *,
        name: str,
        implementation: str,
        warmups: int,
        iterations_per_block: int,
        blocks: int,
        gap_s: float = 0.0,
        ramp_calls: int = 0,
        launch: str = "python",
        cache: str | None = None,
        nodes: int = 1,
        parts: int = 1,
        call_s: float | None = None,
    ) -> Series:
        """`blocks` samples of `iterations_per_block` calls, each bounded by synchronisation, idle for `gap_s` between;
        `ramp_calls` untimed ones follow the gap. `nodes`: kernels, or passes over the data, in one call. `parts` of a block
        are told apart where that costs nothing. `call_s`, about what a call takes, is estimated from the warm-ups."""
        before = self.state()
        estimate = self._warm_up_timed(call, warmups)
        once = estimate if call_s is None else call_s
        watch = self.watch(None if once is None else once * iterations_per_block, parts)
        samples = []
        for _ in range(blocks):
            if gap_s > 0:
                self.sleep(gap_s)
            self.warm_up(call, ramp_calls)
            samples.append(watch.timed(call, iterations_per_block))
            self.pulse(name)
        long = samples[-1] / iterations_per_block >= LONG_S
        chip = {"before": before, "during": self._state_under_load(call, 1 if long else None), "after": self.state()}
        count = iterations_per_block * nodes
        return series(name, implementation, launch, "blocks", cache, warmups, count, samples, chip) | watch.taken()

    def burst(
        self,
        call: Call,
        *,
        name: str,
        implementation: str,
        warmups: int,
        block_s: float,
        blocks: int,
        gap_s: float,
        launch: str = "python",
        cache: str | None = None,
        nodes: int = 1,
    ) -> Series:
        """Short blocks of about `block_s` with idle gaps: what the chip does before its power limit speaks."""
        self.warm_up(call, warmups)
        once = self._seconds_per_call(call)
        return self.blocks(
            call,
            name=name,
            implementation=implementation,
            warmups=0,
            iterations_per_block=max(1, round(block_s / once)),
            blocks=blocks,
            gap_s=gap_s,
            ramp_calls=0 if once >= LONG_S else math.ceil(RAMP_S / once),
            launch=launch,
            cache=cache,
            nodes=nodes,
            call_s=once,
        )

    def sustained(
        self,
        call: Call,
        *,
        name: str,
        implementation: str,
        seconds: float,
        block_s: float,
        launch: str = "python",
    ) -> Series:
        """Back-to-back blocks of about `block_s` for `seconds`, and a `track`: when each began, the chip's clock in it and,
        now and then, its gauges after it. The state under load is read at the end."""
        before = self.state()
        once = self._seconds_per_call(call)
        count = max(1, round(block_s / once))
        watch = self.watch(count * once)
        samples: list[float] = []
        track = Track()
        begin = self.clock()
        while (now := self.clock() - begin) < seconds or not samples:
            samples.append(watch.timed(call, count))
            track.note(now, self._gauges_under_load(call, once) if track.is_due(now) else {})
            self.pulse(name)
        during = self._state_under_load(call, 1 if once >= LONG_S else None)
        chip = {"before": before, "during": during | track.power(), "after": self.state()}
        taken = series(name, implementation, launch, "blocks", None, 0, count, samples, chip)
        return taken | watch.taken() | {"track": track.columns(watch)}

    def seconds_per_call(self, call: Call, at_least_s: float = 0.0) -> float:
        """A quick estimate for choosing between candidates and block lengths: the best of three short blocks."""
        self.warm_up(call, 1)
        once = self._seconds_per_call(call)
        if once >= LONG_S:
            return once
        count = max(1, math.ceil(at_least_s / once))
        return min(self.timed(call, count) for _ in range(3)) / count

    def _gauges_under_load(self, call: Call, call_s: float) -> dict[str, float | None]:
        """The gauges with untimed work in flight, so that the chip does not rest while the driver answers."""
        if self.gauges is _no_gauges:
            return {}
        for _ in range(math.ceil(ANSWER_S / call_s)):
            call()
        gauges = self.gauges()
        self.synchronize()
        return gauges

    def _warm_up_timed(self, call: Call, times: int) -> float | None:
        """The warm-ups, and what one took after the first, which may load code; None where that is not wanted or known."""
        if self.stamps is None or times < 2:
            self.warm_up(call, times)
            return None
        self.warm_up(call, 1)
        return self.timed(call, times - 1) / (times - 1)

    def _seconds_per_call(self, call: Call) -> float:
        first = self.timed(call, 1)
        return first if first >= LONG_S else max(self.timed(call, 3) / 3, 1e-9)

    def _state_under_load(self, call: Call, calls: int | None = None) -> dict[str, Any]:
        """The state with untimed work in flight: a burst of its own, so that no query falls into a sample."""
        for _ in range(calls or self.load_calls):
            call()
        state = self.state()
        self.synchronize()
        return state
