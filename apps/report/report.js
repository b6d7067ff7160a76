// Builds the report from its data (apps/report/report.cpp). Text goes into the page as text, never as HTML.
'use strict';

const report = JSON.parse(document.getElementById('data').textContent);

function section(title, ...children) {
  document.getElementById('report').append(element('section', {}, element('h2', {}, title), ...children));
}

function table(head, rows) {
  const body = rows.map(([label, ...cells]) => element('tr', {}, element('th', {scope: 'row'}, label),
    ...cells.map((c) => element('td', {class: 'number'}, c))));
  const top = head.some((h) => h) ?
    [element('thead', {}, element('tr', {}, ...head.map((h) => element('th', {scope: 'col'}, h))))] : [];
  return element('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'table'},
    element('table', {}, ...top, element('tbody', {}, ...body)));
}

const names = report.runs.map((run) => run.name);
const several = names.length > 1;
const heading = (run) => several ? [element('h3', {}, run.name)] : [];

for (const run of report.runs) {
  for (const note of run.notes) {
    document.getElementById('report').append(element('p', {class: 'bad'}, several ? `${run.name}: ${note}` : note));
  }
}

section('Summary', table(several ? ['', ...names] : ['', ''], report.facts));

const curves = element('div');
section('Curves', curves);
if (report.panels.length) new Charts(curves).show(report.panels, names);
else curves.append(element('p', {}, 'No steps are recorded yet.'));

if (report.runs.some((run) => run.samples.length)) {
  section('Samples', ...report.runs.filter((run) => run.samples.length).flatMap((run) => [...heading(run),
    ...run.samples.map((group, i) => element('details', {open: i === run.samples.length - 1},
      element('summary', {}, `after step ${group.step.toLocaleString('en')}`),
      ...group.texts.map((text) => element('blockquote', {}, element('strong', {}, text.prompt), text.text))))]));
}

section('Checkpoints', ...report.runs.flatMap((run) => [...heading(run), run.checkpoints.length ?
  table(['step', 'tokens', 'size', ''], run.checkpoints.map((c) => [c.step, c.tokens, c.size, c.problem])) :
  element('p', {class: 'faint'}, 'none')]));

section('Config', ...(several ? [element('p', {}, report.differences.length ? 'What differs:' : 'The same in all runs.'),
  ...(report.differences.length ? [table(['', ...names], report.differences)] : [])] : []),
  ...report.runs.map((run) => element('details', {open: !several},
    element('summary', {}, several ? `config.yaml of ${run.name}` : 'config.yaml'),
    element('pre', {tabindex: 0}, run.config || 'The run has no config.yaml.'))));
