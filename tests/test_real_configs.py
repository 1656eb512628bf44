"""Public configs with their published sizes: what is read of each, held against what is known of its model."""

import pytest
from real_configs import Published, published
from rooflab.plan.huggingface import decoder_of
from rooflab.theory import storage
from rooflab.theory.geometry import GeometryError, decoder

TABLE = published()
READ = [entry for entry in TABLE if entry.refused is None]
REFUSED = [entry for entry in TABLE if entry.refused is not None]
IN_TWO_BYTES = 2


def by_name(entry: Published) -> str:
    return entry.name


def test_the_table_is_wide_and_every_entry_has_its_figures_or_its_refusal() -> None:
    assert len(TABLE) >= 150 and len({entry.name for entry in TABLE}) == len(TABLE)
    assert len({entry.family for entry in READ}) >= 25
    for entry in TABLE:
        figures = entry.parameters and entry.kv_bytes_per_token and entry.counted in ("weights", "card", "paper")
        assert bool(figures) != bool(entry.refused), entry.name


def test_most_of_the_table_is_read() -> None:
    assert len(READ) >= 0.85 * len(TABLE)


@pytest.mark.parametrize("entry", READ, ids=by_name)
def test_a_config_is_read_as_its_model_was_published(entry: Published) -> None:
    model = decoder_of(entry.config)
    assert storage.parameters(model) == pytest.approx(entry.parameters, rel=0.01)
    assert storage.kv_bytes_per_token(model, IN_TWO_BYTES) == entry.kv_bytes_per_token
    assert decoder(model.as_dict()) == model


@pytest.mark.parametrize("entry", [each for each in READ if each.active], ids=by_name)
def test_the_active_parameters_are_those_of_the_card(entry: Published) -> None:
    assert storage.active_parameters(decoder_of(entry.config)) == pytest.approx(entry.active, rel=0.02)


@pytest.mark.parametrize("entry", [each for each in READ if each.weight_bytes], ids=by_name)
def test_a_quantized_checkpoint_takes_the_bytes_of_its_files(entry: Published) -> None:
    model = decoder_of(entry.config)
    assert model.quantization is not None
    assert storage.weight_bytes(model, IN_TWO_BYTES) == pytest.approx(entry.weight_bytes, rel=0.01)


@pytest.mark.parametrize("entry", REFUSED, ids=by_name)
def test_what_cannot_be_read_stops_in_one_line_by_its_field(entry: Published) -> None:
    assert entry.refused is not None
    with pytest.raises(GeometryError, match=entry.refused) as caught:
        decoder_of(entry.config)
    assert "\n" not in str(caught.value)
