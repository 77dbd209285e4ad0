"""Writes examples/lab/model, the lab's model: `python examples/lab/src/model/make_model.py [DIR]`.

The same bytes everywhere: the only random source is random.Random(SEED).random(), and weights are
made with + - * / and the square root alone, which every machine rounds alike. Nothing is trained.
The last MLP is a table of which letter follows which in the text below; all other weights are
random, and turn the whole context into small changes of that. So the model babbles words that look
like English, and no token of a prompt is without effect.
"""

from __future__ import annotations

import json
import math
import random
import struct
import sys
from array import array
from pathlib import Path
from typing import Dict, List

SEED = 20260101
HIDDEN, MIDDLE, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 32, 48, 2, 4, 2, 8
SPECIAL = ["<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
VOCAB = 264  # 256 bytes, the special tokens, and reserve up to a multiple of 4

SYMBOLS = "abcdefghijklmnopqrstuvwxyz ."
CONTEXT = range(len(SYMBOLS), HIDDEN)  # the features that carry what was said before
TEXT = """
the lock says what runs and the nodes prove that it runs. two sparks serve one model. each of them
holds one half of every layer and they add their halves over the wire. when one of them is frozen
the other waits and the health page still says fine. so ask for a token and count the bytes.
"""

Matrix = List[List[float]]


class Maker:
    """Matrices of random numbers, all from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def matrix(self, rows: int, columns: int, size: float) -> Matrix:
        """Numbers between -size and size."""
        return [
            [size * (2 * self._random.random() - 1) for _ in range(columns)] for _ in range(rows)
        ]


def follower_scores() -> Matrix:
    """scores[a][b]: the root of how often symbol b follows a in TEXT, 1 for the most frequent."""
    text = " ".join(TEXT.split()) + " "
    counts = [[0.0] * len(SYMBOLS) for _ in SYMBOLS]
    for a, b in zip(text, text[1:]):
        counts[SYMBOLS.index(a)][SYMBOLS.index(b)] += 1
    return [[math.sqrt(count / (max(row) or 1)) for count in row] for row in counts]


def embedding(maker: Maker) -> Matrix:
    """One feature per letter, and for every token some context; capitals are weaker letters."""
    rows = [[0.0] * HIDDEN for _ in range(VOCAB)]
    for row, context in zip(rows, maker.matrix(VOCAB, len(CONTEXT), 0.25)):
        for feature, value in zip(CONTEXT, context):
            row[feature] = value
    for number, symbol in enumerate(SYMBOLS):
        rows[ord(symbol)][number] = 0.5
        if symbol.isalpha():
            rows[ord(symbol.upper())][number] = 0.25
    return rows


def last_norm() -> List[float]:
    """Only letters count in the end, and they count much: babble stays readable."""
    return [6.0 if feature < len(SYMBOLS) else 0.0 for feature in range(HIDDEN)]


def writing_only(features: range, matrix: Matrix) -> Matrix:
    """The matrix with zeros in the outputs of all other features."""
    return [row if number in features else [0.0] * len(row) for number, row in enumerate(matrix)]


def layer_weights(maker: Maker, last: bool) -> Dict[str, Matrix]:
    """One layer: the first mixes context, the last turns it and a letter into the next one."""
    written = range(len(SYMBOLS)) if last else CONTEXT
    width = HEADS * HEAD_DIM
    weights = {
        "self_attn.q_proj": maker.matrix(width, HIDDEN, 1.0),
        "self_attn.k_proj": maker.matrix(KV_HEADS * HEAD_DIM, HIDDEN, 1.0),
        "self_attn.v_proj": maker.matrix(KV_HEADS * HEAD_DIM, HIDDEN, 0.4),
        "self_attn.o_proj": writing_only(written, maker.matrix(HIDDEN, width, 0.25)),
        "mlp.gate_proj": maker.matrix(MIDDLE, HIDDEN, 0.5),
        "mlp.up_proj": maker.matrix(MIDDLE, HIDDEN, 0.5),
        "mlp.down_proj": writing_only(written, maker.matrix(HIDDEN, MIDDLE, 0.06)),
    }
    if last:
        add_table(weights)
    return weights


def add_table(weights: Dict[str, Matrix]) -> None:
    """Let unit N of the MLP open for symbol N alone, and write the scores of what follows it."""
    for unit, scores in enumerate(follower_scores()):
        only_this = [1.0 if feature == unit else 0.0 for feature in range(HIDDEN)]
        weights["mlp.gate_proj"][unit] = only_this
        weights["mlp.up_proj"][unit] = only_this
        for feature in range(HIDDEN):
            score = scores[feature] if feature < len(SYMBOLS) else 0.0
            itself = 0.2 if feature == unit else 0.0  # or the letter that is there would win
            weights["mlp.down_proj"][feature][unit] = 0.2 * score - itself


def all_weights() -> Dict[str, Matrix]:
    """Every tensor; those of one dimension as a matrix of one row."""
    maker = Maker(SEED)
    tensors = {"model.embed_tokens.weight": embedding(maker), "model.norm.weight": [last_norm()]}
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}"
        for name, matrix in layer_weights(maker, last=layer == LAYERS - 1).items():
            tensors[f"{prefix}.{name}.weight"] = matrix
        tensors[f"{prefix}.input_layernorm.weight"] = [[1.0] * HIDDEN]
        tensors[f"{prefix}.self_attn.q_norm.weight"] = [[1.5] * HEAD_DIM]
        tensors[f"{prefix}.self_attn.k_norm.weight"] = [[1.5] * HEAD_DIM]
    return tensors


def safetensors(tensors: Dict[str, Matrix]) -> bytes:
    """The tensors in the safetensors format, as F32, sorted by name."""
    header: Dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name in sorted(tensors):
        matrix = tensors[name]
        values = array("f", [value for row in matrix for value in row])
        if sys.byteorder == "big":
            values.byteswap()
        is_vector = name.endswith("norm.weight")
        header[name] = {
            "dtype": "F32",
            "shape": [len(matrix[0])] if is_vector else [len(matrix), len(matrix[0])],
            "data_offsets": [len(data), len(data) + 4 * len(values)],
        }
        data += values.tobytes()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the format wants the tensors aligned
    return struct.pack("<Q", len(text)) + text + data


def config() -> Dict[str, object]:
    """config.json."""
    return {
        "architectures": ["TinySparkForCausalLM"],
        "model_type": "tiny_spark",
        "torch_dtype": "float32",
        "vocab_size": VOCAB,
        "hidden_size": HIDDEN,
        "intermediate_size": MIDDLE,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "embedding_multiplier": 2.0,
        "tie_word_embeddings": True,
        "bos_token_id": 256,
        "eos_token_id": 257,
    }


def tokenizer_config() -> Dict[str, object]:
    """tokenizer_config.json."""
    return {
        "tokenizer_class": "ByteTokenizer",
        "add_bos_token": True,
        "bos_token": SPECIAL[0],
        "eos_token": SPECIAL[1],
        "added_tokens_decoder": {
            str(256 + number): {"content": name, "special": True}
            for number, name in enumerate(SPECIAL)
        },
    }


def files() -> Dict[str, bytes]:
    """Every file of the model, by name."""
    documents = {
        "config.json": config(),
        "generation_config.json": {"bos_token_id": 256, "eos_token_id": 257},
        "tokenizer_config.json": tokenizer_config(),
    }
    texts = {
        name: json.dumps(value, indent=2).encode() + b"\n" for name, value in documents.items()
    }
    return {**texts, "model.safetensors": safetensors(all_weights())}


def main(argv: List[str]) -> None:
    """Write the files into the folder given, or into examples/lab/model."""
    folder = Path(argv[1]) if len(argv) > 1 else Path(__file__).parents[2] / "model"
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files().items():
        (folder / name).write_bytes(data)
        print(f"{folder / name}: {len(data)} bytes")


if __name__ == "__main__":
    main(sys.argv)
