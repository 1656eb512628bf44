"""`predict.json`: each model on each measured card, what fits, how fast it would be, and what a million tokens cost."""

from collections.abc import Iterable, Mapping
from typing import Any

from rooflab.derive.serving_points import Setting
from rooflab.plan.operators import sequences
from rooflab.predict.shapes import measured_shapes
from rooflab.predict.steps import MARGIN, Card, Record, roof_of, step
from rooflab.theory import step as model_theory
from rooflab.theory import storage
from rooflab.theory.dtypes import dtype
from rooflab.theory.geometry import Decoder, decoder
from rooflab.theory.step import LEFT_OUT

Roofline = Mapping[str, Any]

VERSION = 1


def document(
    asked: Record,
    rooflines: Mapping[str, Roofline],
    prices: Mapping[str, float | None],
    broken: Mapping[str, str],
) -> Record:
    """Everything, in SI units. `asked`: {"models": [{"name", "geometry", "contexts"}], "batches", "dtypes", "kv_dtypes"};
    `prices`: dollars per hour by session; `broken`: why a session could not be read."""
    settings = [
        Setting(each["name"], decoder(each["geometry"]), mine, cached, tuple(each["contexts"]))
        for each in asked["models"]
        for mine in asked["dtypes"]
        for cached in asked["kv_dtypes"]
    ]
    return {
        "schema": "predict",
        "schema_version": VERSION,
        "margin": MARGIN,
        "sessions": [
            *(_session(name, roofline, prices.get(name)) for name, roofline in sorted(rooflines.items())),
            *(_absent(name, reason) for name, reason in sorted(broken.items())),
        ],
        "models": [_model(setting) for setting in settings],
        "predictions": [
            each
            for setting in settings
            for name, roofline in sorted(rooflines.items())
            for each in _predictions(setting, name, roofline, prices.get(name), asked["batches"])
        ],
        "left_out": list(LEFT_OUT),
    }


def _session(name: str, roofline: Roofline, price: float | None) -> Record:
    device = roofline["devices"]["gpu"]
    measured = sorted({model["name"] for model in roofline["models"]})
    return {
        "session": name,
        "device": device["name"] if device else None,
        "memory_bytes": device["memory_bytes"] if device else None,
        "price_usd_per_hour": price,
        "measured_models": measured,
        "reason": None if device else "no GPU was measured in it",
    }


def _absent(name: str, reason: str) -> Record:
    nothing = dict.fromkeys(("device", "memory_bytes", "price_usd_per_hour"))
    return {"session": name, **nothing, "measured_models": [], "reason": reason}


def _model(setting: Setting) -> Record:
    model = setting.model
    size, cached = dtype(setting.dtype).bytes, dtype(setting.kv_dtype).bytes
    return {
        "name": setting.name,
        "dtype": setting.dtype,
        "kv_dtype": setting.kv_dtype,
        "parameters": storage.parameters(model),
        "active_parameters": storage.active_parameters(model),
        "tied": model.tied,
        "stored": storage.scheme(model),
        "context": model.context,
        "beyond_context": sorted(set(setting.asked) - set(sequences(model, list(setting.asked)))),
        "weight_bytes": storage.weight_bytes(model, size),
        "kv_bytes_per_token": storage.kv_bytes_per_token(model, cached),
    }


def _predictions(
    setting: Setting, session: str, roofline: Roofline, price: float | None, batches: Iterable[int]
) -> list[Record]:
    """One entry for each context; none for a session without a GPU."""
    if roofline["devices"]["gpu"] is None:
        return []
    card = Card(roof_of(roofline), measured_shapes(roofline))
    memory = roofline["devices"]["gpu"]["memory_bytes"]
    weights = storage.weight_bytes(setting.model, dtype(setting.dtype).bytes)
    made = []
    for sequence in sequences(setting.model, list(setting.asked)):
        cache = cache_bytes(setting.model, sequence, dtype(setting.kv_dtype).bytes)
        fit = None if memory is None else max(0, memory - weights) // cache
        steps = [step(setting, card, sequence, batch) for batch in _batches(batches, fit)]
        head = {"model": setting.name, "dtype": setting.dtype, "kv_dtype": setting.kv_dtype, "session": session}
        figures = {"sequence": sequence, "cache_bytes_per_sequence": cache, "sequences_that_fit": fit}
        told = [_told(each, fit, price) for each in steps if each is not None]
        made.append(
            head
            | figures
            | {"reason": _reason(weights, memory, fit, told), "notes": _notes(setting, roofline), "steps": told}
        )
    return made


def _batches(asked: Iterable[int], fit: int | None) -> list[int]:
    """The batches that are asked for, and the most sequences that fit where that lies between two of them."""
    known = sorted(asked)
    return sorted({*known, fit}) if fit and known[0] < fit < known[-1] else known


def _notes(setting: Setting, roofline: Roofline) -> list[str]:
    """On what a range rests that was measured of another kind."""
    own = [model for model in roofline["models"] if model["geometry"] == setting.model.as_dict()]
    latent = [model for model in roofline["models"] if model["geometry"]["latent"]]
    if own:
        return [
            f"{roofline['session']} measured {own[0]['name']}, which has these sizes: its page holds the measured steps"
        ]
    if setting.model.latent and not latent:
        return [
            f"{roofline['session']} measured no latent attention: its range rests on attention with keys and values"
        ]
    return []


def cache_bytes(model: Decoder, sequence: int, element_bytes: int) -> int:
    """Bytes of one sequence's cache as the checkpoint stores it."""
    return model_theory.cache_bytes(model, sequence, storage.kv_element_bytes(model, element_bytes))


def _told(step_: Record, fit: int | None, price: float | None) -> Record:
    """A step with its tokens per second and what a million of them cost, at each end of the range."""
    batch = step_["batch"]
    seconds = {name: step_[f"{name}_s"] for name in ("roof", "low", "high")}
    tokens = {f"{name}_tokens_per_s": batch / each if each else None for name, each in seconds.items()}
    usd = {
        f"{name}_usd_per_million_tokens": price / 3600 * each / batch * 1e6 if price is not None and each else None
        for name, each in seconds.items()
    }
    return {**step_, **tokens, **usd, "fits": None if fit is None else batch <= fit}


def _reason(weights: int, memory: int | None, fit: int | None, told: list[Record]) -> str | None:
    """Why there is nothing to serve, or nothing to tell."""
    if not told:
        return "a ceiling it needs was not measured in this session"
    if memory is not None and weights > memory:
        return "the weights do not fit"
    return "no sequence fits beside the weights" if fit == 0 else None
