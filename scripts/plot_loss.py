#!/usr/bin/env python3
"""Draws a run's metrics.jsonl as an SVG picture: training loss by step, validation bits-per-byte as points.

    scripts/plot_loss.py RUN_DIR OUTPUT.svg

Python's standard library alone.
"""
import json
import sys

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 820, 380, 60, 70, 44, 48


def read(path):
    steps, evals = [], []
    with open(path, encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            if record["kind"] == "step" and isinstance(record["loss"], float):
                steps.append((record["step"], record["loss"]))
            elif record["kind"] == "eval" and isinstance(record.get("bits_per_byte"), float):
                evals.append((record["step"], record["bits_per_byte"]))
    return steps, evals


def ticks(low, high, count=6):
    step = next(s for s in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000)
                if (high - low) / s <= count)
    first = int(low / step + 0.999) * step
    return [first + i * step for i in range(int((high - first) / step) + 1)]


def draw(steps, evals, title):
    last = steps[-1][0]
    top = max(loss for _, loss in steps)
    low = min(loss for _, loss in steps) * 0.9

    def x(step):
        return LEFT + (WIDTH - LEFT - RIGHT) * step / last

    def y(value, lowest, highest):
        return TOP + (HEIGHT - TOP - BOTTOM) * (highest - value) / (highest - lowest)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
           'font-size="12" fill="#333">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{LEFT}" y="24" font-size="15">{title}</text>']
    for value in ticks(low, top):
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value, low, top):.1f}" y2="{y(value, low, top):.1f}" '
                   'stroke="#ddd"/>'
                   f'<text x="{LEFT - 8}" y="{y(value, low, top) + 4:.1f}" text-anchor="end">{value:g}</text>')
    for value in ticks(0, last):
        out.append(f'<text x="{x(value):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{value:g}</text>')
    path = " ".join(f"{x(s):.1f},{y(l, low, top):.1f}" for s, l in steps)
    out.append(f'<polyline points="{path}" fill="none" stroke="#9bb7d4"/>')
    smooth, mean = [], None
    for s, loss in steps:
        mean = loss if mean is None else 0.95 * mean + 0.05 * loss
        smooth.append(f"{x(s):.1f},{y(mean, low, top):.1f}")
    out.append(f'<polyline points="{" ".join(smooth)}" fill="none" stroke="#1f5f9f" stroke-width="2"/>')
    if evals:
        most, least = max(b for _, b in evals) + 0.2, min(b for _, b in evals) - 0.2
        for s, bits in evals:
            px, py = x(s), y(bits, least, most)
            out.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4" fill="#c0562b"/>'
                       f'<text x="{px:.1f}" y="{py - 9:.1f}" text-anchor="middle" fill="#c0562b">{bits:.3f}</text>')
        out.append(f'<text x="{WIDTH - RIGHT}" y="24" text-anchor="end" fill="#c0562b">validation, bits per byte</text>')
    out.append(f'<text x="{WIDTH - RIGHT}" y="40" text-anchor="end" fill="#1f5f9f">training loss, nats a token</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">step</text></svg>')
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    steps, evals = read(sys.argv[1] + "/metrics.jsonl")
    if not steps:
        sys.exit(f"plot_loss: {sys.argv[1]}/metrics.jsonl holds no steps")
    with open(sys.argv[2], "w", encoding="utf-8") as f:
        f.write(draw(steps, evals, sys.argv[1].rstrip("/").split("/")[-1]))


main()
