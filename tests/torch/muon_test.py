#!/usr/bin/env python3
"""Trains a small model by genesis_train and by PyTorch from one checkpoint on, with the same samples, in fp32, and
compares the parameters 20 steps later: matrices of the layers by torch.optim.Muon, all else by torch.optim.AdamW.
The text is the project's own pages.

  tests/torch/muon_test.py build/bin

Wants PyTorch 2.9 or newer: python3 -m venv E && E/bin/pip install torch && E/bin/python tests/torch/muon_test.py ...
Exit code 77: skipped, there is none.
"""
import json, math, pathlib, re, subprocess, sys, tempfile

try:
    import torch
    from torch.optim import Muon
    import torch.optim._muon as muon_module
except ImportError as error:
    print(f"SKIPPED: no PyTorch with torch.optim.Muon (2.9 or newer): {error}")
    sys.exit(77)
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS, T, B, D, H, KV, K, FF, LAYERS, EPS, THETA = 20, 64, 4, 64, 4, 2, 16, 160, 2, 1e-5, 10000.0
LR, MATRIX_LR, DECAY, CLIP = 1e-3, 4e-3, 0.1, 1.0
BAR = 1e-4
STATE = "state-rank-0-of-1.safetensors"


def tensors(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    found = {}
    for name, t in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = t["data_offsets"]
        values = torch.frombuffer(bytearray(data[8 + size + begin : 8 + size + end]), dtype=torch.float32)
        found[name] = values.reshape(t["shape"]).clone()
    return found


def rmsnorm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * weight


def rotate(x):  # [B, heads, T, K]
    angle = torch.arange(T)[:, None] * THETA ** (-torch.arange(0, K, 2, dtype=torch.float64) / K)
    cos, sin = torch.cos(angle).float(), torch.sin(angle).float()
    a, b = x[..., : K // 2], x[..., K // 2 :]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def loss_of(p, tokens, targets):
    x = p["embed.weight"][tokens]
    for i in range(LAYERS):
        name = f"layers.{i}."
        h = rmsnorm(x, p[name + "attn_norm.weight"])
        heads = lambda part, n: (h @ p[name + part].T).view(B, T, n, K).transpose(1, 2)
        q, k, v = rotate(heads("q", H)), rotate(heads("k", KV)), heads("v", KV)
        k, v = k.repeat_interleave(H // KV, 1), v.repeat_interleave(H // KV, 1)
        mix = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + mix.transpose(1, 2).reshape(B, T, H * K) @ p[name + "attn.out.weight"].T
        h = rmsnorm(x, p[name + "ffn_norm.weight"])
        x = x + (F.silu(h @ p[name + "gate"].T) * (h @ p[name + "up"].T)) @ p[name + "ffn.down.weight"].T
    logits = rmsnorm(x, p["norm.weight"]) @ p["embed.weight"].T
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def apart(t):  # the matrices of fused tensors by themselves
    parts = {}
    for name, value in t.items():
        if ".attn.qkv.weight" in name:
            pieces = zip("qkv", value.split([H * K, KV * K, KV * K]))
            parts.update({name.replace("attn.qkv.weight", key): piece.clone() for key, piece in pieces})
        elif ".ffn.gate_up.weight" in name:
            pieces = zip(("gate", "up"), value.split([FF, FF]))
            parts.update({name.replace("ffn.gate_up.weight", key): piece.clone() for key, piece in pieces})
        else:
            parts[name] = value
    return parts


def masters(checkpoint):
    state = tensors(checkpoint / STATE).items()
    return apart({name[len("master.") :]: value for name, value in state if name.startswith("master.")})


def by_genesis(program, dataset, meta, scale, run):
    fields = f"""run_dir: {run}
model: {{vocab_size: {meta["vocab_size"]}, hidden_size: {D}, heads: {H}, kv_heads: {KV}, head_size: {K},
  ffn_size: {FF}, layers: {LAYERS}, tie_embeddings: true, rope_theta: {THETA}, norm_eps: {EPS}}}
data: {{train: {dataset}, sequence_length: {T}}}
train: {{steps: {STEPS + 1}, batch_size: {B}, micro_batch: {B}}}
optim: {{kind: muon, lr: {LR}, matrix_lr: {MATRIX_LR}, weight_decay: {DECAY}, clip_norm: {CLIP},
  muon_coefficients: jordan, muon_scale: {scale}}}
schedule: {{kind: constant}}
checkpoint: {{every: 1, keep: 0}}
device: {{dtype: f32}}
"""
    config = run.with_suffix(".yaml")
    config.write_text(fields)
    subprocess.run([program, config], check=True, stdout=subprocess.DEVNULL)
    return [run / "checkpoints" / f"step_{step:08d}" for step in (1, STEPS + 1)]


def by_torch(start, batches, scale):
    p = {name: value.requires_grad_() for name, value in masters(start).items()}
    state = tensors(start / STATE)
    moments = apart({name[:-2]: value for name, value in state.items() if name.endswith(".m")})
    squares = {name[:-2]: value for name, value in state.items() if name.endswith(".v")}
    matrices = [name for name in p if name.startswith("layers.") and p[name].dim() == 2]
    others = [name for name in p if name not in matrices]
    muon = Muon([p[n] for n in matrices], lr=MATRIX_LR, weight_decay=DECAY, momentum=0.95,
                adjust_lr_fn="match_rms_adamw" if scale == "adamw" else "original")
    decayed, rest = [n for n in others if p[n].dim() == 2], [n for n in others if p[n].dim() == 1]
    adamw = torch.optim.AdamW([{"params": [p[n] for n in decayed], "weight_decay": DECAY},
                               {"params": [p[n] for n in rest], "weight_decay": 0.0}],
                              lr=LR, betas=(0.9, 0.95), eps=1e-8)
    for name in matrices:
        muon.state[p[name]]["momentum_buffer"] = moments[name].clone()
    for name in others:
        adamw.state[p[name]] = {"step": torch.tensor(1.0), "exp_avg": moments[name].clone(),
                                "exp_avg_sq": squares[name].clone()}
    for tokens, targets in batches:
        for optimizer in (muon, adamw):
            optimizer.zero_grad()
        loss_of(p, tokens, targets).backward()
        torch.nn.utils.clip_grad_norm_(list(p.values()), CLIP)
        for optimizer in (muon, adamw):
            optimizer.step()
    return {name: value.detach() for name, value in p.items()}


def main():
    with tempfile.TemporaryDirectory() as folder:
        return compare(pathlib.Path(sys.argv[1]), pathlib.Path(folder))


def encode(programs, folder):
    tokenize, model, dataset = programs / "genesis_tokenize", folder / "tokenizer.model", folder / "train"
    pages = sorted((ROOT / "docs").glob("*.md"))
    for what in (["train", "--vocab-size", "1024", "--output", model],
                 ["encode", "--tokenizer", model, "--output", dataset]):
        subprocess.run([tokenize, *what, *pages], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return dataset


def compare(programs, folder):
    torch.set_num_threads(2)
    dataset = encode(programs, folder)
    meta = json.loads(dataset.with_suffix(".json").read_text())
    width = 2 if meta["vocab_size"] <= 65536 else 4
    raw = dataset.with_suffix(".bin").read_bytes()
    all_tokens = [int.from_bytes(raw[i : i + width], "little") for i in range(0, len(raw), width)]
    order = {}  # the order of the samples, as docs/data.md has it
    exec(re.search(r"```python\n(.*?)```", (ROOT / "docs/data.md").read_text(), re.S)[1], order)
    eod = meta["eod"]

    def batch(step):
        tokens, targets = [], []
        for n in range(step * B, step * B + B):
            _, i = order["sample"](n, [1], [len(all_tokens)], T, 1)
            targets.append(all_tokens[i * T : (i + 1) * T])
            tokens.append([all_tokens[i * T - 1] if i > 0 else eod] + targets[-1][:-1])
        return torch.tensor(tokens), torch.tensor(targets)

    batches = [batch(step) for step in range(1, STEPS + 1)]
    # PyTorch iterates in bf16 whatever the parameters are: here in fp32, all else of it as it is.
    source = pathlib.Path(muon_module.__file__).read_text()
    assert source.count("dtype=torch.bfloat16") == 1, "torch.optim.Muon is not what it was in 2.15: look at it"
    fp32 = lambda _, name: getattr(torch, "float32" if name == "bfloat16" else name)
    muon_module.torch = type("Fp32", (), {"__getattr__": fp32})()
    worst = 0.0
    for scale in ("adamw", "spectral"):
        start, end = by_genesis(programs / "genesis_train", dataset, meta, scale, folder / scale)
        before, expected = masters(start), masters(end)
        found = by_torch(start, batches, scale)
        for name, value in found.items():
            error = float((value - expected[name]).norm() / expected[name].norm())
            moved = float((expected[name] - before[name]).norm() / expected[name].norm())
            print(f"{scale:9} {name:28} relative difference {error:.2e}, moved by {moved:.2e}")
            assert moved > 10 * BAR, "nothing was trained"
            worst = max(worst, error)
    print(f"worst relative difference after {STEPS} steps: {worst:.2e}; the bar is {BAR:.0e}")
    return 0 if worst <= BAR else 1


sys.exit(main())
