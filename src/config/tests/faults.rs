//! Files that are refused, each with the exact words.

use super::*;

/// Files with the one fault, or the few, that each must give.
#[rustfmt::skip]
const TABLE: &[(&str, &[&str])] = &[
    // YAML itself.
    ("log: {level: info\r\n\r\n", &["c.yaml:2:1: log: not YAML: while parsing a flow mapping, did not find expected ',' or '}'"]),
    ("gateway: [", &["c.yaml:1:11: gateway[0]: not YAML: while parsing a node, did not find expected node content"]),
    ("log: {}\nlog: {}\n", &["c.yaml:2:1: found the key \"log\" a second time, allowed: once"]),
    ("log: {level: info, level: warn}\n", &["c.yaml:1:20: log: found the key \"level\" a second time, allowed: once"]),
    ("log: &a {level: info}\n", &["c.yaml:1:6: log: found an anchor, allowed: plain values only"]),
    ("log: {level: &a info, format: *a}\n", &[
        "c.yaml:1:14: log.level: found an anchor, allowed: plain values only",
        "c.yaml:1:31: log.format: found an alias, allowed: plain values only",
    ]),
    ("log: {level: !!str info}\n", &["c.yaml:1:14: log.level: found a tag, allowed: plain values only"]),
    ("log: {}\n---\nlog: {}\n", &["c.yaml:2:1: found a second document, allowed: one"]),
    ("? [a]\n: b\n", &["c.yaml:1:3: found a key that is no word, allowed: words"]),
    ("log:\n\tlevel: info\n", &["c.yaml:2:2: log: not YAML: tabs disallowed within this context (block indentation)"]),
    ("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", &["c.yaml:1:33: [0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]: nested too deeply, allowed: 32 levels"]),

    // Keys and types.
    ("gatway: {}\n", &["c.yaml:1:1: gatway: found an unknown key, allowed: gateway, which is closest"]),
    ("log: {colour: x}\n", &["c.yaml:1:7: log.colour: found an unknown key, allowed: level, format"]),
    ("log: {<<: {level: info}}\n", &["c.yaml:1:7: log.\"<<\": found an unknown key, allowed: level, format"]),
    ("- a\n", &["c.yaml:1:1: found a list, allowed: a map"]),
    ("log:\n", &["c.yaml:1:1: log: found nothing, allowed: a map"]),
    ("---", &["c.yaml:1:4: found nothing, allowed: a map"]),
    ("log: {level: loud}\n", &["c.yaml:1:14: log.level: found \"loud\", allowed: error, warn, info, debug, trace"]),
    ("log: {level: [info]}\n", &["c.yaml:1:14: log.level: found a list, allowed: error, warn, info, debug, trace"]),
    ("timing: {pollMs: 5s}\n", &["c.yaml:1:18: timing.pollMs: found a string, allowed: a whole number from 100 to 60000"]),
    ("timing: {pollMs: 99}\n", &["c.yaml:1:18: timing.pollMs: found 99, allowed: a whole number from 100 to 60000"]),
    ("timing: {pollMs: 60001}\n", &["c.yaml:1:18: timing.pollMs: found 60001, allowed: a whole number from 100 to 60000"]),
    ("timing: {pollMs: 0500}\n", &["c.yaml:1:18: timing.pollMs: found a number, allowed: a whole number from 100 to 60000"]),
    ("timing: {pollMs: 100, keepaliveMs: 86400000}\n", &[]),
    ("timing: {pollMs: \"500\"}\n", &["c.yaml:1:18: timing.pollMs: found a string, allowed: a whole number from 100 to 60000"]),
    ("timing: {pollMs: 5e3}\n", &["c.yaml:1:18: timing.pollMs: found a number, allowed: a whole number from 100 to 60000"]),
    ("timing: {pollMs: 99999999999999999999}\n", &["c.yaml:1:18: timing.pollMs: found a number, allowed: a whole number from 100 to 60000"]),
    ("timing: {pollMs: }\n", &["c.yaml:1:10: timing.pollMs: found nothing, allowed: a whole number from 100 to 60000"]),
    ("limits: {bodyBytes: 1000000, bufferedBytes: 70000}\n", &["c.yaml:1:45: limits.bufferedBytes: found 70000 bytes for all bodies and 1000000 for one, allowed: at least one body"]),

    // What this build does not have.
    #[cfg(not(feature = "tls"))]
    ("gateway: {tls: {cert: a, key: b}}\n", &["c.yaml:1:16: gateway.tls: found what this build does not have yet (TLS listeners), allowed: leave it out"]),
    #[cfg(not(feature = "tls"))]
    ("desk: {secret: \"${S}\", tls: {}}\n", &["c.yaml:1:29: desk.tls: found what this build does not have yet (TLS listeners), allowed: leave it out"]),
    #[cfg(not(feature = "tls"))]
    ("tls: {caFile: a}\n", &["c.yaml:1:6: tls: found what this build does not have yet (TLS), allowed: leave it out"]),
    ("audit: {file: a}\n", &["c.yaml:1:8: audit: found what this build does not have yet (the audit file), allowed: leave it out"]),
    ("limits: {declines: 2}\ntiming: {drainMs: 1}\n", &[
        "c.yaml:1:20: limits.declines: found what this build does not have yet (a rest after several declines), allowed: 3",
    ]),
    ("gateway: {oauth: {authorizationServers: [\"http://a.example\", \"https://a.example?q\", \"https://a.example/t\"]}}\n", &[
        "c.yaml:1:42: gateway.oauth.authorizationServers[0]: found no issuer in normal form, allowed: https, or http to a loopback host, without query and fragment",
        "c.yaml:1:62: gateway.oauth.authorizationServers[1]: found no issuer in normal form, allowed: https, or http to a loopback host, without query and fragment",
    ]),
    ("gateway: {oauth: {}}\n", &["c.yaml:1:18: gateway.oauth.authorizationServers: missing, allowed: a list"]),
    ("gateway: {oauth: {authorizationServers: []}, roster: a, adminListen: b}\n", &[
        "c.yaml:1:41: gateway.oauth.authorizationServers: found no authorization server, allowed: at least one",
        "c.yaml:1:54: gateway.roster: found what this build does not have yet (the runtime roster), allowed: leave it out",
        "c.yaml:1:70: gateway.adminListen: found \"b\", allowed: IP:PORT or localhost:PORT",
    ]),
    ("desk: {secret: \"${S}\", store: \"redis://u:hunter2@h\", notify: {}}\n", &[
        "c.yaml:1:31: desk.store: found what this build does not have yet (any store but memory), allowed: memory",
        "c.yaml:1:62: desk.notify: found what this build does not have yet (notification), allowed: leave it out",
    ]),
    ("gate: {spent: \"redis://h\"}\n", &["c.yaml:1:15: gate.spent: found what this build does not have yet (any store but memory), allowed: memory"]),
    #[cfg(not(feature = "tls"))]
    ("bundles: {b: {url: \"https://b.example\", key: \"${K}\"}}\n", &["c.yaml:1:20: bundles.b.url: found what this build does not have yet (TLS to a bundle), allowed: leave it out"]),
    ("servers:\n- {slug: b, kind: local-tunnel, offeredBy: [t]}\n", &[
        "c.yaml:2:19: servers[0].kind: found what this build does not have yet (local-tunnel servers), allowed: supplementary-image, command, stdio, remote-http",
        "c.yaml:2:44: servers[0].offeredBy: found what this build does not have yet (local-tunnel servers), allowed: leave it out",
    ]),
    #[cfg(not(feature = "tls"))]
    ("servers:\n- {slug: a, kind: remote-http, url: \"https://x.example\"}\n", &["c.yaml:2:37: servers[0].url: found what this build does not have yet (TLS to a server), allowed: leave it out"]),
    ("servers:\n- {slug: a, kind: remote-http, url: \"http://[::1]\", confirm: [x], unknownTools: ask}\n- {slug: b, kind: stdio, command: [b], confirm: [x], ask: desk}\n", &[
        "c.yaml:2:62: servers[0].confirm: found what this build does not have yet (gates in front of other servers), allowed: leave it out",
        "c.yaml:2:81: servers[0].unknownTools: found what this build does not have yet (pinned tools), allowed: leave it out",
        "c.yaml:3:49: servers[1].confirm: found what this build does not have yet (gates in front of other servers), allowed: leave it out",
        "c.yaml:3:59: servers[1].ask: found what this build does not have yet (asking by desk), allowed: channel, mrtr",
    ]),
    ("servers:\n- slug: a\n  kind: remote-http\n  url: http://localhost\n  confirmations: true\n  confirmationHeaders: {X-Key: a}\n  ask: channel\n- {slug: b, kind: stdio, command: [b], confirmations: true, confirmationHeaders: {\"a b\": c}, ask: mrtr}\n- {slug: c, kind: stdio, command: [c], confirmations: false}\n", &[
        "c.yaml:5:18: servers[0].confirmations: found what this build does not have yet (gates in front of other servers), allowed: leave it out for remote-http",
        "c.yaml:6:24: servers[0].confirmationHeaders: found what this build does not have yet (gates in front of other servers), allowed: leave it out for remote-http",
        "c.yaml:7:8: servers[0].ask: found what this build does not have yet (gates in front of other servers), allowed: leave it out for remote-http",
        "c.yaml:8:55: servers[1].confirmations: found what this build does not have yet (gates in front of other servers), allowed: leave it out for stdio",
        "c.yaml:8:82: servers[1].confirmationHeaders: found what this build does not have yet (gates in front of other servers), allowed: leave it out for stdio",
        "c.yaml:8:83: servers[1].confirmationHeaders.\"a b\": found no name of a header, allowed: a token of RFC 9110",
        "c.yaml:8:99: servers[1].ask: found what this build does not have yet (gates in front of other servers), allowed: leave it out for stdio",
    ]),
    ("servers:\n- {slug: a, kind: command, ask: desk, required: true, confirm: [x], unknownTools: ask, tools: [{name: t, argv: [a]}]}\n", &[
        "c.yaml:2:33: servers[0].ask: found what this build does not have yet (asking by desk), allowed: channel, mrtr",
        "c.yaml:2:64: servers[0].confirm: found what this build does not have yet (gates in front of other servers), allowed: leave it out",
        "c.yaml:2:83: servers[0].unknownTools: found what this build does not have yet (pinned tools), allowed: leave it out",
    ]),

    // TLS.
    #[cfg(feature = "tls")]
    ("gateway: {tls: {cert: a, key: b}}\ndesk: {secret: \"${S}\", tls: {cert: a, key: b}}\ntls: {caFile: a}\n", &[]),
    #[cfg(feature = "tls")]
    ("bundles: {b: {url: \"https://b.example\", key: \"${K}\"}}\n", &[]),
    #[cfg(feature = "tls")]
    ("gateway: {tls: {cert: a}}\ntls: {caFile: \"\"}\n", &[
        "c.yaml:1:16: gateway.tls.key: missing, allowed: a string",
        "c.yaml:2:15: tls.caFile: found no name of a file, allowed: a path",
    ]),
    #[cfg(feature = "tls")]
    ("desk: {secret: \"${S}\", tls: {cert: a, key: [b], chain: c}}\n", &[
        "c.yaml:1:44: desk.tls.key: found a list, allowed: a string",
        "c.yaml:1:49: desk.tls.chain: found an unknown key, allowed: cert, key",
    ]),

    // The gateway.
    ("gateway: {listen: []}\n", &["c.yaml:1:19: gateway.listen: found an empty list, allowed: at least one address"]),
    ("gateway: {listen: 8600}\n", &["c.yaml:1:19: gateway.listen: found a number, allowed: a string in quotes"]),
    ("gateway: {listen: {a: b}}\n", &["c.yaml:1:19: gateway.listen: found a map, allowed: a string or a list"]),
    ("gateway: {listen: [\"example.com:80\", \"127.0.0.1:1\", \"127.0.0.1:1\"]}\n", &[
        "c.yaml:1:20: gateway.listen[0]: found \"example.com:80\", allowed: IP:PORT or localhost:PORT",
        "c.yaml:1:53: gateway.listen[2]: found \"127.0.0.1:1\" a second time, allowed: once",
    ]),
    ("gateway: {allowedHosts: [\"a/b\", \"\", \"*.example.com\", \"u@h\"]}\n", &[
        "c.yaml:1:26: gateway.allowedHosts[0]: found \"a/b\", allowed: a host name, or HOST:PORT",
        "c.yaml:1:33: gateway.allowedHosts[1]: found \"\", allowed: a host name, or HOST:PORT",
        "c.yaml:1:37: gateway.allowedHosts[2]: found \"*.example.com\", allowed: a host name, or HOST:PORT",
        "c.yaml:1:54: gateway.allowedHosts[3]: found \"u@h\", allowed: a host name, or HOST:PORT",
    ]),
    ("gateway: {allowedOrigins: [\"https://xn--3ug\"]}\n", &[
        "c.yaml:1:28: gateway.allowedOrigins[0]: found no origin in normal form, allowed: SCHEME://HOST or SCHEME://HOST:PORT",
    ]),
    ("gateway: {allowedOrigins: [\"https://A.example\", \"https://a.example/\", \"null\", \"https://a.example:443\", \"https://Ä.example\", \"https://%C3%84.example\"]}\n", &[
        "c.yaml:1:28: gateway.allowedOrigins[0]: found no origin in normal form, allowed: SCHEME://HOST or SCHEME://HOST:PORT",
        "c.yaml:1:49: gateway.allowedOrigins[1]: found no origin in normal form, allowed: SCHEME://HOST or SCHEME://HOST:PORT",
        "c.yaml:1:71: gateway.allowedOrigins[2]: found no origin in normal form, allowed: SCHEME://HOST or SCHEME://HOST:PORT",
        "c.yaml:1:79: gateway.allowedOrigins[3]: found no origin in normal form, allowed: SCHEME://HOST or SCHEME://HOST:PORT",
        "c.yaml:1:104: gateway.allowedOrigins[4]: found no origin in normal form, allowed: SCHEME://HOST or SCHEME://HOST:PORT",
        "c.yaml:1:125: gateway.allowedOrigins[5]: found no origin in normal form, allowed: SCHEME://HOST or SCHEME://HOST:PORT",
    ]),
    ("gateway:\n  elicitation:\n    allowedUrlPrefixes:\n    - https://a.example/x\n    - http://a.example/x/\n    - https://A.example/x/\n", &[
        "c.yaml:4:7: gateway.elicitation.allowedUrlPrefixes[0]: the prefix's path does not end in `/`, allowed: https, or http for a loopback host, in normal form ending in /",
        "c.yaml:5:7: gateway.elicitation.allowedUrlPrefixes[1]: the prefix is plain http to a host that is not loopback, allowed: https, or http for a loopback host, in normal form ending in /",
        "c.yaml:6:7: gateway.elicitation.allowedUrlPrefixes[2]: the prefix is not in normal form, allowed: https, or http for a loopback host, in normal form ending in /",
    ]),
    ("gateway:\n  tokens:\n  - id: a b\n    sha256: hunter2\n    expiresAt: tomorrow\n    channels: [http://a.example/]\n", &[
        "c.yaml:3:5: gateway.tokens[0]: found neither roles nor grant, allowed: one of them",
        "c.yaml:3:9: gateway.tokens[0].id: found \"a b\", allowed: [A-Za-z0-9_.-]{1,64}",
        "c.yaml:4:13: gateway.tokens[0].sha256: found something else, allowed: 64 hexadecimal digits",
        "c.yaml:5:16: gateway.tokens[0].expiresAt: found no point in time, allowed: RFC 3339, such as 2030-01-31T12:00:00Z",
        "c.yaml:6:16: gateway.tokens[0].channels[0]: the prefix is plain http to a host that is not loopback, allowed: https, or http for a loopback host, in normal form ending in /",
    ]),
    ("gateway:\n  tokens:\n  - {id: a, roles: [], sha256: 1111111111111111111111111111111111111111111111111111111111111111}\n  - {id: a, roles: [\"x y\"], sha256: 1111111111111111111111111111111111111111111111111111111111111111}\n  - {roles: [a], grant: {servers: [b]}}\n", &[
        "c.yaml:4:10: gateway.tokens[1].id: found \"a\" a second time, allowed: once",
        "c.yaml:4:21: gateway.tokens[1].roles[0]: found \"x y\", allowed: [A-Za-z0-9_.-]{1,64}",
        "c.yaml:4:37: gateway.tokens[1].sha256: found the token of \"a\", allowed: one of its own",
        "c.yaml:5:5: gateway.tokens[2].id: missing, allowed: a string",
        "c.yaml:5:5: gateway.tokens[2].sha256: missing, allowed: 64 hexadecimal digits",
        "c.yaml:5:25: gateway.tokens[2].grant.expiresAt: missing, allowed: a string",
        "c.yaml:5:25: gateway.tokens[2].grant: found a grant beside roles, allowed: one of them",
        "c.yaml:5:36: gateway.tokens[2].grant.servers[0]: found \"b\", allowed: a slug of servers",
    ]),
    ("bundles: {b: {url: \"http://b.example\"}, c: {listen: \"127.0.0.1:1\"}, \"d e\": {}}\n", &[
        "c.yaml:1:14: bundles.b: found a bundle between processes without a key, allowed: with one",
        "c.yaml:1:20: bundles.b.url: found another address, allowed: https, or http to a loopback host, in normal form, without user, query and fragment",
        "c.yaml:1:44: bundles.c: found a bundle between processes without a key, allowed: with one",
        "c.yaml:1:69: bundles.\"d e\": found a bundle of that name, allowed: [A-Za-z0-9_.-]{1,64}",
    ]),

    // Servers.
    ("servers:\n- kind: command\n- {slug: a, kind: gmail}\n", &[
        "c.yaml:2:3: servers[0].slug: missing, allowed: a string",
        "c.yaml:2:3: servers[0]: found no command tools, allowed: at least one",
        "c.yaml:3:19: servers[1].kind: found \"gmail\", allowed: supplementary-image, command, stdio, remote-http, local-tunnel",
    ]),
    ("servers:\n- {slug: gmail-a, kind: supplementary-image}\n- {slug: gmail-a, kind: supplementary-image}\n", &[
        "c.yaml:3:10: servers[1].slug: found \"gmail-a\" again, as on line 2, allowed: once",
    ]),
    ("servers:\n- {slug: gmail-a, kind: supplementary-image}\n- {slug: gmail_a, path: /gmail-b, kind: supplementary-image}\n", &[
        "c.yaml:3:10: servers[1].slug: found \"gmail_a\", allowed: [a-z0-9]+(-[a-z0-9]+)*",
        "c.yaml:3:10: servers[1].slug: found \"gmail_a\", whose variables start like those of \"gmail-a\" on line 2, allowed: another prefix",
    ]),
    ("servers:\n- {slug: a, kind: supplementary-image, timeoutMs: 1s, entitlements: [\"a b\"], mayBeUnseeded: [\"a-b\"]}\n", &[
        "c.yaml:2:3: servers[0].mount: found none by mount, path or slug, allowed: gmail, onepassword, command",
        "c.yaml:2:51: servers[0].timeoutMs: found a string, allowed: a whole number from 1 to 604800000",
        "c.yaml:2:70: servers[0].entitlements[0]: found \"a b\", allowed: [A-Za-z0-9_.-]{1,64}",
        "c.yaml:2:94: servers[0].mayBeUnseeded[0]: found \"a-b\", allowed: a variable's name, or file:/PATH",
    ]),
    ("servers:\n- {slug: gmail-a, kind: supplementary-image, path: gmail, bundle: \"a b\"}\n- {slug: gmail-b, kind: supplementary-image, path: /onepassword}\n- {slug: x, kind: supplementary-image, path: /gmail-x, mount: onepassword}\n", &[
        "c.yaml:2:52: servers[0].path: found \"gmail\", allowed: / and [a-z0-9]+(-[a-z0-9]+)*",
        "c.yaml:2:67: servers[0].bundle: found \"a b\", allowed: [A-Za-z0-9_.-]{1,64}",
        "c.yaml:3:10: servers[1].slug: found gmail, while path says onepassword, allowed: one of them",
        "c.yaml:4:46: servers[2].path: found gmail, while mount says onepassword, allowed: one of them",
    ]),
    ("servers:\n- {slug: a, kind: command, tools: [{name: t, argv: [a]}], path: /a, mount: gmail, image: i, bundle: b}\n", &[
        "c.yaml:2:65: servers[0].path: found a key of kind supplementary-image, allowed: leave it out for command",
        "c.yaml:2:76: servers[0].mount: found a key of kind supplementary-image, allowed: leave it out for command",
        "c.yaml:2:90: servers[0].image: found a key of kind supplementary-image, allowed: leave it out for command",
        "c.yaml:2:101: servers[0].bundle: found a key of kind supplementary-image, allowed: leave it out for command",
    ]),
    ("servers:\n- {slug: gmail-a, kind: supplementary-image, confirmations: true, timeoutMs: 1332}\n- {slug: gmail-b, kind: supplementary-image, confirmations: true, timeoutMs: 1333}\n- {slug: gmail-c, kind: supplementary-image, timeoutMs: 1}\n", &[
        "c.yaml:2:78: servers[0].timeoutMs: found 1332, which leaves 999 ms to answer, allowed: what leaves 1000",
    ]),
    ("servers:\n- {slug: gmail-a, kind: supplementary-image, confirmations: yes}\n", &[
        "c.yaml:2:61: servers[0].confirmations: found a string, allowed: true or false",
    ]),
    ("servers:\n- {slug: gmail-a, kind: supplementary-image, ask: mrtr}\n", &[
        "c.yaml:2:51: servers[0].ask: found \"mrtr\", allowed: channel for gmail and onepassword",
    ]),
    ("servers:\n- {slug: gmail-a, kind: supplementary-image, tools: [{name: t, argv: [a]}]}\n- {slug: b, kind: supplementary-image, mount: command}\n", &[
        "c.yaml:2:53: servers[0].tools: found command tools, allowed: for kind command, or mount command",
        "c.yaml:3:3: servers[1]: found no command tools, allowed: at least one",
    ]),

    ("servers:\n- {slug: \"\", kind: supplementary-image, path: \"\", bundle: \"\", mount: gmail}\n", &[
        "c.yaml:2:10: servers[0].slug: found \"\", allowed: [a-z0-9]+(-[a-z0-9]+)*",
        "c.yaml:2:47: servers[0].path: found \"\", allowed: / and [a-z0-9]+(-[a-z0-9]+)*",
        "c.yaml:2:59: servers[0].bundle: found \"\", allowed: [A-Za-z0-9_.-]{1,64}",
    ]),

    // Remote servers.
    ("servers:\n- {slug: a, kind: remote-http}\n- {slug: b, kind: remote-http, url: [u], headers: [h]}\n- {slug: c, kind: command, tools: [{name: t, argv: [a]}], url: \"http://localhost\", headers: {}}\n", &[
        "c.yaml:2:3: servers[0].url: missing, allowed: a string",
        "c.yaml:3:37: servers[1].url: found a list, allowed: a string",
        "c.yaml:3:51: servers[1].headers: found a list, allowed: a map",
        "c.yaml:4:64: servers[2].url: found a key of kind remote-http, allowed: leave it out for command",
        "c.yaml:4:93: servers[2].headers: found a key of kind remote-http, allowed: leave it out for command",
    ]),
    ("servers:\n- {slug: a, kind: remote-http, url: \"http://localhost:1/a%20b?k=${K}\"}\n", &[
        "c.yaml:2:37: servers[0].url: found a reference, allowed: fixed text; secrets go into headers",
    ]),
    ("servers:\n- slug: a\n  kind: remote-http\n  url: http://[::1]:1\n  image: i\n  bundle: b\n  path: /gmail\n  mount: gmail\n  tools: [{name: t, argv: [a]}]\n  skipConfirmations: true\n  env: {A: a}\n  command: [a]\n  cwd: /\n", &[
        "c.yaml:5:10: servers[0].image: found a key of kind supplementary-image, allowed: leave it out for remote-http",
        "c.yaml:6:11: servers[0].bundle: found a key of kind supplementary-image, allowed: leave it out for remote-http",
        "c.yaml:7:9: servers[0].path: found a key of kind supplementary-image, allowed: leave it out for remote-http",
        "c.yaml:8:10: servers[0].mount: found a key of kind supplementary-image, allowed: leave it out for remote-http",
        "c.yaml:9:10: servers[0].tools: found command tools, allowed: for kind command, or mount command",
        "c.yaml:10:22: servers[0].skipConfirmations: found true, allowed: for a supplementary-image with a gmail mount",
        "c.yaml:11:8: servers[0].env: found variables, which nothing would see, allowed: leave it out for remote-http",
        "c.yaml:12:12: servers[0].command: found a key of kind stdio, allowed: leave it out for remote-http",
        "c.yaml:13:8: servers[0].cwd: found a key of kind stdio, allowed: leave it out for remote-http",
    ]),
    ("servers:\n- slug: a\n  kind: remote-http\n  url: http://127.9.9.9/\n  headers:\n    MCP-Protocol-Version: a\n    mcp-: a\n    Content-Length: a\n    \"\": a\n    Authorization: Bearer ${K}\n    authorization: a\n    X-A: \"a\\n\"\n    X-B: \"${B} \"\n    X-C: é\n    X-D: ${}\n    X-E: ~\n    User-Agent: \"\"\n", &[
        "c.yaml:6:5: servers[0].headers.MCP-Protocol-Version: found a reserved name, allowed: any but accept, connection, content-length, content-type, expect, host, keep-alive, proxy-authenticate, proxy-authorization, proxy-connection, te, trailer, transfer-encoding, upgrade, mcp-*",
        "c.yaml:7:5: servers[0].headers.mcp-: found a reserved name, allowed: any but accept, connection, content-length, content-type, expect, host, keep-alive, proxy-authenticate, proxy-authorization, proxy-connection, te, trailer, transfer-encoding, upgrade, mcp-*",
        "c.yaml:8:5: servers[0].headers.Content-Length: found a reserved name, allowed: any but accept, connection, content-length, content-type, expect, host, keep-alive, proxy-authenticate, proxy-authorization, proxy-connection, te, trailer, transfer-encoding, upgrade, mcp-*",
        "c.yaml:9:5: servers[0].headers.\"\": found no name of a header, allowed: a token of RFC 9110",
        "c.yaml:11:5: servers[0].headers.authorization: found the name a second time in other letters, allowed: once",
        "c.yaml:12:10: servers[0].headers.X-A: found a line end or another control character, allowed: text without",
        "c.yaml:13:10: servers[0].headers.X-B: found a blank at its start or end, allowed: text without",
        "c.yaml:14:10: servers[0].headers.X-C: found a character outside ASCII, allowed: ASCII",
        "c.yaml:15:10: servers[0].headers.X-D: found a reference to nothing, allowed: ${NAME}, ${file:/PATH}",
        "c.yaml:16:10: servers[0].headers.X-E: found nothing, allowed: a string",
    ]),

    // Stdio servers.
    ("servers:\n- {slug: a, kind: stdio}\n- {slug: b, kind: stdio, command: a b, cwd: [c]}\n- {slug: c, kind: command, tools: [{name: t, argv: [a]}], command: [a], cwd: /}\n", &[
        "c.yaml:2:3: servers[0].command: missing, allowed: a list",
        "c.yaml:3:35: servers[1].command: found a string, allowed: a list",
        "c.yaml:3:45: servers[1].cwd: found a list, allowed: a string",
        "c.yaml:4:68: servers[2].command: found a key of kind stdio, allowed: leave it out for command",
        "c.yaml:4:78: servers[2].cwd: found a key of kind stdio, allowed: leave it out for command",
    ]),
    ("servers:\n- {slug: a, kind: stdio, command: [], cwd: srv}\n- {slug: b, kind: stdio, command: [\" \", \"\", \"a\\0\", \"--key=${K}\", 1], cwd: \"/a\\0\"}\n- {slug: c, kind: stdio, command: [\"a\\0\"], cwd: \"/${D}\"}\n- {slug: d, kind: stdio, command: [d], cwd: \"\"}\n", &[
        "c.yaml:2:35: servers[0].command: found an empty list, allowed: at least the program",
        "c.yaml:2:44: servers[0].cwd: found no absolute path, allowed: one that starts with /",
        "c.yaml:3:36: servers[1].command[0]: found an empty string, allowed: a program",
        "c.yaml:3:45: servers[1].command[2]: found a NUL character, allowed: text without",
        "c.yaml:3:52: servers[1].command[3]: found a reference, allowed: fixed text; secrets go into env",
        "c.yaml:3:66: servers[1].command[4]: found a number, allowed: a string in quotes",
        "c.yaml:3:75: servers[1].cwd: found no absolute path, allowed: one that starts with /",
        "c.yaml:4:36: servers[2].command[0]: found a NUL character, allowed: text without",
        "c.yaml:4:49: servers[2].cwd: found a reference, allowed: fixed text",
        "c.yaml:5:45: servers[3].cwd: found no absolute path, allowed: one that starts with /",
    ]),
    ("servers:\n- slug: a\n  kind: stdio\n  command: [a]\n  bundle: b\n  tools: [{name: t, argv: [a]}]\n  skipConfirmations: true\n  env: {\"1\": a, B: \"a\\0\", C: \"${\"}\n  url: http://localhost\n  headers: {\"a b\": c}\n", &[
        "c.yaml:5:11: servers[0].bundle: found a key of kind supplementary-image, allowed: leave it out for stdio",
        "c.yaml:6:10: servers[0].tools: found command tools, allowed: for kind command, or mount command",
        "c.yaml:7:22: servers[0].skipConfirmations: found true, allowed: for a supplementary-image with a gmail mount",
        "c.yaml:8:9: servers[0].env.1: found no name of a variable, allowed: [A-Za-z_][A-Za-z0-9_]*",
        "c.yaml:8:20: servers[0].env.B: found a NUL character, allowed: text without",
        "c.yaml:8:30: servers[0].env.C: found ${ without }, allowed: ${NAME}, ${file:/PATH}",
        "c.yaml:9:8: servers[0].url: found a key of kind remote-http, allowed: leave it out for stdio",
        "c.yaml:10:12: servers[0].headers: found a key of kind remote-http, allowed: leave it out for stdio",
    ]),

    // Headers that go with a question.
    ("servers:\n- slug: gmail-a\n  kind: supplementary-image\n  confirmationHeaders:\n    X-Key: a\n", &[
        "c.yaml:5:5: servers[0].confirmationHeaders: found headers without confirmations: true, which nothing would send",
    ]),
    ("servers:\n- slug: gmail-a\n  kind: supplementary-image\n  confirmations: true\n  confirmationHeaders:\n    Content-Type: a\n    TE: a\n    \"a b\": a\n    X-Key: a\n    x-key: a\n    X-A: \"a\\r\\nb\"\n    X-B: \"a\\0\"\n    X-C: ${\n    X-D: 1\n    X-E: \" a\"\n    X-F: \"${A}\\t\"\n    X-G: ä${file:/ä}\n    X-H: \"${file:/ä} a\\tb\"\n", &[
        "c.yaml:6:5: servers[0].confirmationHeaders.Content-Type: found a reserved name, allowed: any but accept, connection, content-length, content-type, expect, host, keep-alive, proxy-authenticate, proxy-authorization, proxy-connection, te, trailer, transfer-encoding, upgrade, user-agent",
        "c.yaml:7:5: servers[0].confirmationHeaders.TE: found a reserved name, allowed: any but accept, connection, content-length, content-type, expect, host, keep-alive, proxy-authenticate, proxy-authorization, proxy-connection, te, trailer, transfer-encoding, upgrade, user-agent",
        "c.yaml:8:5: servers[0].confirmationHeaders.\"a b\": found no name of a header, allowed: a token of RFC 9110",
        "c.yaml:10:5: servers[0].confirmationHeaders.x-key: found the name a second time in other letters, allowed: once",
        "c.yaml:11:10: servers[0].confirmationHeaders.X-A: found a line end or another control character, allowed: text without",
        "c.yaml:12:10: servers[0].confirmationHeaders.X-B: found a line end or another control character, allowed: text without",
        "c.yaml:13:10: servers[0].confirmationHeaders.X-C: found ${ without }, allowed: ${NAME}, ${file:/PATH}",
        "c.yaml:14:10: servers[0].confirmationHeaders.X-D: found a number, allowed: a string in quotes",
        "c.yaml:15:10: servers[0].confirmationHeaders.X-E: found a blank at its start or end, allowed: text without",
        "c.yaml:16:10: servers[0].confirmationHeaders.X-F: found a blank at its start or end, allowed: text without",
        "c.yaml:17:10: servers[0].confirmationHeaders.X-G: found a character outside ASCII, allowed: ASCII",
    ]),

    // Waivers.
    ("servers:\n- {slug: gmail-a, kind: supplementary-image, confirmations: true, skipConfirmations: true}\n", &[
        "c.yaml:2:86: servers[0].skipConfirmations: found true beside confirmations: true, allowed: one of them",
    ]),
    ("servers:\n- {slug: onepassword-a, kind: supplementary-image, skipConfirmations: true}\n- {slug: b, kind: command, skipConfirmations: true, tools: [{name: t, argv: [a]}]}\n", &[
        "c.yaml:2:71: servers[0].skipConfirmations: found true, allowed: for a supplementary-image with a gmail mount",
        "c.yaml:3:47: servers[1].skipConfirmations: found true, allowed: for a supplementary-image with a gmail mount",
    ]),
    ("servers:\n- {slug: gmail-a, kind: supplementary-image, confirmations: true, path: /gmail}\n- {slug: gmail-b, kind: supplementary-image, skipConfirmations: true, path: /gmail}\n", &[
        "c.yaml:3:65: servers[1].skipConfirmations: found a waiver on the bundle and path of \"gmail-a\", which confirms, allowed: a path of its own",
        "c.yaml:3:77: servers[1].path: found a waived slug on a shared path, allowed: /gmail-b",
    ]),
    // In the other order, on the waived slug's own path.
    ("servers:\n- {slug: gmail-b, kind: supplementary-image, skipConfirmations: true}\n- {slug: gmail-a, kind: supplementary-image, confirmations: true, path: /gmail-b}\n", &[
        "c.yaml:2:65: servers[0].skipConfirmations: found a waiver on the bundle and path of \"gmail-a\", which confirms, allowed: a path of its own",
    ]),
    ("servers:\n- {slug: gmail-a, kind: supplementary-image, confirmations: true, env: {GMAIL_A__GMAIL_OAUTH_REFRESH_TOKEN: \"${T}\", GMAIL_A__GMAIL_ENABLED_TOOLGROUPS: readonly}}\n- {slug: gmail-b, kind: supplementary-image, skipConfirmations: true, env: {GMAIL_B__GMAIL_OAUTH_REFRESH_TOKEN: \"${T}\"}}\n", &[
        "c.yaml:3:65: servers[1].skipConfirmations: found a waiver with the credentials of \"gmail-a\", which confirms, allowed: its own",
    ]),

    // Variables.
    ("servers:\n- {slug: gmail-a, kind: supplementary-image, env: {GMAIL_X: a, \"1\": b, Y: \"${}\"}}\n- {slug: gmail-b, kind: supplementary-image, env: {GMAIL_X: b}}\n- {slug: gmail-c, kind: supplementary-image, env: {GMAIL_X: c}, bundle: other}\n- {slug: gmail-d, kind: supplementary-image, env: {GMAIL_X: a}}\n", &[
        "c.yaml:2:64: servers[0].env.1: found no name of a variable, allowed: [A-Za-z_][A-Za-z0-9_]*",
        "c.yaml:2:75: servers[0].env.Y: found a reference to nothing, allowed: ${NAME}, ${file:/PATH}",
        "c.yaml:3:52: servers[1].env.GMAIL_X: found another value than that of \"gmail-a\" on the same bundle, allowed: the same, or GMAIL_B__GMAIL_X",
    ]),
    ("servers:\n- {slug: onepassword-a, path: /onepassword, kind: supplementary-image, env: {ONEPASSWORD_A__OP_SERVICE_ACCOUNT_TOKEN: \"${T}\"}}\n", &[
        "c.yaml:2:78: servers[0].env.ONEPASSWORD_A__OP_SERVICE_ACCOUNT_TOKEN: found a token of its own on a shared path, allowed: on path /onepassword-a",
    ]),

    // Command tools.
    ("servers:\n- {slug: a, kind: command, tools: [{name: t, argv: [a], gate: Gone.}]}\n", &[
        "c.yaml:2:63: servers[0].tools[0].gate: found a gate that asks over the channel, allowed: with confirmations: true",
    ]),
    ("servers:\n- {slug: a, kind: supplementary-image, mount: command, tools: [{name: t, argv: [a], gate: Gone.}]}\n", &[
        "c.yaml:2:91: servers[0].tools[0].gate: found a gate that asks over the channel, allowed: with confirmations: true",
    ]),
    ("servers:\n- {slug: a, kind: supplementary-image, mount: command, path: /x, tools: [{name: t, argv: [a]}]}\n- {slug: b, kind: supplementary-image, mount: command, path: /x, tools: [{name: t, argv: [a]}]}\n", &[
        "c.yaml:3:62: servers[1].path: found the bundle and path of \"a\", allowed: its own",
    ]),
    ("servers:\n- slug: a\n  kind: command\n  confirmations: true\n  tools:\n  - {name: t, argv: []}\n  - {name: t, argv: [\"\"], gate: \" \"}\n  - {name: u/v, argv: [rm, \"${X}\", 1, \"a\\0\"]}\n  - {argv: rm}\n", &[
        "c.yaml:6:21: servers[0].tools[0].argv: found an empty list, allowed: at least the program",
        "c.yaml:7:12: servers[0].tools[1].name: found \"t\" a second time, allowed: once",
        "c.yaml:7:22: servers[0].tools[1].argv[0]: found an empty string, allowed: a program",
        "c.yaml:7:33: servers[0].tools[1].gate: found an empty string, allowed: the consequence, in words",
        "c.yaml:8:12: servers[0].tools[2].name: found \"u/v\", allowed: [A-Za-z0-9_.-]{1,64}",
        "c.yaml:8:28: servers[0].tools[2].argv[1]: found a reference, allowed: fixed text; secrets go into env",
        "c.yaml:8:36: servers[0].tools[2].argv[2]: found a number, allowed: a string in quotes",
        "c.yaml:8:39: servers[0].tools[2].argv[3]: found a NUL character, allowed: text without",
        "c.yaml:9:5: servers[0].tools[3].name: missing, allowed: a string",
        "c.yaml:9:12: servers[0].tools[3].argv: found a string, allowed: a list",
    ]),
    ("servers:\n- slug: a\n  kind: command\n  tools:\n  - name: t\n    argv: [a]\n    flags: {x: x, y: --, \"a b\": -a}\n    options: {z: -z, x: --x}\n    positionals: [z, p, p]\n", &[
        "c.yaml:7:16: servers[0].tools[0].flags.x: found \"x\", allowed: a flag, such as -n or --name",
        "c.yaml:7:22: servers[0].tools[0].flags.y: found \"--\", allowed: a flag, such as -n or --name",
        "c.yaml:7:26: servers[0].tools[0].flags.\"a b\": found the argument \"a b\", allowed: [A-Za-z0-9_.-]{1,64}",
        "c.yaml:8:18: servers[0].tools[0].options.z: found \"-z\", allowed: a flag that takes =VALUE, such as --name",
        "c.yaml:8:22: servers[0].tools[0].options.x: found the argument \"x\" a second time, allowed: once",
        "c.yaml:9:19: servers[0].tools[0].positionals[0]: found the argument \"z\" a second time, allowed: once",
        "c.yaml:9:25: servers[0].tools[0].positionals[2]: found the argument \"p\" a second time, allowed: once",
    ]),

    // The desk and the gate.
    ("desk: {}\n", &["c.yaml:1:7: desk.secret: missing, allowed: a string or a list"]),
    ("desk:\n  secret: \"${A}\"\n  publicUrl: https://desk.example/under\n  people:\n  - {id: a, sha256: 1111111111111111111111111111111111111111111111111111111111111111, answersFor: [a]}\n", &[
        "c.yaml:3:14: desk.publicUrl: found another address, allowed: http or https, a host and a port in normal form, and nothing more",
    ]),
    ("desk:\n  secret: [short, \"${A}\", b]\n  publicUrl: https://u:hunter2@desk.example/\n  people:\n  - {id: a, sha256: x}\n  - {id: a, sha256: 1111111111111111111111111111111111111111111111111111111111111111, answersFor: []}\n  - {id: a, sha256: 1111111111111111111111111111111111111111111111111111111111111111, answersFor: [\"*a\", \"\"], passkeys: [x]}\n  askerKeys: [{sha256: x}, y]\n", &[
        "c.yaml:2:11: desk.secret: found 3 secrets, allowed: [new, old]",
        "c.yaml:2:12: desk.secret[0]: found 5 bytes, allowed: at least 32",
        "c.yaml:2:27: desk.secret[2]: found 1 bytes, allowed: at least 32",
        "c.yaml:3:14: desk.publicUrl: found another address, allowed: http or https, a host and a port in normal form, and nothing more",
        "c.yaml:5:5: desk.people[0].answersFor: missing, allowed: a list",
        "c.yaml:5:21: desk.people[0].sha256: found something else, allowed: 64 hexadecimal digits",
        "c.yaml:6:99: desk.people[1].answersFor: found an empty list, allowed: at least one name, or *",
        "c.yaml:7:10: desk.people[2].id: found \"a\" a second time, allowed: once",
        "c.yaml:7:21: desk.people[2].sha256: found the key of \"a\", allowed: one of their own",
        "c.yaml:7:100: desk.people[2].answersFor[0]: found \"*a\", allowed: a name, with * at its end only",
        "c.yaml:7:106: desk.people[2].answersFor[1]: found \"\", allowed: a name, with * at its end only",
        "c.yaml:7:121: desk.people[2].passkeys: found what this build does not have yet (passkeys), allowed: leave it out",
        "c.yaml:8:24: desk.askerKeys[0].sha256: found something else, allowed: 64 hexadecimal digits",
        "c.yaml:8:28: desk.askerKeys[1]: found a string, allowed: a map",
    ]),
    ("gate: {key: hunter2}\n", &["c.yaml:1:13: gate.key: found 7 bytes, allowed: at least 32"]),
];

#[test]
fn each_fault_is_said_in_these_words() {
    let mut wrong = Vec::new();
    for (text, expected) in TABLE {
        let found = faults(text);
        if found != *expected {
            wrong.push(format!(
                "--- {text}\nfound:    {found:#?}\nexpected: {expected:#?}"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        TABLE.len(),
        wrong.join("\n")
    );
}

#[test]
fn a_remote_server_is_at_an_https_or_loopback_address() {
    let file = |url: &str| format!("servers:\n- {{slug: a, kind: remote-http, url: '{url}'}}\n");
    let taken = [
        "http://localhost",
        "http://localhost:9000/mcp",
        "http://127.0.0.1/",
        "http://127.255.0.9:1/mcp?servers=a,b&k=%2F%zz|",
        "http://[::1]:1/%40scope/mcp/?",
        #[cfg(feature = "tls")]
        "https://mcp.example.com",
        #[cfg(feature = "tls")]
        "https://mcp.example.com:8443/a/b?c",
    ];
    for url in taken {
        let config = config(&file(url));
        let Kind::RemoteHttp { url: read, headers } = &config.servers[0].kind else {
            panic!("{url}")
        };
        assert_eq!(
            read.as_str().trim_end_matches('/'),
            url.trim_end_matches('/')
        );
        assert!(headers.is_empty());
    }
    for url in [
        "",
        "mcp.example.com",
        "//localhost/",
        "ftp://localhost/",
        "ws://localhost/",
        "file:///etc/passwd",
        "HTTP://localhost/",
        "http:localhost",
        "http:/localhost/",
        "http://",
        "http:///localhost/",
        "http:///%6Cocalhost/",
        "http://%6Cocalhost/",
        "http://LOCALHOST/",
        "http://localhost./",
        "http://a.localhost/",
        "http://mcp.example.com/",
        "http://10.0.0.1/",
        "http://0.0.0.0/",
        "http://127.1/",
        "http://2130706433/",
        "http://128.0.0.1/",
        "http://[::2]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[0:0:0:0:0:0:0:1]/",
        "http://localhost:80/",
        "http://localhost:65536/",
        "http://user@localhost/",
        "http://user:hunter2@localhost/",
        "http://:hunter2@localhost/",
        "http://@localhost/",
        "http://localhost/#hunter2",
        "http://localhost/#",
        "http://localhost/a/../b",
        "http://localhost/%2e%2e/b",
        "http://localhost?a",
        "http://localhost/a b",
        "http://localhost/ä",
        "http://ä.localhost/",
        "https://xn--3ug/",
        "http://localhost\\a",
        " http://localhost/",
    ] {
        let allowed =
            "https, or http to a loopback host, in normal form, without user and fragment";
        let expected =
            format!("c.yaml:2:37: servers[0].url: found another address, allowed: {allowed}");
        assert_eq!(faults(&file(url)), [expected], "{url}");
    }
}

#[test]
fn faults_of_every_part_come_out_of_one_run() {
    let text = "gatway: {}\nlog: {level: loud}\ngateway: {listen: nowhere}\ndesk: {secret: short}\nservers:\n\
                - {slug: A, kind: command}\n- {slug: gmail-a, kind: supplementary-image, ask: mrtr}\n";
    let paths: Vec<_> = Config::parse("c.yaml", text)
        .unwrap_err()
        .into_iter()
        .map(|f| f.at.path)
        .collect();
    assert_eq!(
        paths,
        [
            "gatway",
            "log.level",
            "gateway.listen",
            "desk.secret",
            "servers[0]",
            "servers[0].slug",
            "servers[1].ask"
        ]
    );
}

#[test]
fn no_fault_repeats_what_may_be_a_credential() {
    for (text, _) in TABLE {
        for fault in faults(text) {
            assert!(!fault.contains("hunter2"), "{fault}");
        }
    }
}

#[test]
fn a_list_of_faults_ends() {
    let text = (0..500).map(|i| format!("k{i}: 1\n")).collect::<String>();
    let faults = faults(&text);
    assert_eq!(faults.len(), MAX_FAULTS + 1);
    assert_eq!(
        faults.last().unwrap(),
        "c.yaml: and 400 more faults, not shown"
    );
}

#[test]
fn an_open_listener_needs_a_token() {
    let open = config("gateway: {listen: [127.0.0.1:1, 0.0.0.0:2, \"[::]:3\"]}\n");
    let faults: Vec<_> = open
        .start_faults()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        faults,
        [
            "c.yaml:1:33: gateway.listen[1]: found 0.0.0.0:2, and no token in gateway.tokens, allowed: \
             a loopback address, or at least one token",
            "c.yaml:1:44: gateway.listen[2]: found [::]:3, and no token in gateway.tokens, allowed: \
             a loopback address, or at least one token",
        ]
    );
    let held = "gateway: {listen: 0.0.0.0:2, tokens: [{id: a, roles: [], sha256: \
                1111111111111111111111111111111111111111111111111111111111111111}]}\n";
    assert_eq!(config(held).start_faults(), []);
    assert_eq!(config("").start_faults(), []);
}
