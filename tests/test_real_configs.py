"""Public configs with their published sizes: what is read of each, held against what is known of its model."""

from real_configs import published

TABLE = published()


def test_the_table_is_wide_and_every_entry_has_its_figures_or_its_refusal() -> None:
    assert len(TABLE) >= 150 and len({entry.name for entry in TABLE}) == len(TABLE)
    assert len({entry.family for entry in TABLE}) >= 25
    for entry in TABLE:
        figures = entry.parameters and entry.kv_bytes_per_token and entry.counted in ("weights", "card", "paper")
        assert bool(figures) != bool(entry.refused), entry.name


def test_few_of_the_table_are_there_to_be_refused() -> None:
    assert sum(1 for entry in TABLE if entry.refused) <= 0.15 * len(TABLE)
