"""How a checkpoint stores its weights, and its cache: the `quantization_config` of a `config.json`.

Sources: AWQ arXiv:2306.00978; GPTQ arXiv:2210.17323; fp8 with block scales: DeepSeek-V3, arXiv:2412.19437, section 3.3;
NF4 with double quantization: QLoRA, arXiv:2305.14314, sections 3 and appendix A; LLM.int8(), arXiv:2208.07339; MX
formats: OCP Microscaling 1.0; NVFP4: a scale in fp8 per 16 elements and one in fp32 for all. Layouts of the stored
tensors: the packages `autoawq`, `auto-gptq`, `compressed-tensors`, `bitsandbytes`, `modelopt`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from reprlib import repr as shown
from typing import Any

from rooflab.plan.reading.modules import EXPERTS_ONLY, kept_parts
from rooflab.theory.geometry import Decoder, GeometryError, Quantization

Given = Mapping[str, Any]
Scales = tuple[tuple[int, int, int], ...]  # rows, columns, bits of one scale or zero point

PLACE = "quantization_config"
WHOLE: Scales = ((0, 0, 32),)  # one fp32 for the whole weight
NVFP4: Scales = ((1, 16, 8), (0, 0, 32))
NF4_BLOCK, NF4_BLOCKS = 64, 256  # weights per scale, scales per scale of scales
FP8 = "fp8_e4m3"
PACKED = ("pack-quantized", "int-quantized", "float-quantized", "naive-quantized")


def quantization_of(given: Any, model: Decoder) -> Quantization | None:
    """What `given`, the quantization_config, says of this model; None where there is none.

    Raises GeometryError for a scheme that is not understood, by its field.
    """
    if given is None:
        return None
    if not isinstance(given, Mapping) or given.get("quant_method") not in METHODS:
        method = given.get("quant_method") if isinstance(given, Mapping) else given
        raise GeometryError(f"{PLACE}.quant_method is {shown(method)}: expected one of {', '.join(METHODS)}")
    method = given["quant_method"]
    scheme = METHODS[method](given)
    left = EXPERTS_ONLY if method == "mxfp4" else ()
    kept = kept_parts(model, scheme.listed, scheme.head_kept, left)
    return Quantization(method, scheme.bits, scheme.scales, kept, scheme.kv_bits, scheme.arithmetic)


@dataclass(frozen=True)
class Scheme:
    """What a method says: see Quantization. `listed`: the modules it leaves alone; `head_kept`: and the LM head."""

    bits: int
    scales: Scales
    listed: list[str]
    head_kept: bool = True
    kv_bits: int = 0
    arithmetic: str = ""


def _awq(given: Given) -> Scheme:
    bits, group = _whole(given, "bits", "w_bit"), _group(given, "group_size", "q_group_size")
    zeros: Scales = ((1, group, bits),) if given.get("zero_point", True) else ()
    return Scheme(bits, ((1, group, 16), *zeros), _listed(given, "modules_to_not_convert"))


def _gptq(given: Given) -> Scheme:
    """Scales and packed zero points per group, symmetric or not, and the group of each input in 32 bits."""
    if given.get("modules_in_block_to_quantize"):
        raise GeometryError(
            f"{PLACE}.modules_in_block_to_quantize is given: expected every linear layer, or none by name"
        )
    if given.get("dynamic"):
        raise GeometryError(f"{PLACE}.dynamic is given: expected the same bits for every layer")
    bits, group = _whole(given, "bits"), _group(given, "group_size")
    return Scheme(bits, ((1, group, 16), (1, group, bits), (0, 1, 32)), [], not given.get("lm_head"))


def _fp8(given: Given) -> Scheme:
    block = given.get("weight_block_size")
    if block is not None and (not isinstance(block, list) or len(block) != 2):
        raise GeometryError(f"{PLACE}.weight_block_size is {shown(block)}: expected [rows, columns]")
    scales: Scales = ((int(block[0]), int(block[1]), 32),) if block else WHOLE
    listed = _listed(given, "modules_to_not_convert", "ignored_layers")
    return Scheme(8, scales, listed, kv_bits=_cache_scheme(given), arithmetic=FP8)


def _fbgemm(given: Given) -> Scheme:
    return Scheme(8, ((1, 0, 32),), _listed(given, "modules_to_not_convert"), arithmetic=FP8)


def _compressed(given: Given) -> Scheme:
    groups = given.get("config_groups")
    if not isinstance(groups, Mapping) or not groups:
        raise GeometryError(f"{PLACE}.config_groups is {shown(groups)}: expected groups of weights")
    sparse = (given.get("sparsity_config") or {}).get("format", "dense")
    if sparse != "dense":
        raise GeometryError(f"{PLACE}.sparsity_config.format is {shown(sparse)}: expected dense")
    schemes = [group.get("weights") for group in groups.values()]
    targets = {target for group in groups.values() for target in group.get("targets", ())}
    if targets != {"Linear"} or any(scheme != schemes[0] for scheme in schemes) or not schemes[0]:
        raise GeometryError(
            f"{PLACE}.config_groups has {shown(sorted(targets))}: expected one scheme for Linear layers"
        )
    form, scheme, listed, kv_bits = given.get("format"), schemes[0], _listed(given, "ignore"), _cache_scheme(given)
    bits = _whole(scheme, "num_bits")
    if form == "nvfp4-pack-quantized":
        return Scheme(bits, NVFP4, listed, False, kv_bits)
    if form not in PACKED:
        raise GeometryError(f"{PLACE}.format is {shown(form)}: expected {', '.join(PACKED)} or nvfp4-pack-quantized")
    rows, columns = _granularity(scheme)
    zeros: Scales = () if scheme.get("symmetric", True) else ((rows, columns, bits),)
    arithmetic = _computed_in(scheme, [group.get("input_activations") for group in groups.values()])
    return Scheme(bits, ((rows, columns, 16), *zeros), listed, False, kv_bits, arithmetic)


def _computed_in(weights: Given, activations: list[Any]) -> str:
    """The format of the products where the activations are quantized as the weights are."""
    if any(not isinstance(each, Mapping) or each.get("num_bits") != 8 for each in activations):
        return ""
    if weights.get("num_bits") != 8:
        return ""
    return FP8 if weights.get("type") == "float" else "int8"


def _granularity(scheme: Given) -> tuple[int, int]:
    """Rows and columns of the weight that share a scale, by the strategy."""
    match scheme.get("strategy"):
        case "tensor":
            return 0, 0
        case "channel":
            return 1, 0
        case "group":
            return 1, _group(scheme, "group_size")
        case "block":
            rows, columns = scheme["block_structure"]
            return int(rows), int(columns)
    raise GeometryError(
        f"{PLACE}: weights.strategy is {shown(scheme.get('strategy'))}: expected tensor, channel, group or block"
    )


def _bitsandbytes(given: Given) -> Scheme:
    kept = _listed(given, "llm_int8_skip_modules")
    if given.get("load_in_8bit") or given.get("_load_in_8bit"):
        return Scheme(8, ((1, 0, 32),), kept)
    if not (given.get("load_in_4bit") or given.get("_load_in_4bit")):
        raise GeometryError(f"{PLACE} of bitsandbytes: expected load_in_4bit or load_in_8bit")
    double: Scales = ((1, NF4_BLOCK, 8), (0, NF4_BLOCK * NF4_BLOCKS, 32))
    return Scheme(4, double if given.get("bnb_4bit_use_double_quant") else ((1, NF4_BLOCK, 32),), kept)


def _mxfp4(given: Given) -> Scheme:
    return Scheme(4, ((1, 32, 8),), _listed(given, "modules_to_not_convert"))


def _modelopt(given: Given) -> Scheme:
    inner = given.get("quantization", given)
    algorithm, cache = inner.get("quant_algo"), inner.get("kv_cache_quant_algo")
    known: dict[Any, tuple[int, Scales]] = {"FP8": (8, WHOLE), "NVFP4": (4, NVFP4)}
    if algorithm not in known or cache not in (None, "FP8"):
        raise GeometryError(
            f"{PLACE}.quant_algo is {shown(algorithm)}, kv_cache_quant_algo {shown(cache)}: expected FP8 or NVFP4, and FP8"
        )
    bits, scales = known[algorithm]
    listed = _listed(inner, "ignore", "exclude_modules")
    return Scheme(bits, scales, listed, False, 8 if cache else 0, FP8 if algorithm == "FP8" else "")


METHODS: dict[Any, Callable[[Given], Scheme]] = {
    "awq": _awq,
    "gptq": _gptq,
    "fp8": _fp8,
    "fbgemm_fp8": _fbgemm,
    "compressed-tensors": _compressed,
    "bitsandbytes": _bitsandbytes,
    "mxfp4": _mxfp4,
    "modelopt": _modelopt,
}


def _cache_scheme(given: Given) -> int:
    scheme = given.get("kv_cache_scheme")
    if scheme is None:
        return 0
    bits = scheme.get("num_bits") if isinstance(scheme, Mapping) else scheme
    if bits != 8:
        raise GeometryError(f"{PLACE}.kv_cache_scheme has {shown(bits)} bits: expected 8")
    return 8


def _whole(given: Given, *names: str) -> int:
    value = next((given[name] for name in names if given.get(name) is not None), None)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= 16:
        raise GeometryError(f"{PLACE}: {names[0]} is {shown(value)}: expected bits, 1 to 16")
    return value


def _group(given: Given, *names: str) -> int:
    """Columns that share a scale; 0 for a whole row, which -1 says."""
    value = next((given[name] for name in names if given.get(name) is not None), None)
    if isinstance(value, bool) or not isinstance(value, int) or value == 0:
        raise GeometryError(
            f"{PLACE}: {names[0]} is {shown(value)}: expected columns that share a scale, or -1 for all"
        )
    return max(value, 0)


def _listed(given: Given, *names: str) -> list[str]:
    found = [each for name in names for each in given.get(name) or ()]
    if any(not isinstance(each, str) for each in found):
        raise GeometryError(f"{PLACE}.{names[0]} is {shown(found)}: expected names of modules")
    return found
