//! Who is asked and who is not: each row of the spec's table, and the words that a model reads for it.

use countersign::world::World;

use crate::lab::{self, Acts, Caller, Endpoint};

/// One situation: the lines of the server, the headers of the caller, and what the model reads.
struct Row {
    situation: &'static str,
    server: &'static str,
    headers: fn(&Endpoint) -> Vec<(&'static str, String)>,
    reads: &'static str,
}

fn bearer(token: &str) -> (&'static str, String) {
    ("Authorization", format!("Bearer {token}"))
}

fn channel(url: String) -> (&'static str, String) {
    ("X-Elicitation-Url", url)
}

const CONFIRMS: &str = "confirmations: true";

const ROWS: &[Row] = &[
    Row {
        situation: "no X-Elicitation-Url, with an admin token",
        server: CONFIRMS,
        headers: |_| vec![bearer("admin-token")],
        reads: "the call named no approval channel (X-Elicitation-Url)",
    },
    Row {
        situation: "two of them",
        server: CONFIRMS,
        headers: |endpoint| {
            let one = channel(endpoint.channel("1-token-aa"));
            vec![bearer("admin-token"), one.clone(), one]
        },
        reads: "X-Elicitation-Url was sent more than once",
    },
    Row {
        situation: "not under an allowed prefix",
        server: CONFIRMS,
        headers: |_| {
            vec![
                bearer("admin-token"),
                channel("https://other.example/a/secret-path".to_owned()),
            ]
        },
        reads: "https://other.example",
    },
    Row {
        situation: "a sibling of an allowed prefix",
        server: CONFIRMS,
        headers: |endpoint| {
            let sibling = endpoint
                .prefix()
                .replace("/approve/", "/approve-not/secret-path");
            vec![bearer("admin-token"), channel(sibling)]
        },
        reads: "X-Elicitation-Url: ",
    },
    Row {
        situation: "a token that may have people asked elsewhere only",
        server: CONFIRMS,
        headers: |endpoint| {
            vec![
                bearer("narrow-token"),
                channel(endpoint.channel("1-token-aa")),
            ]
        },
        reads: "is not a channel of this token",
    },
    Row {
        situation: "a flow-through grant",
        server: CONFIRMS,
        headers: |endpoint| {
            vec![
                bearer("grant-token"),
                channel(endpoint.channel("1-token-aa")),
            ]
        },
        reads: "the call came through a flow-through grant, which has no session to ask",
    },
    Row {
        situation: "a header of the edge is not seeded",
        server: "confirmations: true\n    confirmationHeaders: {CF-Access-Client-Secret: \"${REFUSALS_NEVER_SET}\"}",
        headers: |endpoint| {
            vec![
                bearer("admin-token"),
                channel(endpoint.channel("1-token-aa")),
            ]
        },
        reads: "REFUSALS_NEVER_SET is not set",
    },
];

fn config(endpoint: &Endpoint, acts: &Acts, server: &str) -> String {
    let hash =
        |token: &str| countersign::secret::hex(&countersign::secret::sha256(token.as_bytes()));
    format!(
        "gateway:\n  elicitation: {{allowedUrlPrefixes: [\"{prefix}\"]}}\n  tokens:\n    - {{id: admin, sha256: {}, roles: [admin]}}\n    - {{id: narrow, sha256: {}, roles: [admin], channels: [\"{prefix}narrow/\"]}}\n    - {{id: flow, sha256: {}, grant: {{servers: [s], expiresAt: \"2027-01-01T00:00:00Z\"}}}}\nservers:\n  - slug: s\n    kind: supplementary-image\n    image: none\n    bundle: b\n    path: /s\n    mount: command\n    {server}\n    tools:\n      - {{name: act, argv: {}, gate: It acts.}}\n      - {{name: open, argv: [echo, hello]}}\n",
        hash("admin-token"),
        hash("narrow-token"),
        hash("grant-token"),
        acts.argv(),
        prefix = endpoint.prefix(),
    )
}

async fn call(
    world: &World,
    gateway: std::net::SocketAddr,
    tool: &str,
    headers: &[(&str, String)],
) -> String {
    let caller = Caller::connect(world, gateway).await;
    let mut all: Vec<(&str, &str)> = vec![("Connection", "close")];
    all.extend(headers.iter().map(|(name, value)| (*name, value.as_str())));
    caller
        .send(&lab::call("/mcp?servers=s", tool, "{}", &all))
        .await;
    lab::advancing(world, caller.until("\u{0}never")).await
}

#[test]
fn each_refusal_says_why_runs_nothing_and_leaves_the_other_tools_alone() {
    lab::run(|world| async move {
        for row in ROWS {
            let (endpoint, acts) = (Endpoint::start(&world), Acts::new());
            let config = lab::config(&config(&endpoint, &acts, row.server));
            let gateway = lab::gateway(&world, &config);
            let headers = (row.headers)(&endpoint);
            let got = call(&world, gateway, "act", &headers).await;
            let text = got.split(r#""text":""#).nth(1).unwrap_or(&got);
            let text = text.split("\"}").next().unwrap();
            println!("{:50} {text}", row.situation);
            assert!(text.contains(row.reads), "{}: {got}", row.situation);
            assert!(
                text.contains("The call did not run"),
                "{}: {got}",
                row.situation
            );
            assert!(
                got.contains(r#""countersign/outcome":"nobody-to-ask""#),
                "{}: {got}",
                row.situation
            );
            // The rule and the origin, never the URL.
            assert!(
                !got.contains("secret-path") && !got.contains("1-token"),
                "{got}"
            );
            assert!(
                endpoint.seen.is_empty() && acts.count() == 0,
                "{}",
                row.situation
            );
            let open = call(&world, gateway, "open", &headers).await;
            assert!(open.contains("hello"), "{}: {open}", row.situation);
        }
    });
}
