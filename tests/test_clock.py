"""The clock inside a block: where it is marked, which pairs count, and what the marks may cost."""

import pytest
from rooflab.measure import clock
from rooflab.measure.bench import Bench
from rooflab.measure.clock import Mark
from rooflab.record.records import check_schema


class Chip:
    """A GPU that runs at `hz`, on which a mark takes `mark_s`; `multiprocessors` are those that its marks run on in turn."""

    def __init__(self, hz: float = 1.6e9, mark_s: float = 4e-6, multiprocessors: tuple[int, ...] = (0,)) -> None:
        self.hz, self.mark_s, self.multiprocessors = hz, mark_s, multiprocessors
        self.now, self.queue, self.marks, self.made, self.log = 0.0, [], {}, 0, []
        self.joules, self.watts = 5000.0, 700.0
        self.bench = Bench(
            synchronize=self.synchronize, clock=self.look, sleep=self.sleep, stamps=self, gauges=self.gauges
        )
        self.log.clear()  # of the marks that were timed themselves

    def look(self) -> float:
        self.log.append("clock")
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def gauges(self) -> dict[str, float | None]:
        return {"temperature_c": 60.0, "energy_j": self.joules + self.watts * self.now}

    def work(self, seconds: float) -> None:
        self.queue.append(("work", seconds))

    def mark(self, slot: int) -> None:
        self.log.append("mark")
        self.queue.append(("mark", slot))

    def synchronize(self) -> None:
        for kind, value in self.queue:
            self.now += self.mark_s if kind == "mark" else value
            if kind == "mark":
                sm = self.multiprocessors[self.made % len(self.multiprocessors)]
                self.marks[value] = Mark(round(self.now * 1e9), round(self.now * self.hz), sm)
                self.made += 1
        self.queue.clear()

    def read(self, count: int) -> list[Mark]:
        assert not self.queue, "marks are read from an idle device"
        return [self.marks[slot] for slot in range(count)]


def blocks(chip: Chip, block_s: float, **changes: int) -> dict:
    given = {"iterations_per_block": 10, "blocks": 6, "warmups": 3} | changes
    return chip.bench.blocks(lambda: chip.work(block_s / 10), name="burst", implementation="x", **given)


@pytest.mark.parametrize(("block_s", "where"), [(0.015, "inside"), (0.0012, "outside"), (0.0009, None)])
def test_marks_are_timed_only_where_they_weigh_nothing(block_s: float, where: str | None) -> None:
    chip = Chip()
    series = blocks(chip, block_s)
    seen = series["clock"]
    assert seen["where"] == where
    for sample in series["samples_s"]:
        assert sample == pytest.approx(block_s, rel=clock.INSIDE_SHARE)
        assert where == "inside" or sample == pytest.approx(block_s, rel=1e-9)
    if where is None:
        assert (seen["sm_hz"], seen["pairs"], seen["reason"]) == (None, 0, "blocks_under_1_ms")
    else:
        assert seen["sm_hz"] == pytest.approx(1.6e9, rel=1e-4) and seen["pairs"] == 6 and seen["reason"] is None


def test_marks_around_a_block_lie_outside_the_timed_part() -> None:
    chip = Chip()
    blocks(chip, 0.0012, blocks=1)
    timed = chip.log[-4:]
    assert timed == ["mark", "clock", "clock", "mark"]


def test_a_pair_on_two_multiprocessors_does_not_count() -> None:
    seen = blocks(Chip(multiprocessors=(0, 1)), 0.015)["clock"]
    assert (seen["sm_hz"], seen["pairs"], seen["reason"]) == (None, 0, "stamps_on_different_sms")
    some = blocks(Chip(multiprocessors=(0, 0, 0, 1)), 0.015)["clock"]
    assert some["pairs"] == 3 and some["sm_hz"] == pytest.approx(1.6e9, rel=1e-4)


def test_a_timer_that_stands_still_is_no_clock() -> None:
    chip = Chip()
    chip.read = lambda count: [Mark(7, 100 * slot, 0) for slot in range(count)]  # type: ignore[method-assign]
    assert blocks(chip, 0.015)["clock"]["reason"] == "timer_did_not_move"


def test_steps_of_microseconds_have_no_clock() -> None:
    chip = Chip()
    series = chip.bench.sync_each(lambda: chip.work(1e-5), name="fused", implementation="x", warmups=2, iterations=5)
    assert series["clock"]["reason"] == "blocks_under_1_ms" and "mark" not in chip.log


def test_the_parts_of_the_one_block_come_in_order() -> None:
    chip = Chip()
    slower = iter(range(10**6))
    series = chip.bench.blocks(
        lambda: chip.work(180e-6 * (1 + next(slower) / 1000)),
        name="lab", implementation="x", warmups=3, iterations_per_block=100, blocks=1, parts=10,
    )  # fmt: skip
    parts = series["parts_s"]
    assert len(parts) == 10 and sum(parts) == pytest.approx(series["samples_s"][0], rel=0.005)
    assert parts == sorted(parts) and parts[-1] > 1.05 * parts[0]


def test_parts_are_not_marked_where_they_would_weigh() -> None:
    assert blocks(Chip(), 0.003, parts=10, blocks=1)["parts_s"] is None


def test_a_long_run_is_tracked_block_by_block_and_its_watts_are_those_of_the_counter() -> None:
    chip = Chip()
    series = chip.bench.sustained(
        lambda: chip.work(1e-4), name="sustained", implementation="x", seconds=2.0, block_s=0.045
    )
    track = series["track"]
    assert {len(column) for column in track.values()} == {len(series["samples_s"])}
    assert track["sm_hz"][0] == pytest.approx(1.6e9, rel=1e-3)
    assert [each for each in track["temperature_c"] if each is not None] == [60.0] * 4
    assert track["start_s"] == sorted(track["start_s"])
    assert series["chip"]["during"]["power_w"] == pytest.approx(700.0, rel=0.01)


def test_the_chip_does_not_rest_while_the_driver_answers() -> None:
    chip = Chip()
    busy: list[bool] = []
    chip.bench.gauges = lambda: busy.append(bool(chip.queue)) or chip.gauges()  # type: ignore[func-returns-value]
    chip.bench.sustained(lambda: chip.work(1e-4), name="s", implementation="x", seconds=2.0, block_s=0.045)
    assert busy and all(busy)


def test_a_replay_of_milliseconds_has_a_clock() -> None:
    chip = Chip()
    series = chip.bench.sync_each(
        lambda: chip.work(2e-3), name="fused graph cold", implementation="x", warmups=2, iterations=5, nodes=1000
    )
    assert series["clock"]["pairs"] == 5 and series["clock"]["where"] == "inside"


def test_a_burst_has_no_watts() -> None:
    chip = Chip()
    short = chip.bench.sustained(lambda: chip.work(1e-4), name="s", implementation="x", seconds=0.5, block_s=0.045)
    assert "power_w" not in short["chip"]["during"]


def test_a_series_with_a_clock_is_a_valid_one() -> None:
    import synthetic

    chip = Chip()
    long = chip.bench.sustained(lambda: chip.work(1e-4), name="sustained", implementation="x", seconds=1.0, block_s=0.1)
    for series in (blocks(chip, 0.015), blocks(chip, 0.0005), long):
        check_schema("measurement", synthetic.record("gemm", "gpu", "fp16-n4096", series=[series]), "here")
