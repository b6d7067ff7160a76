// Curves in a page. Panels come as apps/report/curves.h writes them. All share one horizontal range: zooming one
// zooms all. Text goes into the page as text, never as HTML.
'use strict';

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (value === true) node.setAttribute(key, '');
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

function svgElement(tag, attributes = {}, ...children) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function formatNumber(x) {
  if (x === null || !Number.isFinite(x)) return '–';
  const size = Math.abs(x);
  if (size >= 1e4) {
    const unit = size >= 1e12 ? [1e12, 'T'] : size >= 1e9 ? [1e9, 'B'] : size >= 1e6 ? [1e6, 'M'] : [1e3, 'k'];
    return `${+(x / unit[0]).toPrecision(4)}${unit[1]}`;
  }
  if (size > 0 && size < 1e-4) return x.toExponential(2);
  return String(+x.toPrecision(4));
}

// Round numbers within [low, high]: 1, 2 or 5 times a power of ten apart, at most `most`.
function linearTicks(low, high, most) {
  const least = (high - low) / most, power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= least) || 10 * power;
  const ticks = [];
  for (let i = Math.ceil(low / step); i * step <= high; ++i) ticks.push(i * step);
  return ticks;
}

function logTicks(low, high) {
  const ticks = [];
  for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) {
    for (const factor of high / low > 1e3 ? [1] : [1, 2, 5]) {
      if (factor * power >= low && factor * power <= high) ticks.push(factor * power);
    }
  }
  return ticks.length > 1 ? ticks : linearTicks(low, high, 4);
}

// The mean of what is around a point, weighted by keep^distance.
function smoothed(values, keep) {
  const sums = [...values], weights = values.map(() => 1);
  const add = (first, end, step) => {
    for (let i = first, sum = 0, weight = 0; i !== end; i += step) {
      sums[i] += keep * sum;
      weights[i] += keep * weight;
      sum = keep * sum + values[i];
      weight = keep * weight + 1;
    }
  };
  add(0, values.length, 1);
  add(values.length - 1, -1, -1);
  return sums.map((s, i) => s / weights[i]);
}

// The first index whose x is at least `x`.
function lowerBound(xs, x) {
  let low = 0, high = xs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle + 1; else high = middle;
  }
  return low;
}

class Charts {
  // Fills `container`. show() gives it panels and the runs' names, as often as there is news.
  constructor(container) {
    this.axis = 'step';
    this.keep = 0.9;
    this.zoom = null;        // [low, high] of the axis, or all
    this.cursor = null;      // where the reader points, in the axis' units
    this.hidden = new Set();  // runs
    this.log = new Map();    // by panel's title: what the reader chose
    this.names = [];
    this.panels = [];
    this.figures = new Map();
    this.runs = element('div', {class: 'controls', role: 'group', 'aria-label': 'Runs'});
    this.grid = element('div', {class: 'charts'});
    container.append(this.controls(), this.runs, this.grid);
    new ResizeObserver(() => this.draw()).observe(this.grid);
  }

  controls() {
    const keep = element('output', {}, String(this.keep));
    const smoothing = element('input', {type: 'range', min: 0, max: 0.99, step: 0.01, value: this.keep,
      oninput: () => {
        this.keep = +smoothing.value;
        keep.textContent = smoothing.value;
        this.draw();
      }});
    const axis = element('select', {onchange: () => {
      this.axis = axis.value;
      this.zoom = this.cursor = null;
      this.draw();
    }}, element('option', {value: 'step'}, 'steps'), element('option', {value: 'tokens'}, 'tokens'));
    this.reset = element('button', {type: 'button', disabled: true, onclick: () => this.setZoom(null)}, 'Show all');
    return element('div', {class: 'controls'}, element('label', {}, 'Smoothing', smoothing, keep),
      element('label', {}, 'Over', axis), this.reset,
      element('span', {class: 'faint'}, 'Drag to zoom. Keys: ← → read, + − zoom, 0 all, L logarithm.'));
  }

  show(panels, names) {
    this.panels = panels;
    this.names = names;
    this.runs.hidden = names.length < 2;
    this.runs.replaceChildren(...names.map((name, run) => {
      const button = element('button', {type: 'button', class: `c${run % 7}`, 'aria-pressed': !this.hidden.has(run),
        onclick: () => {
          if (!this.hidden.delete(run)) this.hidden.add(run);
          button.setAttribute('aria-pressed', !this.hidden.has(run));
          this.draw();
        }}, element('span', {class: 'swatch'}), name);
      return button;
    }));
    const titles = panels.map((p) => p.title);
    for (const [title, figure] of this.figures) {
      if (!titles.includes(title)) {
        figure.node.remove();
        this.figures.delete(title);
      }
    }
    for (const panel of panels) {
      if (!this.figures.has(panel.title)) this.figures.set(panel.title, this.makeFigure(panel));
      this.grid.append(this.figures.get(panel.title).node);
    }
    this.draw();
  }

  makeFigure(panel) {
    const title = panel.title;
    const figure = {key: element('span', {class: 'key'}), readout: element('div', {class: 'readout', 'aria-live': 'polite'}),
      svg: svgElement('svg', {tabindex: 0, role: 'group',
        'aria-label': `${title}. Arrow keys read values, plus and minus zoom, 0 shows all, L changes to a logarithmic scale.`})};
    figure.button = element('button', {type: 'button', onclick: () => this.toggleLog(title)}, 'log');
    figure.node = element('figure', {class: 'chart'},
      element('figcaption', {}, element('strong', {}, title), element('span', {class: 'faint'}, panel.unit), figure.button,
        figure.key), figure.svg, figure.readout);
    this.listen(figure, title);
    return figure;
  }

  toggleLog(title) {
    this.log.set(title, !this.isLog(this.panels.find((p) => p.title === title)));
    this.draw();
  }

  isLog(panel) { return this.log.has(panel.title) ? this.log.get(panel.title) : panel.log; }

  setZoom(range) {
    const [low, high] = this.extent();
    if (range) {
      range = [Math.max(low, range[0]), Math.min(high, range[1])];
      if (range[1] - range[0] < 1e-9 * Math.max(1, Math.abs(high))) return;
      if (range[0] <= low && range[1] >= high) range = null;
    }
    this.zoom = range;
    this.reset.disabled = !range;
    this.draw();
  }

  listen(figure, title) {
    const svg = figure.svg;
    let start = null;
    const at = (event) => {
      const box = svg.getBoundingClientRect();
      return figure.scale ? figure.scale.inverse(event.clientX - box.left) : 0;
    };
    svg.addEventListener('pointerdown', (event) => {
      start = at(event);
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener('pointermove', (event) => {
      this.cursor = at(event);
      figure.selection = start === null ? null : [start, this.cursor];
      this.drawCursors();
    });
    svg.addEventListener('pointerup', (event) => {
      const end = at(event);
      const wide = start !== null && Math.abs(figure.scale.x(end) - figure.scale.x(start)) > 8;
      const range = wide ? [Math.min(start, end), Math.max(start, end)] : null;
      start = figure.selection = null;
      this.cursor = end;
      if (range) this.setZoom(range); else this.drawCursors();
    });
    const cancel = () => {
      start = figure.selection = null;
      this.drawCursors();
    };
    svg.addEventListener('pointercancel', cancel);
    svg.addEventListener('pointerleave', () => {
      if (start !== null || document.activeElement === svg) return;
      this.cursor = null;
      this.drawCursors();
    });
    svg.addEventListener('dblclick', () => this.setZoom(null));
    svg.addEventListener('keydown', (event) => this.onKey(event, title));
  }

  onKey(event, title) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [low, high] = this.zoom || this.extent(), size = high - low;
    const cursor = Math.min(high, Math.max(low, this.cursor === null ? (low + high) / 2 : this.cursor));
    const zoomBy = (factor) =>
      this.setZoom([cursor - (cursor - low) * factor, cursor + (high - cursor) * factor]);
    const actions = {
      ArrowLeft: () => this.moveCursor(cursor - size * (event.shiftKey ? 0.1 : 0.01)),
      ArrowRight: () => this.moveCursor(cursor + size * (event.shiftKey ? 0.1 : 0.01)),
      Home: () => this.moveCursor(low), End: () => this.moveCursor(high),
      '+': () => zoomBy(0.5), '=': () => zoomBy(0.5), '-': () => zoomBy(2),
      0: () => this.setZoom(null), Escape: () => this.setZoom(null),
      l: () => this.toggleLog(title), L: () => this.toggleLog(title),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }

  moveCursor(x) {
    const [low, high] = this.zoom || this.extent();
    this.cursor = Math.min(high, Math.max(low, x));
    this.drawCursors();
  }

  shown(panel) { return panel.curves.filter((c) => !this.hidden.has(c.run)); }

  // Of all shown curves, over the axis.
  extent() {
    let low = Infinity, high = -Infinity;
    for (const panel of this.panels) {
      for (const curve of this.shown(panel)) {
        const xs = curve[this.axis].filter((x) => x !== null);
        if (!xs.length) continue;
        low = Math.min(low, xs[0]);
        high = Math.max(high, xs[xs.length - 1]);
      }
    }
    if (low > high) return [0, 1];
    return low === high ? [low - 1, high] : [low, high];
  }

  draw() {
    this.panels.forEach((panel, i) => this.drawPanel(panel, i === 0 ? 300 : 200));
    this.drawCursors();
  }

  // What is between the ends of the axis, and one point more on either side, so that lines reach the edge.
  visible(curve, [low, high]) {
    let {value, low: lows, high: highs} = curve, xs = curve[this.axis];
    if (xs.includes(null)) {
      const known = xs.map((x, i) => [x, i]).filter(([x]) => x !== null).map(([, i]) => i);
      [xs, value, lows, highs] = [xs, value, lows, highs].map((a) => a && known.map((i) => a[i]));
    }
    const line = curve.kind !== 'noisy' || this.keep === 0 ? value : smoothed(value, this.keep);
    const begin = Math.max(0, lowerBound(xs, low) - 1), end = Math.min(xs.length, lowerBound(xs, high) + 2);
    const cut = (a) => a && a.slice(begin, end);
    return {curve, xs: cut(xs), value: cut(value), lows: cut(lows), highs: cut(highs), line: cut(line)};
  }

  // What most values are in: a spike must not flatten the rest.
  valueRange(parts, log) {
    const all = [], lines = [];
    for (const part of parts) {
      for (const v of part.value) if (!log || v > 0) all.push(v);
      for (const v of part.line) if (!log || v > 0) lines.push(v);
    }
    if (!all.length) return [0, 1];
    all.sort((a, b) => a - b);
    const trim = Math.floor(all.length / 200);
    let low = all[trim], high = all[all.length - 1 - trim];
    for (const part of parts) {
      if (part.curve.kind === 'measured') for (const v of part.value) [low, high] = [Math.min(low, v), Math.max(high, v)];
    }
    const size = Math.abs(high);
    if (high - low <= size * 1e-3) return log ? [low / 2, high * 2] : [low - (size / 2 || 1), high + (size / 2 || 1)];
    if (log) return [low / 1.05, high * 1.05];
    const air = (high - low) * 0.05;
    return [low >= 0 ? Math.max(0, low - air) : low - air, high + air];
  }

  drawPanel(panel, height) {
    const figure = this.figures.get(panel.title), svg = figure.svg;
    const width = Math.max(240, svg.clientWidth || svg.parentNode.clientWidth - 26);
    const left = 52, right = 18, top = 8, bottom = 22;
    const domain = this.zoom || this.extent();
    const parts = this.shown(panel).map((c) => this.visible(c, domain)).filter((p) => p.xs.length);
    const positive = parts.every((p) => p.value.every((v) => v > 0));
    const log = this.isLog(panel) && positive;
    const range = this.valueRange(parts, log);
    const f = log ? Math.log : (v) => v;
    const x = (v) => left + (width - left - right) * (v - domain[0]) / (domain[1] - domain[0]);
    const inverse = (px) => domain[0] + (domain[1] - domain[0]) * Math.min(1, Math.max(0, (px - left) / (width - left - right)));
    const y = (v) => top + (height - top - bottom) * (1 - (f(v) - f(range[0])) / (f(range[1]) - f(range[0])));
    figure.scale = {x, y, inverse};
    figure.parts = parts;
    figure.button.setAttribute('aria-pressed', log);
    figure.button.disabled = !positive;

    svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    svg.setAttribute('height', height);
    const id = `clip-${panel.title.replace(/\W+/g, '-')}`;
    const drawn = [svgElement('clipPath', {id}, svgElement('rect', {x: left, y: top - 4, width: width - left - right + 4, height: height - top - bottom + 8}))];
    for (const tick of log ? logTicks(...range) : linearTicks(...range, height > 250 ? 7 : 4)) {
      drawn.push(svgElement('path', {class: 'grid', d: `M${left} ${y(tick).toFixed(1)}H${width - right}`}),
        svgElement('text', {x: left - 6, y: y(tick) + 4, 'text-anchor': 'end'}, formatNumber(tick)));
    }
    for (const tick of linearTicks(...domain, Math.max(2, Math.floor(width / 110)))) {
      drawn.push(svgElement('text', {x: x(tick), y: height - 6, 'text-anchor': 'middle'}, formatNumber(tick)));
    }
    const curves = svgElement('g', {'clip-path': `url(#${id})`});
    for (const part of parts) curves.append(...this.drawCurve(part, x, y));
    figure.overlay = svgElement('g');
    svg.replaceChildren(...drawn, curves, figure.overlay);
    figure.key.replaceChildren(...this.key(panel));
  }

  // With one run its curves by name; with several the runs' buttons above are the key.
  key(panel) {
    const curves = this.shown(panel);
    if (this.names.length > 1 || curves.length < 2) return [];
    return curves.map((c) => element('span', {class: `c${c.color % 7}`}, element('span', {class: 'swatch'}), c.name));
  }

  drawCurve(part, x, y) {
    const {curve, xs, value, lows, highs, line} = part, color = `c${curve.color % 7}`;
    const path = (ys) => xs.map((v, i) => `${x(v).toFixed(1)},${y(ys[i]).toFixed(1)}`).join(' ');
    const nodes = [];
    if (lows) {
      const back = xs.map((v, i) => `${x(v).toFixed(1)},${y(lows[i]).toFixed(1)}`).reverse().join(' ');
      nodes.push(svgElement('polygon', {class: `${color} band`, points: `${path(highs)} ${back}`}));
    } else if (curve.kind === 'noisy' && this.keep > 0) {
      nodes.push(svgElement('polyline', {class: `${color} raw`, points: path(value)}));
    }
    const dashes = curve.kind === 'measured' ? {'stroke-dasharray': '5 3'} : {};
    nodes.push(svgElement('polyline', {class: `${color} curve`, points: path(line), ...dashes}));
    if (curve.kind === 'measured' || xs.length < 3) {
      for (let i = 0; i < xs.length; ++i) {
        nodes.push(svgElement('circle', {class: `${color} dot`, cx: x(xs[i]), cy: y(line[i]), r: xs.length > 200 ? 1.5 : 3.5}));
      }
    }
    return nodes;
  }

  drawCursors() {
    for (const panel of this.panels) {
      const figure = this.figures.get(panel.title);
      if (!figure.overlay) continue;
      const {x, y} = figure.scale, height = figure.svg.viewBox.baseVal.height, marks = [];
      if (figure.selection) {
        const [a, b] = figure.selection.map(x).sort((p, q) => p - q);
        marks.push(svgElement('rect', {class: 'selection', x: a, y: 8, width: b - a, height: height - 30}));
      }
      const read = [];
      if (this.cursor !== null) {
        marks.push(svgElement('path', {class: 'cursor', d: `M${x(this.cursor).toFixed(1)} 8V${height - 22}`}));
        let at = null;
        for (const part of figure.parts) {
          const i = this.nearest(part.xs, this.cursor);
          if (at === null || part.curve.kind !== 'measured') at = part.xs[i];
          marks.push(svgElement('circle', {class: `c${part.curve.color % 7} dot`, cx: x(part.xs[i]), cy: y(part.line[i]), r: 3.5}));
          read.push(element('span', {class: `c${part.curve.color % 7}`}, element('span', {class: 'swatch'}), this.reading(part, i)));
        }
        if (at !== null) read.unshift(element('span', {class: 'faint'}, `${this.axis === 'step' ? 'step' : 'tokens'} ${Math.round(at).toLocaleString('en')}`));
      }
      figure.overlay.replaceChildren(...marks);
      figure.readout.replaceChildren(...read);
    }
  }

  nearest(xs, x) {
    const i = Math.min(xs.length - 1, lowerBound(xs, x));
    return i > 0 && x - xs[i - 1] < xs[i] - x ? i - 1 : i;
  }

  reading(part, i) {
    const {curve} = part;
    const name = this.names.length > 1 ? `${this.names[curve.run]}${curve.kind === 'measured' ? ', ' + curve.name : ''}` : curve.name;
    const where = curve.kind === 'measured' ? ` at ${formatNumber(part.xs[i])}` : '';
    const raw = part.line[i] === part.value[i] ? '' : ` (${formatNumber(part.value[i])})`;
    return `${name} ${formatNumber(part.line[i])}${raw}${where}`;
  }
}
