"""A fake clock and a fake device prove the order of events: warm-ups, synchronise, timed, synchronise."""

from statistics import median

from rooflab.measure.bench import Bench


class Fake:
    """A device that takes `cost_s` per call, and writes down everything that happens to it."""

    def __init__(self, cost_s: float = 0.5) -> None:
        self.now, self.cost_s, self.log, self.queued = 0.0, cost_s, [], 0.0
        self.bench = Bench(
            synchronize=self.synchronize, state=self.state, clock=self.clock, sleep=self.sleep, pulse=lambda text: None
        )

    def clock(self) -> float:
        self.log.append("clock")
        return self.now

    def synchronize(self) -> None:
        self.now += self.queued
        self.queued = 0.0
        self.log.append("sync")

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.log.append("idle")

    def state(self) -> dict:
        self.log.append("state")
        return {"sm_clock_hz": 1.0}

    def call(self) -> None:
        self.queued += self.cost_s
        self.log.append("call")


def test_sync_each_synchronises_on_both_sides_of_every_sample() -> None:
    fake = Fake()
    series = fake.bench.sync_each(fake.call, name="x", implementation="i", warmups=3, iterations=2)
    warm = ["state", "call", "call", "call", "sync"]
    sample = ["sync", "clock", "call", "sync", "clock"]
    assert fake.log[: len(warm) + 2 * len(sample)] == warm + sample * 2
    assert series["samples_s"] == [0.5, 0.5] and series["warmups"] == 3 and series["timing"] == "sync_each"


def test_the_state_is_never_read_inside_a_timed_region() -> None:
    fake = Fake()
    fake.bench.blocks(fake.call, name="x", implementation="i", warmups=1, iterations_per_block=4, blocks=3, gap_s=0.2)
    inside = False
    for event in fake.log:
        inside = (not inside) if event == "clock" else inside
        assert not (inside and event in ("state", "idle"))


def test_a_block_is_idle_then_synchronised_then_timed_whole() -> None:
    fake = Fake()
    series = fake.bench.blocks(fake.call, name="lab", implementation="i", warmups=3, iterations_per_block=100, blocks=1)
    start = fake.log.index("clock")
    assert fake.log[start - 1] == "sync" and fake.log[start + 1 : start + 101] == ["call"] * 100
    assert fake.log[start + 101 : start + 103] == ["sync", "clock"]
    assert series["samples_s"] == [50.0] and series["iterations_per_sample"] == 100


def test_a_burst_rests_before_every_block_and_fills_the_block_length() -> None:
    fake = Fake(cost_s=0.001)
    series = fake.bench.burst(
        fake.call, name="burst", implementation="i", warmups=3, block_s=0.015, blocks=4, gap_s=0.2
    )
    assert series["iterations_per_sample"] == 15 and fake.log.count("idle") == 4
    assert abs(median(series["samples_s"]) - 0.015) < 1e-9


def test_sustained_load_lasts_as_long_as_asked_without_a_gap() -> None:
    fake = Fake(cost_s=0.01)
    series = fake.bench.sustained(fake.call, name="s", implementation="i", seconds=1.0, block_s=0.1)
    assert sum(series["samples_s"]) >= 1.0 and "idle" not in fake.log and series["chip"]["during"]


def test_a_graph_of_many_nodes_says_how_many_kernels_a_sample_holds() -> None:
    fake = Fake()
    series = fake.bench.sync_each(
        fake.call, name="fused graph", implementation="fused", warmups=1, iterations=5, launch="graph", nodes=100
    )
    assert series["timing"] == "graph" and series["iterations_per_sample"] == 100


def test_the_work_before_a_measurement_is_outside_its_samples() -> None:
    fake = Fake()
    fake.queued = 100.0  # a cache being written when the measurement begins
    series = fake.bench.sync_each(fake.call, name="x", implementation="i", warmups=0, iterations=1)
    assert series["samples_s"] == [0.5]
