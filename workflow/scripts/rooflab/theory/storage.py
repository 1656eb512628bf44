"""What a model occupies: its parameters, each counted once, and the bytes they and its cache take as they are stored.

Bytes stored and bytes read are two things: a tied embedding is stored once and read once a step as the LM head.
"""

import math
from typing import Any

from rooflab.theory import step
from rooflab.theory.geometry import Decoder, Quantization
from rooflab.theory.step import Product


def parameters(model: Decoder) -> int:
    """Elements of all weights, each once: products and embeddings; without norms and biases, which are less than 1 %."""
    return step.weight_elements(model) + _beside_products(model)


def active_parameters(model: Decoder) -> int:
    """The parameters that one token passes through: of the routed experts the chosen ones, the embedding whole."""
    chosen = sum(each.weight_elements() * each.count for each in step.products(model, 1))
    return chosen + _beside_products(model)


def _beside_products(model: Decoder) -> int:
    return (model.positions + (0 if model.tied else model.vocabulary)) * model.width


def weight_bytes(model: Decoder, element_bytes: int) -> int:
    """Bytes of all weights as stored, `element_bytes` an element where the checkpoint does not quantize it."""
    products = sum(
        round(product_bytes(model, each, element_bytes) * _all_experts(model, each) * each.count)
        for each in step.products(model, 1)
    )
    return products + _beside_products(model) * element_bytes


def product_bytes(model: Decoder, product: Product, element_bytes: int) -> float:
    """Bytes of the weights of one occurrence of a product as stored: the mean over its layers."""
    plain, quantization = product.weight_elements() * element_bytes, model.quantization
    if quantization is None:
        return plain
    kept = dict(quantization.kept).get(product.part, 0)
    share = 1.0 if kept is None else min(1.0, kept / product.count)
    return share * plain + (1 - share) * product.groups * matrix_bytes(quantization, product.n, product.k)


def matrix_bytes(quantization: Quantization, rows: int, columns: int) -> float:
    """Bytes of one quantized weight (rows, columns) with its scales and zero points."""
    bits = rows * columns * quantization.bits
    for over_rows, over_columns, each in quantization.scales:
        bits += each * math.ceil(rows / (over_rows or rows)) * math.ceil(columns / (over_columns or columns))
    return bits / 8


def scheme(model: Decoder) -> dict[str, Any] | None:
    """How the checkpoint stores weights and cache, in plain words and numbers; None where all is in the dtype of serving."""
    stored = model.quantization
    return {"method": stored.method, "bits": stored.bits, "kv_bits": stored.kv_bits or None} if stored else None


def kv_element_bytes(model: Decoder, element_bytes: int) -> int:
    """Bytes of an element of the cache: the checkpoint's where it quantizes the cache, else the dtype of serving's."""
    quantization = model.quantization
    return quantization.kv_bits // 8 if quantization and quantization.kv_bits else element_bytes


def kv_bytes_per_token(model: Decoder, element_bytes: int) -> int:
    """Bytes that one more token takes in the cache of all layers, none of them past its window."""
    attended = step.cached_elements(model) * kv_element_bytes(model, element_bytes)
    return model.layers * (attended + step.index_bytes(model))


def _all_experts(model: Decoder, product: Product) -> float:
    """How often the weights of a step of one token are stored: the routed experts, all of them."""
    routed = model.experts and product.part.startswith("experts")
    return model.experts.count / product.groups if model.experts and routed else 1
