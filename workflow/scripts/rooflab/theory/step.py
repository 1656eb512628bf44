"""What one decode step of a decoder consists of, and what each part needs: FLOP, bytes, weights, cache. Arithmetic only.

A step is one new token for each of `batch` sequences. Parts are counted once per step: `count` says how often a layer's
part occurs. A fused multiply-add counts as 2 FLOP; each operand moves once.
"""

import math
from dataclasses import dataclass

from rooflab.theory import work as theory
from rooflab.theory.geometry import Decoder, Experts, Latent
from rooflab.theory.work import Work

LEFT_OUT = (
    "sampling",
    "communication between cards",
    "framework overhead between kernels",
    "token embedding",
    "rotary embedding",
    "the new token's write to the cache",
    "biases and the small norms inside attention",
    "an expert's choice and the gather and scatter around it",
)


@dataclass(frozen=True)
class Product:
    """`groups` products Y (rows, n) = X (rows, k) W^T with a weight W (n, k) each; `count` times in a step."""

    part: str
    rows: int
    n: int
    k: int
    count: int
    groups: int = 1

    def weight_elements(self) -> int:
        """Elements of the weights of one occurrence."""
        return self.groups * self.n * self.k

    def work(self, in_bytes: int, out_bytes: int) -> Work:
        """FLOP and bytes of one occurrence: weights and input read, output written."""
        one = theory.gemm(self.rows, self.n, self.k, in_bytes, out_bytes, "reads_and_write")
        return Work(self.groups * one.flop, self.groups * one.bytes)


@dataclass(frozen=True)
class Elementwise:
    """A fused kernel over (rows, width): `kernel` rmsnorm or layernorm with the residual sum before it, silu or gelu,
    with `_gated` where a second half of the input multiplies the first's activation. `count` times in a step."""

    part: str
    kernel: str
    rows: int
    width: int
    count: int

    def work(self, in_bytes: int) -> Work:
        """FLOP and bytes of one occurrence. A norm reads state, addition and gain, and writes both the sum and the norm:
        about 5 FLOP an element. An activation reads its one or two inputs: about 8 FLOP an element."""
        elements = self.rows * self.width
        if "norm" in self.kernel:
            vectors = self.width * (2 if self.kernel == "layernorm" else 1)
            return Work(5 * elements, (4 * elements + vectors) * in_bytes)
        moved = 3 if self.kernel.endswith("_gated") else 2
        return Work(8 * elements, moved * elements * in_bytes)


@dataclass(frozen=True)
class CachedAttention:
    """Attention of one new token a sequence to `length` cached ones; `count` layers of it in a step."""

    part: str
    batch: int
    length: int
    count: int


def attentions(model: Decoder, sequence: int, batch: int) -> list[CachedAttention]:
    """The attention layers at a context of `sequence` tokens: those that see all of it, and those with a window."""
    if model.indexer:
        chosen = min(sequence, model.indexer.chosen)
        return [CachedAttention("attention of the chosen tokens", batch, chosen, model.layers)]
    full, seen = model.layers - model.window_layers, min(sequence, model.window or sequence)
    if seen == sequence:
        return [CachedAttention("attention", batch, sequence, model.layers)]
    made = [CachedAttention("attention", batch, sequence, full)] if full else []
    return [*made, CachedAttention("attention in its window", batch, seen, model.window_layers)]


def attention_work(model: Decoder, batch: int, length: int, kv_bytes: int) -> Work:
    """One layer's attention: the cache read once. With a latent, scores are taken over rank + rope elements and values
    over rank of the same cached row (the absorbed form of arXiv:2405.04434, section 2.1.2): 2 heads (2 rank + rope) FLOP
    a token, so the intensity is about 4 heads / kv_bytes."""
    latent = model.latent
    if latent is None:
        return theory.decode_attention(batch, model.heads, model.kv_heads, length, model.head_dim, kv_bytes)
    tokens = batch * length
    return Work(
        2 * tokens * model.heads * (2 * latent.rank + latent.rope_dim),
        tokens * (latent.rank + latent.rope_dim) * kv_bytes,
    )


def index(model: Decoder, sequence: int, batch: int) -> list[CachedAttention]:
    """The choice of tokens over a context of `sequence`; none where attention sees them all."""
    return [CachedAttention("index of the context", batch, sequence, model.layers)] if model.indexer else []


def index_work(model: Decoder, batch: int, length: int) -> Work:
    """One layer's choice: every head's query against each cached key, read once with its scale."""
    if model.indexer is None:
        return Work(0, 0)
    tokens = batch * length
    return Work(2 * tokens * model.indexer.heads * model.indexer.head_dim, tokens * index_bytes(model))


def index_bytes(model: Decoder) -> int:
    """Bytes that the choice caches per token and layer: a key in fp8 and its scale in fp32."""
    return model.indexer.head_dim + 4 if model.indexer else 0


def cached_elements(model: Decoder) -> int:
    """Elements that one layer caches per token: K and V of each KV head, or the latent and the rotary key."""
    latent = model.latent
    return latent.rank + latent.rope_dim if latent else 2 * model.kv_heads * model.head_dim


def cache_bytes(model: Decoder, sequence: int, kv_bytes: int) -> int:
    """Bytes of one sequence's cache at a context of `sequence` tokens, all layers; a window's layers keep no more than it."""
    kept = (
        [(sequence, model.layers)] if model.indexer else [(a.length, a.count) for a in attentions(model, sequence, 1)]
    )
    return sum(length * count for length, count in kept) * (cached_elements(model) * kv_bytes + index_bytes(model))


def products(model: Decoder, batch: int) -> list[Product]:
    """Every product with weights in one step."""
    layers = model.layers
    around = _latent_products(model, model.latent, batch) if model.latent else _grouped_products(model, batch)
    head = Product("LM head", batch, model.vocabulary, model.width, 1)
    if model.experts is None:
        return [*around, *_mlp(model, "MLP", batch, model.inner, layers), head]
    dense = model.experts.dense_layers
    mlp = _mlp(model, "MLP", batch, model.inner, dense) if dense else []
    return [*around, *mlp, *_expert_products(model, model.experts, batch), head]


def elementwise(model: Decoder, batch: int) -> list[Elementwise]:
    """The fused kernels between the products in one step; the last norm stands before the LM head."""
    kernel = model.activation + ("_gated" if model.gated else "")
    made = [Elementwise("norm", model.norm, batch, model.width, model.norms_per_layer * model.layers + 1)]
    experts = model.experts
    dense = experts.dense_layers if experts else model.layers
    if dense:
        made.append(Elementwise("activation", kernel, batch, model.inner, dense))
    if experts:
        rest = model.layers - dense
        made.append(Elementwise("experts' activation", kernel, batch * experts.chosen, experts.inner, rest))
        if experts.shared:
            inner = experts.shared * experts.inner
            made.append(Elementwise("shared experts' activation", kernel, batch, inner, rest))
    return made


def weight_elements(model: Decoder) -> int:
    """Elements of all weights that a step of a large batch reads: every expert, the LM head, not the token embedding."""
    experts, total = model.experts, 0
    for product in products(model, 1):
        groups = experts.count if experts and product.part.startswith("experts") else product.groups
        total += groups * product.n * product.k * product.count
    return total


def distinct_experts(experts: Experts, batch: int) -> int:
    """How many of the experts at least one of `batch` tokens chooses, expected under even and independent choices:
    count (1 - (1 - chosen / count)^batch), rounded."""
    missed = (1 - experts.chosen / experts.count) ** batch
    return max(experts.chosen, round(experts.count * (1 - missed)))


def _grouped_products(model: Decoder, batch: int) -> list[Product]:
    heads = model.heads * model.stored_head_dim
    fused = heads + 2 * model.kv_heads * model.stored_head_dim
    return [
        Product("QKV", batch, fused, model.width, model.layers),
        Product("attention output", batch, model.width, heads, model.layers),
    ]


def _latent_products(model: Decoder, latent: Latent, batch: int) -> list[Product]:
    """The query and the latent come from the same state, so they are one product. Absorbed: each head's query goes
    through its own share of the key's weights, its result through that of the value's."""
    layers, width = model.layers, model.width
    query, cached = model.heads * (latent.nope_dim + latent.rope_dim), latent.rank + latent.rope_dim
    made = [Product("query and latent", batch, (latent.query_rank or query) + cached, width, layers)]
    if latent.query_rank:
        made.append(Product("query from its latent", batch, query, latent.query_rank, layers))
    if model.indexer:
        heads, size = model.indexer.heads, model.indexer.head_dim
        made.append(Product("index queries", batch, heads * size, latent.query_rank, layers))
        made.append(Product("index key and weights", batch, size + heads, width, layers))
    return [
        *made,
        Product("heads' queries to the latent", batch, latent.rank, latent.nope_dim, layers, groups=model.heads),
        Product("heads' values from the latent", batch, latent.value_dim, latent.rank, layers, groups=model.heads),
        Product("attention output", batch, width, model.heads * latent.value_dim, layers),
    ]


def _mlp(model: Decoder, name: str, rows: int, inner: int, count: int, groups: int = 1) -> list[Product]:
    up = 2 * inner if model.gated else inner
    told = "gate and up" if model.gated else "up"
    return [
        Product(f"{name} {told}", rows, up, model.width, count, groups),
        Product(f"{name} down", rows, model.width, inner, count, groups),
    ]


def _expert_products(model: Decoder, experts: Experts, batch: int) -> list[Product]:
    """The choice, the shared experts as one MLP, and as many routed ones as are chosen, each with an even share of rows."""
    rest = model.layers - experts.dense_layers
    made = [Product("expert choice", batch, experts.count, model.width, rest)]
    if experts.shared:
        made += _mlp(model, "shared experts", batch, experts.shared * experts.inner, rest)
    groups = distinct_experts(experts, batch)
    rows = math.ceil(batch * experts.chosen / groups)
    return [*made, *_mlp(model, "experts", rows, experts.inner, rest, groups)]
