"""Writes a model that answers word for word what a test wants: a GGUF file of a few hundred kB.

Each token alone decides the next one: one layer that adds nothing, embeddings that are random
signs, and an output matrix whose row for a token is the sum of the embeddings of all tokens before
it in an answer. A message that is the name of an answer, "<answer-name>", is one token; the template
puts it last, and the answer follows.
"""

import random
import struct

WIDTH = 128
END, START = "<|im_end|>", "<|im_start|>"
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4

TEMPLATE = (
    "{% for tool in tools or [] %}{{ tool | tojson }}\n{% endfor %}"
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}"
    "{% if m.reasoning_content %}{{ '<think>' + m.reasoning_content + '</think>' }}{% endif %}"
    "{{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}"
    "{{ '<tool_call>' + ({'name': c.function.name, 'arguments': c.function.arguments} | tojson) "
    "+ '</tool_call>' }}{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant' + messages[-1].content }}{% endif %}"
)


def name_of(answer):
    """The message that asks for an answer."""
    return f"<answer-{answer}>"


def byte_alphabet():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, extra = {b: chr(b) for b in printable}, 256
    for byte in range(256):
        if byte not in letters:
            letters[byte], extra = chr(extra), extra + 1
    return letters


def split(text, control, taken):
    """Tokens of an answer: control tokens, and pieces of a few letters that no answer has yet. None
    where there is no way."""
    if not text:
        return []
    found = next((c for c in control if text.startswith(c)), None)
    room = min([text.find(c) for c in control if c in text] or [len(text)])
    for n in [len(found)] if found else range(min(3, room), room + 1):
        if text[:n] in taken:
            continue
        rest = split(text[n:], control, taken | {text[:n]})
        if rest is not None:
            return [text[:n], *rest]
    return None


def pack_string(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def pack_value(value):
    if isinstance(value, bool):
        return struct.pack("<I?", BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", UINT32, value)
    if isinstance(value, float):
        return struct.pack("<If", FLOAT32, value)
    if isinstance(value, str):
        return struct.pack("<I", STRING) + pack_string(value)
    strings = isinstance(value[0], str)
    items = (pack_string(v) if strings else struct.pack("<i", v) for v in value)
    return struct.pack("<IIQ", ARRAY, STRING if strings else INT32, len(value)) + b"".join(items)


def write_gguf(path, metadata, tensors):
    """tensors: name to (rows, columns or None, list of floats or their bytes)."""
    infos, data = b"", b""
    for name, (rows, columns, values) in tensors.items():
        dims = (rows,) if columns is None else (columns, rows)
        head = struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, 0, len(data))
        infos += pack_string(name) + head
        raw = values if isinstance(values, bytes) else struct.pack(f"<{len(values)}f", *values)
        data += raw + bytes(-len(raw) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(pack_string(key) + pack_value(value) for key, value in metadata.items())
    head += infos
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % 32) + data)


def weights(n_vocab, following):
    """following: token to the next one."""
    rng = random.Random(1)
    signs = [[rng.choice((-1.0, 1.0)) for _ in range(WIDTH)] for _ in range(n_vocab)]
    output = [[0.0] * WIDTH for _ in range(n_vocab)]
    for token, after in following.items():
        output[after] = [a + b for a, b in zip(output[after], signs[token])]
    zeros = (WIDTH, WIDTH, [0.0] * WIDTH * WIDTH)
    ones = (WIDTH, None, [1.0] * WIDTH)
    layer = dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), zeros)
    layer |= dict.fromkeys(("ffn_gate", "ffn_up", "ffn_down"), zeros)
    layer |= {"attn_norm": ones, "ffn_norm": ones}
    return {
        "token_embd.weight": (n_vocab, WIDTH, sum(signs, [])),
        "output.weight": (n_vocab, WIDTH, sum(output, [])),
        "output_norm.weight": ones,
    } | {f"blk.0.{name}.weight": tensor for name, tensor in layer.items()}


def write_scripted_model(path, answers, control=(), template=TEMPLATE):
    """answers: name to text, in which the texts of `control` are control tokens."""
    letters = byte_alphabet()
    tokens = [letters[byte] for byte in range(256)] + ["ab", START, END]
    types = [NORMAL] * 257 + [CONTROL] * 2
    ids = {END: 258}

    def add(text, kind):
        ids[text] = len(tokens)
        tokens.append(text if kind != NORMAL else "".join(letters[b] for b in text.encode()))
        types.append(kind)

    for text in control:
        add(text, CONTROL)
    # Single bytes have tokens already; a control token stands once, with one token behind it.
    taken, following = {chr(b) for b in range(128)} | {"ab"}, {}
    for name, text in answers.items():
        add(name_of(name), USER_DEFINED)
        pieces = [name_of(name), *split(text, control, taken), END]
        taken.update(pieces)
        for piece in pieces[1:-1]:
            if piece not in ids:
                add(piece, NORMAL)
        for piece, after in zip(pieces, pieces[1:]):
            if following.setdefault(ids[piece], ids[after]) != ids[after]:
                raise ValueError(f"two tokens follow {piece!r}")
    metadata = {
        "general.architecture": "llama",
        "llama.context_length": 2048,
        "llama.embedding_length": WIDTH,
        "llama.block_count": 1,
        "llama.feed_forward_length": WIDTH,
        "llama.attention.head_count": 2,
        "llama.attention.head_count_kv": 2,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": WIDTH // 2,
        "llama.rope.freq_base": 10000.0,
        "llama.vocab_size": len(tokens),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.bos_token_id": 257,
        "tokenizer.ggml.eos_token_id": 258,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": template,
    }
    write_gguf(path, metadata, weights(len(tokens), following))
