// Real clients of both eras against the gateway, and a real server behind it.
//
// COUNTERSIGN_BIN is the program; COUNTERSIGN_FIXTURE is the conformance example, the server behind the gateway.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Client as ClientV2, StreamableHTTPClientTransport as TransportV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const here = dirname(fileURLToPath(import.meta.url));
const program = process.env.COUNTERSIGN_BIN;
const fixture = process.env.COUNTERSIGN_FIXTURE;
const INFO = { name: 'clients-test', version: '1' };
const CAPABILITIES = { elicitation: { form: {} } };
// Longer than anything here takes; waited for by nobody.
const PATIENCE = 30_000;

const children = [];
after(() => children.forEach((child) => child.kill('SIGKILL')));

// Starts a program and gives the first line, of what it says on either stream, that matches.
function start(command, options, pattern) {
  const child = spawn(command[0], command.slice(1), { stdio: ['ignore', 'pipe', 'pipe'], ...options });
  children.push(child);
  return new Promise((found, failed) => {
    const said = [];
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on('line', (line) => {
        said.push(line);
        const match = pattern.exec(line);
        if (match) found(match[0]);
      });
    }
    child.on('exit', (code) => failed(new Error(`${command[0]} ended with ${code}: ${said.join('\n')}`)));
  });
}

// A port that is free now; a program that takes none of its own has to be told one.
function freePort() {
  return new Promise((found) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => found(port));
    });
  });
}

async function gateway(slug, rest) {
  const file = join(mkdtempSync(join(tmpdir(), 'countersign-clients-')), 'gateway.yaml');
  writeFileSync(
    file,
    `gateway: {listen: "127.0.0.1:0"}\nlog: {format: text}\nservers:\n  - slug: ${slug}\n    ${rest}\n    timeoutMs: 120000\n`,
  );
  const address = await start([program, 'gateway', '--config', file], {}, /127\.0\.0\.1:\d+/);
  return new URL(`http://${address}/mcp?servers=${slug}`);
}

// Each client as it comes: how it connects, how it is asked, and how it calls.
const CLIENTS = [
  {
    name: '@modelcontextprotocol/sdk 1.x, legacy',
    version: '2025-11-25',
    async connect(url, answer) {
      const client = new ClientV1(INFO, { capabilities: CAPABILITIES });
      client.setRequestHandler(ElicitRequestSchema, answer);
      await client.connect(new TransportV1(url));
      return client;
    },
    call: (client, name, args, options) => client.callTool({ name, arguments: args }, undefined, options),
  },
  ...['legacy', 'auto', { pin: '2026-07-28' }].map((mode) => ({
    name: `@modelcontextprotocol/client 2.x, ${mode.pin ?? mode}`,
    version: mode === 'legacy' ? '2025-11-25' : '2026-07-28',
    async connect(url, answer) {
      const client = new ClientV2(INFO, { capabilities: CAPABILITIES, versionNegotiation: { mode } });
      client.setRequestHandler('elicitation/create', answer);
      await client.connect(new TransportV2(url));
      return client;
    },
    call: (client, name, args, options) => client.callTool({ name, arguments: args }, options),
  })),
];

const servers = {};

before(async () => {
  const url = await start([fixture, '--port', '0'], {}, /http:\/\/\S+/);
  servers.fixture = await gateway('fixture', `kind: remote-http\n    url: ${url}`);
  const everything = join(here, 'node_modules/@modelcontextprotocol/server-everything/dist/index.js');
  const port = await freePort();
  await start(
    [process.execPath, everything, 'streamableHttp'],
    { env: { ...process.env, PORT: String(port) } },
    /listening/i,
  );
  servers.everything = await gateway('everything', `kind: remote-http\n    url: http://127.0.0.1:${port}/mcp`);
  servers.stdio = await gateway('stdio', `kind: stdio\n    command: ["${process.execPath}", "${everything}", stdio]`);
});

for (const kind of CLIENTS) {
  describe(kind.name, () => {
    const nobody = () => assert.fail('nobody was to be asked');

    test('lists, calls and hears of progress', async () => {
      const client = await kind.connect(servers.fixture, nobody);
      const { tools } = await client.listTools();
      assert.ok(tools.some((tool) => tool.name === 'test_simple_text'));
      const { content } = await kind.call(client, 'test_simple_text', {});
      assert.equal(content[0].text, 'This is a simple text response for testing.');
      const heard = [];
      await kind.call(client, 'test_tool_with_progress', {}, { onprogress: (told) => heard.push(told.progress) });
      assert.deepEqual(heard, [0, 50, 100]);
      const { prompts } = await client.listPrompts();
      assert.ok(prompts.some((prompt) => prompt.name === 'test_simple_prompt'));
      const { contents } = await client.readResource({ uri: 'test://static-text' });
      assert.equal(contents[0].text, 'This is the content of the static text resource.');
      await client.close();
    });

    test('is asked in the middle of a call, and its answer arrives', async () => {
      const asked = [];
      const client = await kind.connect(servers.fixture, (request) => {
        asked.push(request.params.message);
        return { action: 'accept', content: { name: 'Ann', username: 'ann', email: 'a@b.example' } };
      });
      const modern = kind.version === '2026-07-28';
      const tool = modern ? 'test_input_required_result_elicitation' : 'test_elicitation';
      const { content } = await kind.call(client, tool, { message: 'Who?' });
      assert.match(content[0].text, /Ann|ann/);
      assert.equal(asked.length, 1);
      assert.match(asked[0], /^\[fixture\] the server asks: /);
      await client.close();
    });

    for (const over of ['everything', 'stdio']) {
      test(`leaves a call that takes long, and goes on: ${over}`, async () => {
        const client = await kind.connect(servers[over], nobody);
        const leaving = new AbortController();
        const call = kind.call(
          client,
          'trigger-long-running-operation',
          { duration: 600, steps: 6000 },
          { signal: leaving.signal, onprogress: () => leaving.abort(), timeout: PATIENCE },
        );
        await assert.rejects(call);
        const { content } = await kind.call(client, 'echo', { message: 'still there' });
        assert.match(content[0].text, /still there/);
        await client.close();
      });

      test(`uses a server of somebody else: ${over}`, async () => {
        const client = await kind.connect(servers[over], nobody);
        const { tools } = await client.listTools();
        assert.ok(tools.length >= 8, `${tools.length} tools`);
        const { content, structuredContent } = await kind.call(client, 'get-structured-content', { location: 'New York' });
        assert.equal(typeof structuredContent, 'object');
        assert.ok(content.length > 0);
        const { resources } = await client.listResources();
        assert.ok(resources.length > 0);
        const { contents } = await client.readResource({ uri: resources[0].uri });
        assert.ok(contents.length > 0);
        const { prompts } = await client.listPrompts();
        assert.ok(prompts.length > 0);
        const prompt = await client.getPrompt({ name: 'simple-prompt' });
        assert.ok(prompt.messages.length > 0);
        await client.close();
      });
    }
  });
}
