#!/usr/bin/env python3
"""Trains small models, has Hugging Face's transformers load their checkpoints' folders as they are, and compares each
token's log-probability in a text with genesis_serve's, and the tokens of texts that are hard for a tokenizer with
genesis_tokenize's. The text is the project's own pages.

  tests/torch/transformers_test.py build/bin

Wants PyTorch and transformers: python3 -m venv E && E/bin/pip install torch transformers; then
E/bin/python tests/torch/transformers_test.py ... Exit code 77: skipped, they are not there.
"""
import json, pathlib, random, subprocess, sys, tempfile, urllib.request

try:
    import torch
    import transformers
except ImportError as error:
    print(f"SKIPPED: no PyTorch or no transformers: {error}")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
PIECES, T, BAR = 1000, 128, 1e-4
MODELS = {
    "llama": ("LlamaForCausalLM", "tie_embeddings: true, rope_theta: 500000.0, vocab_size: 1024", "f32"),
    "qwen3": ("Qwen3ForCausalLM", "tie_embeddings: false, rope_theta: 20000.0, qk_norm: true, norm_eps: 1.0e-6,"
              "vocab_size: 1000", "f32"),
    "half": ("LlamaForCausalLM", "tie_embeddings: false, rope_theta: 10000.0, vocab_size: 1024", "bf16"),
}


def run(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def encode(programs, folder):
    pages = sorted((ROOT / "docs").glob("*.md"))
    run(programs / "genesis_tokenize", "train", "--vocab-size", str(PIECES), "--output", folder / "t.model", *pages)
    run(programs / "genesis_tokenize", "encode", "--tokenizer", folder / "t.model", "--output", folder / "train", *pages)


def train(programs, folder, name):
    _, model, dtype = MODELS[name]
    config = folder / f"{name}.yaml"
    config.write_text(f"""run_dir: {folder / name}
model: {{hidden_size: 64, heads: 4, kv_heads: 2, head_size: 16, ffn_size: 160, layers: 3, {model}}}
data: {{train: {folder / "train"}, tokenizer: {folder / "t.model"}, sequence_length: {T}}}
train: {{steps: 40, batch_size: 8, micro_batch: 8}}
optim: {{lr: 5.0e-3}}
device: {{kind: cpu, dtype: {dtype}}}
""")
    run(programs / "genesis_train", config)
    return folder / name / "checkpoints" / "step_00000040"


def log_probs_of_genesis(programs, checkpoint, tokens):
    """Of tokens[1:], each after those before it."""
    command = [programs / "genesis_serve", checkpoint, "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        url = next(word for line in server.stdout for word in line.split() if word.startswith("http://"))
        listed = json.load(urllib.request.urlopen(url.rstrip("/") + "/v1/models"))["data"]
        body = {"model": listed[0]["id"], "prompt": tokens, "max_tokens": 1, "temperature": 0, "echo": True,
                "logprobs": 1}
        request = urllib.request.Request(url.rstrip("/") + "/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        answer = json.load(urllib.request.urlopen(request))
    finally:
        server.terminate()
        server.wait()
    # Nothing is before the first; the last is the token that was made.
    return torch.tensor(answer["choices"][0]["logprobs"]["token_logprobs"][1 : len(tokens)])


def safetensors(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    for name, t in json.loads(data[8 : 8 + size]).items():
        if name != "__metadata__":
            begin, end = (8 + size + at for at in t["data_offsets"])
            dtype = {"F32": torch.float32, "BF16": torch.bfloat16}[t["dtype"]]
            yield name, torch.frombuffer(bytearray(data[begin:end]), dtype=dtype).reshape(t["shape"])


def rounded_masters(checkpoint, dtype):
    """Every element of the weights' files is the master's, rounded: in their order of rows."""
    weights = dict(safetensors(checkpoint / "model-00001-of-00001.safetensors"))
    masters = {n[7:]: t for n, t in safetensors(checkpoint / "state-rank-0-of-1.safetensors") if n.startswith("master.")}
    rows = lambda name, *parts: torch.cat([weights.pop(f"model.{name}.{p}.weight") for p in parts])
    for name, master in masters.items():
        if ".qkv." in name:
            found = rows(name[:8] + ".self_attn", "q_proj", "k_proj", "v_proj")
        elif ".gate_up." in name:
            found = rows(name[:8] + ".mlp", "gate_proj", "up_proj")
        else:
            other = name if name == "head.weight" else "model." + name
            for ours, theirs in (("model.embed.", "model.embed_tokens."), ("head.", "lm_head."),
                                 (".attn.out.", ".self_attn.o_proj."), (".ffn.down.", ".mlp.down_proj."),
                                 (".attn_norm.", ".input_layernorm."), (".ffn_norm.", ".post_attention_layernorm."),
                                 (".attn.q_norm.", ".self_attn.q_norm."), (".attn.k_norm.", ".self_attn.k_norm.")):
                other = other.replace(ours, theirs)
            found = weights.pop(other)
        assert found.dtype == dtype and torch.equal(found, master.to(dtype)), f"{name} is not its master, rounded"
    assert not weights, f"more than the masters: {list(weights)}"


def hard_texts():
    bits = [" ", "  ", "a", "ab", "the", "kernel", "\n", "\r\n", "\t", "\u2581", "\0", "</s>", "<unk>", "<0x41>", "0", "12",
            "-", "|", "e\u0301", "\u00a0", "\ufffd", "\ufeff", "\u65e5\u672c", "\U0001f600", "\u2028", "\x7f", "ing", "in"]
    dice = random.Random(1)
    texts = [" leading", "trailing ", "</s>", "\u2581", "a\0b", "aaaaaaaaaaa", "abababababa", " " * 70, "\u0130\ufb01"]
    for _ in range(3000):
        some = dice.sample(bits, dice.choice([2, 4, len(bits)]))
        texts.append("".join(dice.choice(some) for _ in range(dice.randint(1, 60))))
    return texts + [line for page in sorted((ROOT / "docs").glob("*.md")) for line in page.read_text().splitlines() if line]


def compare_tokens(programs, folder, checkpoint):
    texts = hard_texts()
    hard = folder / f"hard-{checkpoint.parents[1].name}"
    lines = hard.with_suffix(".jsonl")
    lines.write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    run(programs / "genesis_tokenize", "encode", "--tokenizer", folder / "t.model", "--output", hard, lines)
    eod = json.loads(hard.with_suffix(".json").read_text())["eod"]
    raw, found = hard.with_suffix(".bin").read_bytes(), [[]]
    for i in range(0, len(raw), 2):
        token = int.from_bytes(raw[i : i + 2], "little")
        found.append([]) if token == eod else found[-1].append(token)
    assert found.pop() == [] and len(found) == len(texts), "a document each"
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint, model_max_length=10**9)
    for text, ids in zip(texts, found):
        theirs = tokenizer(text, add_special_tokens=False).input_ids
        assert theirs == ids, f"{text!r} is {ids} here and {theirs} there"
        assert tokenizer(text).input_ids == [eod] + ids
        assert tokenizer.decode([eod] + ids, skip_special_tokens=True) == text, repr(text)
    print(f"{len(texts)} texts have the same tokens by {type(tokenizer).__name__}, and come back")


def main(programs, folder):
    torch.set_num_threads(2)
    encode(programs, folder)
    raw = (folder / "train.bin").read_bytes()
    eod = json.loads((folder / "train.json").read_text())["eod"]
    tokens = [eod] + [int.from_bytes(raw[i : i + 2], "little") for i in range(2000, 2000 + 2 * T - 2, 2)]
    worst = 0.0
    for name, (architecture, _, dtype) in MODELS.items():
        checkpoint = train(programs, folder, name)
        rounded_masters(checkpoint, {"f32": torch.float32, "bf16": torch.bfloat16}[dtype])
        model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint).eval()
        assert type(model).__name__ == architecture, type(model).__name__
        assert model.dtype == {"f32": torch.float32, "bf16": torch.bfloat16}[dtype], model.dtype
        assert model.generation_config.eos_token_id == eod
        compare_tokens(programs, folder, checkpoint)
        with torch.no_grad():
            logits = model.float()(torch.tensor([tokens])).logits[0, :-1]
        expected = logits.log_softmax(-1).gather(1, torch.tensor(tokens[1:])[:, None])[:, 0]
        found = log_probs_of_genesis(programs, checkpoint, tokens)
        error = float((found - expected).abs().max())
        print(f"{name:6} {architecture:17} {dtype:4} mean log-probability {float(expected.mean()):.4f}, "
              f"largest difference {error:.2e}")
        # In bf16 genesis also rounds what it computes: there the bits of the weights are what is held.
        worst = max(worst, error if dtype == "f32" else 0.0)
    print(f"transformers {transformers.__version__}: worst difference in fp32 {worst:.2e}; the bar is {BAR:.0e}")
    return 0 if worst <= BAR else 1


with tempfile.TemporaryDirectory() as temporary:
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(temporary)))
