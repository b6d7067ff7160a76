// The playground: asks this page's own server, and shows what it answers. Text goes into the page as text, never as
// HTML.
'use strict';

const $ = (id) => document.getElementById(id);
const kAlternatives = 8, kPoll = 4000;

function say(text, bad = false) {
  $('status').textContent = text;
  $('status').className = bad ? 'bad' : 'faint';
}

async function fetchJson(path) {
  const response = await fetch(path);
  const json = await response.json();
  if (!response.ok) throw new Error(json.error ? json.error.message : response.statusText);
  return json;
}

// The data of a stream of server-sent events, as it comes.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    held += value;
    for (let end; (end = held.indexOf('\n\n')) >= 0; held = held.slice(end + 2)) {
      if (held.startsWith('data: ')) yield held.slice(6, end);
    }
  }
}

const visible = (text) => text.replace(/\n/g, '⏎').replace(/\t/g, '⇥') || '∅';
const percent = (logProb) => `${(100 * Math.exp(logProb)).toFixed(logProb > -7 ? 1 : 3)}%`;

// One model's answer: its choice, and the text with each token's probability.
class Side {
  constructor(name) {
    this.models = element('select', {'aria-label': `${name}: checkpoint`});
    this.recurrence = element('input', {type: 'number', min: 1, max: 1024, placeholder: 'as trained',
      'aria-label': `${name}: recurrent steps K`});
    this.answer = element('div', {class: 'answer', role: 'group', 'aria-label': `${name}: answer`});
    this.facts = element('p', {class: 'faint'});
    this.others = element('div', {'aria-live': 'polite'});
    this.node = element('section', {class: 'side', 'aria-label': name},
      element('div', {class: 'controls'}, element('label', {}, 'Model', this.models),
        element('label', {title: 'Recurrent steps, of a recurrent model'}, 'K', this.recurrence)),
      this.answer, this.facts, this.others);
    this.answer.addEventListener('keydown', (event) => this.onKey(event));
  }

  showModels(models) {
    const chosen = this.models.value;
    this.models.replaceChildren(...models.map((m) => element('option', {value: m.id, disabled: Boolean(m.problem)},
      m.id.includes('/') ? m.id : `${m.id} (latest, step ${m.step})`)));
    if (models.some((m) => m.id === chosen)) this.models.value = chosen;
  }

  stop() { if (this.abort) this.abort.abort(); }

  async write(request) {
    this.stop();
    const abort = this.abort = new AbortController();
    this.others.replaceChildren();
    this.answer.replaceChildren(element('span', {class: 'given'}, request.prompt));
    this.facts.textContent = 'waiting …';
    const body = {...request, model: this.models.value};
    if (this.recurrence.value) body.recurrence = +this.recurrence.value;
    const begin = performance.now();
    let made = 0, sum = 0, first = 0;
    try {
      const response = await fetch('/v1/completions', {method: 'POST', signal: abort.signal,
        headers: {'Content-Type': 'application/json'}, body: JSON.stringify(body)});
      if (!response.ok) throw new Error((await response.json()).error.message);
      for await (const data of events(response)) {
        if (data === '[DONE]') break;
        const piece = JSON.parse(data);
        if (piece.error) throw new Error(piece.error.message);
        for (const choice of piece.choices) {
          const added = this.add(choice);
          made += added.length;
          sum += added.reduce((a, b) => a + b, 0);
          first = first || performance.now();
        }
        const rate = made > 1 ? `, ${((made - 1) / (performance.now() - first) * 1000).toFixed(0)} tokens/s` : '';
        if (made) this.facts.textContent = `${made} tokens${rate}, ${(-sum / made).toFixed(3)} nats a token`;
      }
    } catch (error) {
      if (error.name !== 'AbortError') {
        this.facts.textContent = '';
        this.others.replaceChildren(element('p', {class: 'bad'}, error.message));
      } else {
        this.facts.textContent += ' (stopped)';
      }
    }
    if (!made && this.facts.textContent === 'waiting …') {
      this.facts.textContent = `ended at once, after ${((performance.now() - begin) / 1000).toFixed(1)} s`;
    }
  }

  // A piece of the stream. The log-probabilities of its tokens.
  add(choice) {
    const {tokens, token_logprobs: logProbs, top_logprobs: tops, text_offset: offsets} = choice.logprobs;
    const characters = [...choice.text], start = offsets.length ? offsets[0] : 0;
    tokens.forEach((name, i) => {
      const end = i + 1 < offsets.length ? offsets[i + 1] - start : characters.length;
      const text = characters.slice(offsets[i] - start, end).join('');
      const token = element('span', {class: 'token', role: 'button', tabindex: this.answer.querySelector('.token') ? -1 : 0,
        'aria-expanded': 'false', title: percent(logProbs[i])}, text);
      token.style.setProperty('--p', Math.exp(logProbs[i]).toFixed(4));
      token.addEventListener('click', () => this.explain(token, name, logProbs[i], tops[i]));
      this.answer.append(token);
    });
    return logProbs;
  }

  explain(token, name, logProb, top) {
    const again = token.getAttribute('aria-expanded') === 'true';
    for (const t of this.answer.querySelectorAll('[aria-expanded="true"]')) t.setAttribute('aria-expanded', 'false');
    if (again) return this.others.replaceChildren();
    token.setAttribute('aria-expanded', 'true');
    const row = ([text, p]) => {
      const bar = element('div');
      bar.style.width = `${100 * Math.exp(p)}%`;
      return element('tr', {}, element('td', {}, element('code', {}, visible(text)), text === name ? ' ←' : ''),
        element('td', {}, percent(p)), element('td', {class: 'bar'}, bar));
    };
    const list = Object.entries(top).sort((a, b) => b[1] - a[1]);
    this.others.replaceChildren(element('table', {class: 'others'},
      element('thead', {}, element('tr', {}, element('th', {scope: 'col'}, 'could have been'),
        element('th', {scope: 'col'}, ''), element('th', {scope: 'col'}, ''))),
      element('tbody', {}, ...list.map(row))));
  }

  onKey(event) {
    const tokens = [...this.answer.querySelectorAll('.token')], at = tokens.indexOf(document.activeElement);
    if (at < 0) return;
    const steps = {ArrowLeft: -1, ArrowRight: 1, Home: -tokens.length, End: tokens.length};
    if (event.key === 'Enter' || event.key === ' ') tokens[at].click();
    else if (event.key in steps) {
      const next = Math.min(tokens.length - 1, Math.max(0, at + steps[event.key]));
      tokens[at].tabIndex = -1;
      tokens[next].tabIndex = 0;
      tokens[next].focus();
    } else return;
    event.preventDefault();
  }
}

const sides = [new Side('First'), new Side('Second')];
$('sides').append(...sides.map((s) => s.node));
sides[1].node.hidden = true;
$('both').addEventListener('change', () => { sides[1].node.hidden = !$('both').checked; });

async function write() {
  const request = {prompt: $('prompt').value, temperature: +$('temperature').value, top_p: +$('top_p').value,
    max_tokens: +$('max_tokens').value, seed: +$('seed').value, logprobs: kAlternatives, stream: true};
  $('stop').disabled = false;
  await Promise.all(sides.filter((s) => !s.node.hidden).map((s) => s.write(request)));
  $('stop').disabled = true;
}
const stop = () => sides.forEach((s) => s.stop());
$('form').addEventListener('submit', (event) => {
  event.preventDefault();
  write();
});
$('stop').addEventListener('click', stop);
document.addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) $('form').requestSubmit();
  if (event.key === 'Escape') stop();
});

const charts = new Charts($('curves'));
let drawn = '';
async function poll() {
  try {
    const [models, runs] = await Promise.all([fetchJson('/v1/models'), fetchJson('/runs')]);
    const list = JSON.stringify([models, runs]);
    if (list !== drawn) {
      drawn = list;
      for (const side of sides) side.showModels(models.data);
      $('no-curves').hidden = runs.panels.length > 0;
      $('curves').hidden = !runs.panels.length;
      charts.show(runs.panels, runs.names);
    }
    say(`${runs.names.join(', ')}: ${models.data.length - runs.names.length} checkpoint${models.data.length - runs.names.length === 1 ? '' : 's'}`);
  } catch (error) {
    say(`The server does not answer: ${error.message}`, true);
  }
  setTimeout(poll, kPoll);
}
poll();
