//! Files that are taken: the spec's examples, the interface's, and one that holds every key.

use super::*;
use crate::approval::url::Allowlist;

/// The spec, "One token, one mount"; `servers:` is what it was cut from.
const ONEPASSWORD: &str = r#"servers:
  - slug: onepassword-pulsemcp-provisioning
    kind: supplementary-image
    image: ghcr.io/tadasant/strad-bundle:latest
    bundle: bundle
    path: /onepassword-pulsemcp-provisioning
    entitlements: [admin, zimmer]
    confirmations: true
    timeoutMs: 240000
    env:
      ONEPASSWORD_PULSEMCP_PROVISIONING__OP_SERVICE_ACCOUNT_TOKEN: "${OP_SERVICE_ACCOUNT_TOKEN_PULSEMCP}"
      ONEPASSWORD_PULSEMCP_PROVISIONING__OP_ELICITATION_WRITE: "false"
    confirmationHeaders:
      CF-Access-Client-Id: "${ZIMMER_APPROVAL_CF_ACCESS_CLIENT_ID}"
      CF-Access-Client-Secret: "${ZIMMER_APPROVAL_CF_ACCESS_CLIENT_SECRET}"
"#;

/// The spec, "The edge in front of the approval URL"; `servers:` and the elided `kind` are filled in.
const EDGE: &str = r#"servers:
  - slug: gmail-rw-external
    confirmations: true
    confirmationHeaders:
      CF-Access-Client-Id: "${ZIMMER_CF_ACCESS_CLIENT_ID}"
      CF-Access-Client-Secret: "${ZIMMER_CF_ACCESS_CLIENT_SECRET}"
    kind: supplementary-image
"#;

/// The spec, "A mailbox that is the agent's own", as it stands.
const WAIVER: &str = r#"servers:
  - slug: gmail-zimmer-rw-external
    kind: supplementary-image
    # …
    skipConfirmations: true
"#;

/// The spec, "Configuring it", as it stands.
const CONFIGURING: &str = r#"gateway:
  elicitation:
    allowedUrlPrefixes:
      - https://zimmer.tadasant.com/api/v1/elicitations/session/

servers:
  - slug: gmail-rw-external
    kind: supplementary-image
    # …
    confirmations: true
    # How long a human has to answer, plus the margin. The default 120s gives
    # a human 105s. See "How long a window can be" below before raising it.
    timeoutMs: 240000
    # Only when an edge in front of the approval URL wants strad's credential.
    confirmationHeaders:
      CF-Access-Client-Id: "${ZIMMER_CF_ACCESS_CLIENT_ID}"
      CF-Access-Client-Secret: "${ZIMMER_CF_ACCESS_CLIENT_SECRET}"
"#;

/// The interface, "A command tool", wrapped.
const XIANYUN: &str = r#"servers:
    - slug: xianyun
      kind: command
      ask: mrtr
      tools:
        - name: xianyun_destroy
          description: Destroy the local cluster.
          argv: [xianyun, destroy]
          gate: "This destroys the local cluster and deletes all its data. This cannot be undone."
          flags: {dry_run: --dry-run}            # boolean arguments
          options: {name: --name}                # string arguments: --name=VALUE
          positionals: []                        # string arguments, after `--`
          timeoutMs: 600000                      # of the act; starts when the permit is spent
"#;

/// Every key that this build has, each with a value that is not its default.
const EVERYTHING: &str = r#"gateway:
  adminListen: 127.0.0.1:1112
  listen: [127.0.0.1:9600, "[::1]:9600", localhost:9601, 0.0.0.0:9602]
  allowedHosts: [Gate.example.com, "gate.example.com:8443"]
  allowedOrigins: [https://gate.example.com, chrome-extension://abcdef]
  oauth: {authorizationServers: [https://login.example.com/tenant]}
  elicitation:
    allowedUrlPrefixes: [http://localhost:8601/api/v1/elicitations/session/]
  tokens:
    - id: agent
      sha256: 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
      roles: [zimmer, admin]
      expiresAt: 2030-01-31T12:00:00Z
      channels: [http://localhost:8601/api/v1/elicitations/session/agent/]
    - id: flow
      sha256: "1111111111111111111111111111111111111111111111111111111111111111"
      grant: {servers: [files], expiresAt: 2030-01-31T12:00:00+01:00}
bundles:
  tools:
    url: http://127.0.0.1:8700
    listen: 127.0.0.1:8700
    key: ${BUNDLE_KEY}
servers:
  - slug: files
    kind: supplementary-image
    image: ghcr.io/example/files:1
    bundle: tools
    path: /files
    mount: command
    entitlements: [zimmer]
    env: {ROOT: "/srv/${NAME}"}
    timeoutMs: 60000
    confirmations: true
    skipConfirmations: false
    confirmationHeaders: {X-Asker: "${file:/run/secrets/asker}"}
    mayBeUnseeded: [NAME, file:/run/secrets/asker]
    ask: channel
    required: false
    tools:
      - name: delete_file
        description: Delete a file.
        argv: [rm]
        gate: The file is gone.
        flags: {force: -f}
        options: {only: --only}
        positionals: [path]
        timeoutMs: 5000
  - slug: far
    kind: remote-http
    url: http://localhost:9000/mcp?profile=a%20b
    headers: {Authorization: "Bearer ${FAR_KEY}", X-Tenant: a}
    mayBeUnseeded: [FAR_KEY]
  - slug: child
    kind: stdio
    command: [npx, -y, "@example/server"]
    cwd: /srv/child
    env: {API_KEY: "${file:/run/secrets/child}"}
    mayBeUnseeded: [file:/run/secrets/child]
desk:
  listen: 127.0.0.1:9700
  publicUrl: https://desk.example.com
  secret: ["${NEW}", 0123456789abcdef0123456789abcdef]
  people:
    - id: ada
      sha256: 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
      answersFor: [agent, zimmer-*]
  askerKeys:
    - sha256: 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
  store: memory
gate:
  key: ${GATE_KEY}
  spent: memory
log: {level: debug, format: text}
limits:
  bodyBytes: 2048
  bufferedBytes: 65537
  headBytes: 1025
  headers: 9
  connections: 2
  callsPerToken: 3
  childOutputBytes: 2049
timing: {pollMs: 101, keepaliveMs: 102, headMs: 103, bodyMs: 104, idleMs: 105, drainMs: 106}
"#;

/// The keys of the feature `tls`.
const TLS: &str = "
gateway: {tls: {cert: /tls/gateway.pem, key: /tls/gateway.key}}
desk: {secret: \"${S}\", tls: {cert: desk.pem, key: desk.key}}
bundles: {b: {listen: 127.0.0.1:1, key: \"${K}\", tls: {cert: b.pem, key: b.key}}}
tls: {caFile: /tls/ca.pem}
";

#[test]
#[cfg(feature = "tls")]
fn certificates_and_authorities() {
    let config = config(TLS);
    let files = |cert: &str, key: &str| {
        let [cert, key] = [cert, key].map(std::path::PathBuf::from);
        Some(CertificateFiles { cert, key })
    };
    assert_eq!(
        config.gateway.tls,
        files("/tls/gateway.pem", "/tls/gateway.key")
    );
    assert_eq!(
        config.desk.as_ref().unwrap().tls,
        files("desk.pem", "desk.key")
    );
    assert_eq!(config.bundle("b").unwrap().tls, files("b.pem", "b.key"));
    assert_eq!(config.tls.ca_file.as_deref(), Some("/tls/ca.pem".as_ref()));
}

#[test]
fn the_specs_1password_slug() {
    let config = config(ONEPASSWORD);
    let server = config.server("onepassword-pulsemcp-provisioning").unwrap();
    assert_eq!((server.timeout_ms, server.ttl_ms()), (240_000, 225_000));
    assert_eq!(server.entitlements, ["admin", "zimmer"]);
    assert!(server.confirmations && !server.skip_confirmations);
    let Kind::SupplementaryImage {
        image,
        bundle,
        path,
        mount: Mount::Onepassword,
    } = &server.kind
    else {
        panic!("{server:?}")
    };
    assert_eq!(
        image.as_deref(),
        Some("ghcr.io/tadasant/strad-bundle:latest")
    );
    assert_eq!(
        (bundle.as_str(), path.as_str()),
        ("bundle", "/onepassword-pulsemcp-provisioning")
    );
    let names: Vec<_> = server.env.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "ONEPASSWORD_PULSEMCP_PROVISIONING__OP_SERVICE_ACCOUNT_TOKEN",
            "ONEPASSWORD_PULSEMCP_PROVISIONING__OP_ELICITATION_WRITE",
        ]
    );
    let word = server.env[1].1.value.resolve(&Environment(&[])).unwrap();
    assert_eq!(word.expose(), "false");
    assert_eq!(
        config.notices,
        [Notice::MountAbsent {
            slug: server.slug.to_string(),
            mount: "onepassword"
        }]
    );
}

#[test]
fn the_specs_edge_headers() {
    let config = config(EDGE);
    let server = config.server("gmail-rw-external").unwrap();
    assert_eq!((server.timeout_ms, server.ttl_ms()), (120_000, 105_000));
    let Kind::SupplementaryImage {
        bundle,
        path,
        mount: Mount::Gmail,
        ..
    } = &server.kind
    else {
        panic!("{server:?}")
    };
    assert_eq!(
        (bundle.as_str(), path.as_str()),
        ("bundle", "/gmail-rw-external")
    );
    let (name, value) = &server.confirmation_headers[0];
    assert_eq!(name, "CF-Access-Client-Id");
    // "from the slug's own namespace first, then the shared one", on every call.
    let shared = Environment(&[
        ("ZIMMER_CF_ACCESS_CLIENT_ID", "shared"),
        ("GMAIL_RW_EXTERNAL__ZIMMER_CF_ACCESS_CLIENT_ID", "own"),
    ]);
    let own = SlugLookup {
        slug: &server.slug,
        shared: &shared,
    };
    assert_eq!(value.value.resolve(&own).unwrap().expose(), "own");
    let unseeded = value.value.resolve(&Environment(&[])).unwrap_err();
    assert_eq!(unseeded.name, "ZIMMER_CF_ACCESS_CLIENT_ID");
}

#[test]
fn the_specs_waiver() {
    let config = config(WAIVER);
    let server = &config.servers[0];
    assert!(server.skip_confirmations && !server.confirmations);
    assert_eq!(
        config.notices,
        [Notice::MountAbsent {
            slug: "gmail-zimmer-rw-external".into(),
            mount: "gmail"
        }]
    );
    assert_eq!(warnings(WAIVER), Vec::<String>::new());
}

#[test]
fn the_specs_whole_example() {
    let config = config(CONFIGURING);
    let url = b"https://zimmer.tadasant.com/api/v1/elicitations/session/22867-x";
    assert!(config.gateway.prefixes.admit(url).is_ok());
    assert!(
        config
            .gateway
            .prefixes
            .admit(b"https://zimmer.tadasant.com/api/v1/other")
            .is_err()
    );
    assert_eq!(config.servers[0].timeout_ms, 240_000);
    let path = "gateway.elicitation.allowedUrlPrefixes[0]".to_owned();
    let absent = config.notices.contains(&Notice::TlsAbsent { path });
    assert_eq!(absent, cfg!(not(feature = "tls")));
}

#[test]
fn the_interfaces_command_tool() {
    let config = config(XIANYUN);
    let server = &config.servers[0];
    assert_eq!(server.ask, Ask::Mrtr);
    assert_eq!(
        server.tools(),
        [CommandTool {
            name: "xianyun_destroy".into(),
            description: Some("Destroy the local cluster.".into()),
            argv: vec!["xianyun".into(), "destroy".into()],
            gate: Some(
                "This destroys the local cluster and deletes all its data. This cannot be undone."
                    .into()
            ),
            flags: vec![("dry_run".into(), "--dry-run".into())],
            options: vec![("name".into(), "--name".into())],
            positionals: vec![],
            timeout_ms: 600_000,
        }]
    );
    assert_eq!(
        config.notices,
        [Notice::AskAbsent {
            slug: "xianyun".into(),
            ask: "mrtr"
        }]
    );
    assert_eq!(
        config.notices[0].to_string(),
        "xianyun: this build cannot ask by mrtr; its confirmed tools refuse every call"
    );
}

#[test]
fn everything() {
    let config = config(EVERYTHING);
    let listen: Vec<_> = config
        .gateway
        .listen
        .iter()
        .map(|l| l.address.to_string())
        .collect();
    assert_eq!(
        listen,
        [
            "127.0.0.1:9600",
            "[::1]:9600",
            "127.0.0.1:9601",
            "0.0.0.0:9602"
        ]
    );
    assert_eq!(
        config.gateway.allowed_hosts,
        ["gate.example.com", "gate.example.com:8443"]
    );
    assert_eq!(
        config.gateway.allowed_origins,
        ["https://gate.example.com", "chrome-extension://abcdef"]
    );
    let [agent, flow] = config.gateway.tokens.as_slice() else {
        panic!()
    };
    assert_eq!(agent.sha256[31], 31);
    assert_eq!(
        agent.reach,
        Reach::Roles(vec!["zimmer".into(), "admin".into()])
    );
    assert_eq!(agent.expires_at_wall_ms, Some(1_896_091_200_000));
    assert!(!agent.channels.as_ref().unwrap().is_empty());
    assert_eq!(
        flow.reach,
        Reach::Grant {
            servers: vec![Slug::parse("files").unwrap()],
            expires_at_wall_ms: 1_896_087_600_000
        }
    );
    assert_eq!(flow.channels.as_ref().map(Allowlist::is_empty), None);
    let bundle = config.bundle("tools").unwrap();
    assert_eq!(
        bundle.url.as_ref().unwrap().as_str(),
        "http://127.0.0.1:8700/"
    );
    assert_eq!(bundle.listen[0].address.port(), 8700);
    let server = config.server("files").unwrap();
    assert_eq!((server.bundle(), server.ttl_ms()), (Some("tools"), 45_000));
    assert!(server.entitles("zimmer") && server.entitles("admin") && !server.entitles("other"));
    let tool = &server.tools()[0];
    assert_eq!(
        (tool.positionals.as_slice(), tool.timeout_ms),
        (&["path".to_owned()][..], 5_000)
    );
    let Kind::RemoteHttp { url, headers } = &config.server("far").unwrap().kind else {
        panic!()
    };
    assert_eq!(url.as_str(), "http://localhost:9000/mcp?profile=a%20b");
    let [(name, key), (other, tenant)] = headers.as_slice() else {
        panic!()
    };
    assert_eq!(
        (name.as_str(), other.as_str()),
        ("Authorization", "X-Tenant")
    );
    let seeded = Environment(&[("FAR_KEY", "k")]);
    assert_eq!(key.value.resolve(&seeded).unwrap().expose(), "Bearer k");
    assert_eq!(tenant.value.resolve(&seeded).unwrap().expose(), "a");
    let child = config.server("child").unwrap();
    let Kind::Stdio { command, cwd } = &child.kind else {
        panic!()
    };
    assert_eq!(command, &["npx", "-y", "@example/server"]);
    assert_eq!(cwd.as_deref(), Some("/srv/child".as_ref()));
    assert_eq!((child.bundle(), child.tools()), (None, &[][..]));
    assert_eq!(child.env[0].0, "API_KEY");
    let desk = config.desk.as_ref().unwrap();
    assert_eq!(
        desk.public_url.as_ref().unwrap().as_str(),
        "https://desk.example.com/"
    );
    assert_eq!((desk.secret.len(), desk.asker_keys.len()), (2, 1));
    let person = &desk.people[0];
    let answers = |name| person.answers_for.iter().any(|askers| askers.hold(name));
    assert!(answers("agent") && answers("zimmer-1") && answers("zimmer-"));
    assert!(!answers("agent2") && !answers("zimmer") && !answers(""));
    assert_eq!(config.gate.key.len(), 1);
    assert_eq!(
        config.log,
        Log {
            level: log::LevelFilter::Debug,
            format: LogFormat::Text
        }
    );
    assert_eq!(
        config.limits,
        Limits {
            body_bytes: 2048,
            buffered_bytes: 65537,
            head_bytes: 1025,
            headers: 9,
            connections: 2,
            calls_per_token: 3,
            questions_per_channel: 8,
            questions_per_token: 32,
            declines: 3,
            child_output_bytes: 2049,
        }
    );
    assert_eq!(
        config.timing,
        Timing {
            poll_ms: 101,
            keepalive_ms: 102,
            head_ms: 103,
            body_ms: 104,
            idle_ms: 105,
            drain_ms: 106
        }
    );
    assert_eq!(config.notices, []);
    assert_eq!(config.start_faults(), []);

    // The file must name each key of the list, or the list has grown and this test has not.
    for key in keys::KEYS {
        let name = key.path.rsplit('.').next().unwrap().trim_end_matches("[]");
        let absent = keys::NOT_YET
            .iter()
            .any(|row| row.path == key.path && matches!(row.values, keys::Values::Any));
        let later =
            absent || matches!(key.shape, keys::Shape::Later) || name == "NAME" || name.is_empty();
        assert!(
            later || [EVERYTHING, TLS].concat().contains(&format!("{name}:")),
            "{}",
            key.path
        );
    }
}

#[test]
fn defaults_are_the_interfaces() {
    for empty in [
        "",
        "# nothing\n",
        "{}",
        "gateway: {}\nlimits: {}\ntiming: {}\nlog: {}\ngate: {}\n",
    ] {
        let config = config(empty);
        assert_eq!(
            config.gateway.listen[0].address.to_string(),
            "127.0.0.1:8600"
        );
        assert!(config.gateway.prefixes.is_empty() && config.gateway.tokens.is_empty());
        assert!(config.servers.is_empty() && config.desk.is_none() && config.gate.key.is_empty());
        assert_eq!(
            config.log,
            Log {
                level: log::LevelFilter::Info,
                format: LogFormat::Json
            }
        );
        assert_eq!(
            config.limits,
            Limits {
                body_bytes: 33_554_432,
                buffered_bytes: 268_435_456,
                head_bytes: 16_384,
                headers: 100,
                connections: 16_384,
                calls_per_token: 256,
                questions_per_channel: 8,
                questions_per_token: 32,
                declines: 3,
                child_output_bytes: 1_048_576,
            }
        );
        assert_eq!(
            config.timing,
            Timing {
                poll_ms: 5_000,
                keepalive_ms: 30_000,
                head_ms: 10_000,
                body_ms: 30_000,
                idle_ms: 60_000,
                drain_ms: 10_000,
            }
        );
    }
    let config = config("desk: {secret: \"${SECRET}\"}");
    let desk = config.desk.unwrap();
    assert_eq!(desk.listen[0].address.to_string(), "127.0.0.1:8601");
    assert!(desk.public_url.is_none());
}

#[test]
fn unset_references_warn_by_name() {
    let unset = |text: &str, lookup: &dyn Lookup| -> Vec<String> {
        config(text)
            .unset(lookup)
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    assert_eq!(
        unset(
            EDGE,
            &Environment(&[("GMAIL_RW_EXTERNAL__ZIMMER_CF_ACCESS_CLIENT_ID", "x")])
        ),
        [
            "c.yaml:6:32: servers[0].confirmationHeaders.CF-Access-Client-Secret: \
          ZIMMER_CF_ACCESS_CLIENT_SECRET is not set; what needs it refuses until it is"
        ]
    );
    // Empty is unset, and `mayBeUnseeded` silences.
    assert_eq!(
        unset(EDGE, &Environment(&[("ZIMMER_CF_ACCESS_CLIENT_ID", "")])).len(),
        2
    );
    let silenced = format!(
        "{EDGE}    mayBeUnseeded: [ZIMMER_CF_ACCESS_CLIENT_ID, ZIMMER_CF_ACCESS_CLIENT_SECRET]\n"
    );
    assert_eq!(unset(&silenced, &Environment(&[])), Vec::<String>::new());
    // From the slug's own namespace, then the shared one; each reference is told where it stands.
    let remote = "servers:\n- slug: far-away\n  kind: remote-http\n  url: http://localhost\n  headers:\n    \
                  X-A: ${A}\n    X-B: ${B}-${file:/c}\n- {slug: d, kind: stdio, command: [d], env: {E: \"${E}\"}}\n";
    let own = Environment(&[("FAR_AWAY__A", "a"), ("FAR_AWAY__E", "e"), ("D__B", "b")]);
    let more = "is not set; what needs it refuses until it is";
    assert_eq!(
        unset(remote, &own),
        [
            format!("c.yaml:7:10: servers[0].headers.X-B: B {more}"),
            format!("c.yaml:7:10: servers[0].headers.X-B: file:/c {more}"),
            format!("c.yaml:8:49: servers[1].env.E: E {more}"),
        ]
    );
    let silenced = remote.replace("  headers:", "  mayBeUnseeded: [B, file:/c]\n  headers:");
    assert_eq!(unset(&silenced, &own).len(), 1);
    let names: Vec<_> = config(EVERYTHING)
        .unset(&Environment(&[]))
        .into_iter()
        .map(|w| w.at.path)
        .collect();
    assert_eq!(names, ["bundles.tools.key", "desk.secret[0]", "gate.key"]);
}

#[test]
fn warns_and_goes_on() {
    assert_eq!(
        warnings("gateway: {elicitation: {allowedUrlPrefixes: [https://a.example/]}}"),
        ["c.yaml:1:46: gateway.elicitation.allowedUrlPrefixes[0]: \
          allows every path of its host, which is rarely what is meant"]
    );
    assert_eq!(
        warnings("servers:\n- slug: gmail-a\n  kind: supplementary-image\n"),
        [
            "c.yaml:2:3: servers[0]: declares no confirmations, so each of its confirmed tools refuses"
        ]
    );
    let misspelt = "bundles: {google: {}}\nservers:\n- {slug: gmail-a, kind: supplementary-image, \
                    confirmations: true, bundle: googel}\n";
    assert_eq!(
        warnings(misspelt),
        [
            "c.yaml:3:75: servers[0].bundle: \"googel\" is not under bundles, so it runs inside this process"
        ]
    );
}

#[test]
fn a_file_loads_as_its_text_does() {
    let path = std::env::temp_dir().join(format!("countersign-config-{}.yaml", std::process::id()));
    std::fs::write(&path, EDGE).unwrap();
    let (config, warnings) = Config::load(&path).unwrap();
    assert_eq!((config.servers.len(), warnings.len()), (1, 2));
    std::fs::write(&path, b"log:\n  level: \xFF\n").unwrap();
    let fault = Config::load(&path).unwrap_err().remove(0);
    assert_eq!((fault.at.line, fault.at.column), (2, 10));
    assert_eq!(fault.text, "found bytes that are no text, allowed: UTF-8");
    std::fs::write(&path, vec![b'#'; 1024 * 1024 + 1]).unwrap();
    let fault = Config::load(&path).unwrap_err().remove(0);
    assert_eq!(fault.text, "found 1048577 bytes, allowed: at most 1048576");
    std::fs::remove_file(&path).unwrap();
    let fault = Config::load(&path).unwrap_err().remove(0).to_string();
    assert!(
        fault.starts_with(&format!("{}: cannot be read: ", path.display())),
        "{fault}"
    );
}

#[test]
fn a_configuration_shows_no_credential() {
    let text = "gate: {key: hunter2-hunter2-hunter2-hunter2-xx}\nservers:\n- {slug: gmail-a, kind: \
                supplementary-image, env: {GMAIL_A__GMAIL_KEY: hunter2}, confirmations: true, \
                confirmationHeaders: {X-Key: hunter2}}\n- {slug: far, kind: remote-http, url: \
                \"http://localhost/hunter2?key=hunter2\", headers: {X-Key: hunter2}}\n";
    let shown = format!("{:?}", config(text));
    assert!(!shown.contains("hunter2"), "{shown}");
}
