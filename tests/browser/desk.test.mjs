// The desk in a real browser, with the real product behind it: each test runs `countersign demo`, answers on the page, and
// reads what the demo says became of the file.
//
//   npm ci && COUNTERSIGN_BIN=../../target/release/countersign npm test
//
// CHROMIUM names the browser (default /usr/bin/chromium). One test after the other, each with a demo and a profile of its own.
// The one over TLS has a desk and a gateway in place of the demo, and needs the `openssl` command.

import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { X509Certificate, createHash, randomBytes } from 'node:crypto';
import { access, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';

const BIN = process.env.COUNTERSIGN_BIN;
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';
/** Far more than any step needs; what takes longer hangs. */
const PATIENCE_MS = 30_000;
const ADDRESS = /http:\/\/[^\s"'<>`]+#key=[^\s"'<>`]+/;

const run = promisify(execFile);
let browser;

const launch = (...more) => chromium.launch({
  executablePath: CHROMIUM,
  args: [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--no-first-run',
    ...more,
  ],
});

before(async () => {
  assert.ok(BIN, 'COUNTERSIGN_BIN must name the countersign binary');
  browser = await launch();
});

after(() => browser?.close());

/** A running `countersign`, killed after the test. */
class Program {
  constructor(t, [command, ...rest], env = {}) {
    this.command = command;
    this.said = '';
    this.child = spawn(BIN, [command, ...rest], { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env } });
    t.after(async () => {
      if (!this.closed) this.child.kill('SIGKILL');
      await this.exit.catch(() => {});
    });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        this.said += text;
        this.child.emit('said');
      });
    }
    this.exit = new Promise((resolve, reject) => {
      this.child.on('error', reject);
      this.child.on('close', (code, signal) => {
        this.closed = true;
        this.child.emit('said');
        resolve(code ?? signal);
      });
    });
    // Who awaits it sees a failed start; nobody has to.
    this.exit.catch(() => {});
  }

  /** Waits until it has said something that matches. */
  says(pattern) {
    const look = () => this.said.match(pattern);
    return bounded(`${this.command} to say ${pattern}`, () => this.said, new Promise((resolve, reject) => {
      const listen = () => {
        const found = look();
        if (found) resolve(found);
        else if (this.closed) reject(new Error(`${this.command} ended without saying ${pattern}; it said:\n${this.said}`));
      };
      this.child.on('said', listen);
      this.child.on('error', reject);
      listen();
    }));
  }

  ends() {
    return bounded(`${this.command} to end`, () => this.said, this.exit);
  }
}

/** The promise, or an error that says what was waited for. */
async function bounded(what, context, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited ${PATIENCE_MS} ms for ${what}; so far:\n${context()}`)), PATIENCE_MS);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** A demo and a page that shows it. */
async function setUp(t, options = {}) {
  const demo = new Program(t, ['demo']);
  const [address] = await demo.says(ADDRESS);
  return { demo, address: new URL(address), ...await open(t, browser, options) };
}

/** A page in a browser context of its own; the test fails on any script error or policy violation. */
async function open(t, browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1000, height: 800 }, ...options });
  t.after(() => context.close());
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const faults = [];
  page.on('pageerror', (error) => faults.push(error.message));
  page.on('console', (message) => {
    if (message.type() === 'error' && /policy|trusted type/i.test(message.text())) faults.push(message.text());
  });
  return { context, page, faults };
}

const question = (page) => page.locator('#questions .question').first();
const button = (page, name) => question(page).getByRole('button', { name, exact: true, disabled: false });

/** What the desk's own interface says is waiting. */
async function waiting(page, address) {
  const reply = await page.request.get(new URL('/api/pending', address.origin).href);
  assert.equal(reply.status(), 200);
  return (await reply.json()).pending;
}

/** The page shows the one question that waits, to the letter, and names its tool. */
async function showsExactly(page, address) {
  const [asked, ...others] = await waiting(page, address);
  assert.equal(others.length, 0);
  assert.equal(await question(page).locator('.message').textContent(), asked.message);
  assert.equal(await question(page).locator('.tool').textContent(), asked.tool);
  assert.equal(await question(page).getByRole('checkbox').isChecked(), true, 'the box starts ticked');
  return asked;
}

test('the question appears without reload, and Accept deletes the file', async (t) => {
  const { demo, page, address, faults } = await setUp(t);
  // The demo may have asked before anybody looked. Without its list, the page is as it would be in a tab that was open before,
  // and only the live part can bring the question.
  await page.route(`${address.origin}/`, async (route) => {
    const reply = await route.fetch({ maxRedirects: 0 });
    const body = (await reply.text()).replace(/(<div id="questions">)[^]*(<\/div>\s*<section id="empty")/, '$1$2');
    await route.fulfill({ response: reply, body });
  });
  await page.goto(address.href);
  await page.locator('#questions').waitFor({ state: 'attached' });
  await page.evaluate(() => { window.loadedOnce = true; });
  await question(page).waitFor();
  assert.equal(new URL(page.url()).hash, '', 'the key has left the address');
  assert.match(await page.title(), /^\(1\) /);
  const asked = await showsExactly(page, address);
  assert.match(await question(page).locator('.left').textContent(), /\d s left$/);

  await button(page, 'Accept').click();
  const [, name] = await demo.says(/^deleted (.+)$/m);
  assert.ok(asked.message.includes(name.trim()), `the question named the file ${name}`);
  assert.equal(await demo.ends(), 0);
  assert.equal(await page.evaluate(() => window.loadedOnce), true, 'never loaded again');
  assert.deepEqual(faults, []);
});

test('Decline keeps the file', async (t) => {
  const { demo, page, address, faults } = await setUp(t);
  await page.goto(address.href);
  await question(page).waitFor();
  const asked = await showsExactly(page, address);
  await button(page, 'Decline').click();
  const [, name] = await demo.says(/^declined; (.+) kept$/m);
  assert.ok(asked.message.includes(name), `the question named the file ${name}`);
  assert.doesNotMatch(demo.said, /^deleted /m);
  await demo.ends();
  assert.deepEqual(faults, []);
});

test('with script off, the form answers', async (t) => {
  const { demo, page, address } = await setUp(t, { javaScriptEnabled: false });
  await page.goto(address.origin);
  await page.getByLabel('Your key').fill(new URLSearchParams(address.hash.slice(1)).get('key'));
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator('#heading').waitFor();
  // Without script a person looks again; so does the test.
  for (const until = Date.now() + PATIENCE_MS; (await question(page).count()) === 0;) {
    assert.ok(Date.now() < until, 'the question never came');
    await new Promise((resolve) => setTimeout(resolve, 250));
    await page.getByRole('link', { name: 'Look again' }).click();
  }
  await showsExactly(page, address);
  // Enter in the tick box is no answer.
  await question(page).getByRole('checkbox').press('Enter');
  assert.equal((await waiting(page, address)).length, 1);
  await button(page, 'Accept').click();
  await demo.says(/^deleted .+$/m);
  assert.equal(await demo.ends(), 0);
});

test('the keyboard alone answers, and Enter alone does not', async (t) => {
  const { demo, page, address, faults } = await setUp(t);
  await page.goto(address.href);
  await question(page).waitFor();
  await button(page, 'Accept').waitFor();
  await page.keyboard.press('j');
  assert.equal(await question(page).evaluate((node) => node === document.activeElement), true, 'j selects it');
  await page.keyboard.press('Enter');
  await page.keyboard.press('a');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Enter');
  assert.equal((await waiting(page, address)).length, 1, 'nothing was answered yet');
  await page.keyboard.press('a');
  await page.keyboard.press('Enter');
  await demo.says(/^deleted .+$/m);
  assert.equal(await demo.ends(), 0);
  assert.deepEqual(faults, []);
});

test('on a narrow phone at night nothing runs off the side', async (t) => {
  const { demo, page, address, faults } = await setUp(t, {
    viewport: { width: 360, height: 740 },
    isMobile: true,
    hasTouch: true,
    colorScheme: 'dark',
  });
  await page.goto(address.href);
  await question(page).waitFor();
  await button(page, 'Accept').waitFor();
  const { width, ground } = await page.evaluate(() => ({
    width: document.documentElement.scrollWidth,
    ground: getComputedStyle(document.body).backgroundColor,
  }));
  assert.equal(width, 360, 'no sideways scroll');
  assert.ok(ground.match(/\d+/g).slice(0, 3).every((part) => Number(part) < 64), `a dark ground, not ${ground}`);
  const box = await button(page, 'Decline').boundingBox();
  assert.ok(box.x >= 0 && box.x + box.width <= 360 && box.height >= 44, 'a button that a thumb can hit');
  const file = join(await mkdtemp(join(tmpdir(), 'countersign-desk-')), 'phone-dark.png');
  await page.screenshot({ path: file, fullPage: true });
  t.diagnostic(`screenshot: ${file}`);
  await button(page, 'Decline').tap();
  await demo.says(/^declined; .+ kept$/m);
  await demo.ends();
  assert.deepEqual(faults, []);
});

/** An authority of our own, and a certificate of it for `localhost`. */
async function certificate(folder) {
  const at = (name) => join(folder, name);
  // Nothing but what is asked for below: the system's file adds extensions of its own.
  await writeFile(at('openssl.cnf'), '[req]\ndistinguished_name = name\n[name]\n');
  const make = (name, extensions, ...by) => run('openssl', [
    'req', '-x509', '-nodes', '-sha256', '-days', '30', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-config', at('openssl.cnf'),
    '-subj', `/CN=${name}`, '-keyout', at(`${name}.key`), '-out', at(`${name}.pem`), ...extensions.flatMap((one) => ['-addext', one]), ...by,
  ]);
  await make('authority', ['basicConstraints=critical,CA:TRUE']);
  const leaf = ['basicConstraints=critical,CA:FALSE', 'subjectAltName=DNS:localhost'];
  await make('desk', leaf, '-CA', at('authority.pem'), '-CAkey', at('authority.key'));
  return { ca: at('authority.pem'), cert: at('desk.pem'), key: at('desk.key') };
}

test('over TLS a person signs in, sees the question come and answers it', async (t) => {
  try {
    await run('openssl', ['version']);
  } catch {
    t.skip('there is no openssl command');
    return;
  }
  const folder = await mkdtemp(join(tmpdir(), 'countersign-tls-'));
  t.after(() => rm(folder, { recursive: true }));
  const file = async (name, text) => {
    await writeFile(join(folder, name), text);
    return join(folder, name);
  };
  const { ca, cert, key } = await certificate(folder);
  const secret = `key-${randomBytes(16).toString('hex')}`;
  const sha256 = createHash('sha256').update(secret).digest('hex');
  const deskYaml = (port) => `
desk:
  listen: 127.0.0.1:${port}
  secret: ${randomBytes(32).toString('hex')}
  tls: {cert: ${cert}, key: ${key}}
  people:
    - {id: kim, sha256: ${sha256}, answersFor: ["agent-*"]}
`;
  const config = deskYaml(0);
  const desk = new Program(t, ['desk', '--config', await file('desk.yaml', config)]);
  const [, port] = await desk.says(/^countersign: desk on https:\/\/127\.0\.0\.1:(\d+)\//m);
  // The port is known only now, and the session URL names it.
  const publicYaml = await file('public.yaml', config.replace('127.0.0.1:0', `127.0.0.1:${port}`));
  const session = (await run(BIN, ['session', 'new', '--config', publicYaml, 'agent-1'])).stdout.trim();
  const origin = `https://localhost:${port}`;
  assert.ok(session.startsWith(`${origin}/`), 'the session URL is secure');
  const acted = join(folder, 'acted');
  const gatewayYaml = await file('gateway.yaml', `
tls: {caFile: ${ca}}
gateway:
  listen: 127.0.0.1:0
  elicitation: {allowedUrlPrefixes: ["${origin}/api/v1/elicitations/session/"]}
servers:
  - slug: files
    kind: command
    confirmations: true
    tools:
      - {name: make_file, argv: [touch, ${acted}], gate: This makes a file.}
timing: {pollMs: 1000}
`);
  const gateway = new Program(t, ['gateway', '--config', gatewayYaml]);
  const [, mcp] = await gateway.says(/^countersign: gateway on (http:\S+)$/m);

  // A browser that was told nothing believes no certificate of ours: without this the rest could pass in any other way.
  const stranger = await open(t, browser);
  await assert.rejects(stranger.page.goto(origin), /ERR_CERT_AUTHORITY_INVALID/);
  const spki = new X509Certificate(await readFile(cert)).publicKey.export({ type: 'spki', format: 'der' });
  const pin = createHash('sha256').update(spki).digest('base64');
  const trusting = await launch(`--ignore-certificate-errors-spki-list=${pin}`);
  t.after(() => trusting.close());
  const { context, page, faults } = await open(t, trusting);

  const loaded = await page.goto(origin);
  const { issuer, protocol } = await loaded.securityDetails();
  assert.deepEqual([issuer, protocol], ['authority', 'TLS 1.3']);
  await page.getByLabel('Your key').fill(secret);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.locator('#questions').waitFor({ state: 'attached' });
  const cookies = await context.cookies();
  assert.equal(cookies.length, 1);
  const { name, secure, httpOnly, sameSite } = cookies[0];
  assert.deepEqual([secure, httpOnly, sameSite], [true, true, 'Strict'], name);
  assert.equal(await page.evaluate(() => window.isSecureContext), true);
  await page.evaluate(() => { window.loadedOnce = true; });

  // The page is there before the question, which only the live part can bring.
  assert.equal(await question(page).count(), 0);
  const call = new Program(t, ['call', `${mcp}?servers=files`, 'make_file'], { COUNTERSIGN_CHANNEL: session });
  await Promise.race([question(page).waitFor(), call.exit.then(() => assert.fail(call.said))]);
  assert.match(await question(page).locator('.message').textContent(), /This makes a file\./);
  assert.equal(await question(page).locator('.tool').textContent(), 'make_file');
  await assert.rejects(access(acted), { code: 'ENOENT' });
  await button(page, 'Accept').click();
  assert.equal(await call.ends(), 0, call.said);
  await access(acted);
  assert.equal(await page.evaluate(() => window.loadedOnce), true, 'never loaded again');
  assert.deepEqual(faults, []);
});
