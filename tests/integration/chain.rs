//! The main job over every hop: caller, gateway, bundle, approval endpoint, person, act, result.

use std::time::Duration;

use countersign::config::Config;
use countersign::world::World;

use crate::lab::{self, Acts, Caller, END, Endpoint, Reply, advancing, call, created};
use crate::logs;

/// One gated tool `act` behind the gateway, in the gateway's process or in a bundle of its own.
struct Chain {
    endpoint: Endpoint,
    gateway: std::net::SocketAddr,
    acts: Acts,
}

const KEY: &str = "bundle-key-5f1c0a77d2";

pub fn text(endpoint: &Endpoint, argv: &str, bundle: Option<&str>) -> String {
    let bundle = bundle.map_or_else(String::new, |url| {
        format!("bundles:\n  b:\n    url: {url}\n    listen: 127.0.0.1:0\n    key: {KEY}\n")
    });
    format!(
        "gateway:\n  elicitation:\n    allowedUrlPrefixes: [\"{}\"]\n{bundle}servers:\n  - slug: s\n    kind: supplementary-image\n    image: none\n    bundle: b\n    path: /s\n    mount: command\n    confirmations: true\n    confirmationHeaders:\n      CF-Access-Client-Secret: edge-secret-91b7\n    tools:\n      - name: act\n        argv: {argv}\n        gate: It acts.\n        options: {{note: --note}}\n",
        endpoint.prefix()
    )
}

impl Chain {
    fn start(world: &World, two_processes: bool) -> Self {
        let acts = Acts::new();
        let argv = acts.argv();
        Self::with(world, two_processes, acts, &argv)
    }

    fn with(world: &World, two_processes: bool, acts: Acts, argv: &str) -> Self {
        let endpoint = Endpoint::start(world);
        let config: Config = if two_processes {
            let inside = lab::config(&text(&endpoint, argv, Some("http://127.0.0.1:1/")));
            let address = lab::bundle(world, &inside, "b");
            lab::config(&text(&endpoint, argv, Some(&format!("http://{address}/"))))
        } else {
            lab::config(&text(&endpoint, argv, None))
        };
        let gateway = lab::gateway(world, &config);
        Self {
            endpoint,
            gateway,
            acts,
        }
    }

    async fn call(&self, world: &World, session: &str) -> Caller {
        let caller = Caller::connect(world, self.gateway).await;
        let channel = self.endpoint.channel(session);
        let bytes = call(
            "/mcp?servers=s",
            "act",
            "{}",
            &[("X-Elicitation-Url", &channel)],
        );
        caller.send(&bytes).await;
        caller
    }

    /// Calls, answers every poll with `answer`, and gives what the caller got.
    async fn outcome(&self, world: &World, answer: Reply) -> String {
        let caller = self.call(world, "1-token-4bd9").await;
        let answering = async { self.endpoint.answer(answer).await };
        let ended = smol::future::or(caller.until(END), async {
            answering.await;
            unreachable!()
        });
        advancing(world, ended).await
    }
}

type Test = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

fn both(test: fn(World, bool) -> Test) {
    for two_processes in [false, true] {
        lab::run(|world| test(world, two_processes));
    }
}

#[test]
fn a_yes_acts_once_and_comes_back() {
    both(|world, two| {
        Box::pin(async move {
            let chain = Chain::start(&world, two);
            let got = chain.outcome(&world, Reply::accept()).await;
            assert!(got.contains(r#""countersign/outcome":"done""#), "{got}");
            assert!(
                got.contains("text/event-stream") && got.contains(r#""exitCode":0"#),
                "{got}"
            );
            assert_eq!(chain.acts.count(), 1);
        })
    });
}

/// Cases A: every word but `accept`, and every content but `{"confirm": true}`.
#[test]
fn nothing_but_a_yes_acts() {
    lab::run(|world| async move {
        let chain = Chain::start(&world, false);
        let words = [
            "declined",
            "decline",
            "cancel",
            "cancelled",
            "expired",
            "approved",
            "accepted",
            "Accept",
            "ACCEPT",
            " accept",
            "accept ",
            "accept\\u0000",
            "yes",
            "true",
            "ok",
            "",
            "null",
        ];
        let mut bodies: Vec<String> = words
            .iter()
            .map(|word| format!(r#"{{"action":"{word}","content":{{"confirm":true}}}}"#))
            .collect();
        for action in [
            "true",
            "1",
            "null",
            "[\"accept\"]",
            "{\"action\":\"accept\"}",
        ] {
            bodies.push(format!(
                r#"{{"action":{action},"content":{{"confirm":true}}}}"#
            ));
        }
        for content in [
            "null",
            "{}",
            "true",
            "\"true\"",
            "[]",
            "[true]",
            "1",
            r#"{"confirm":false}"#,
            r#"{"confirm":"true"}"#,
            r#"{"confirm":1}"#,
            r#"{"confirm":null}"#,
            r#"{"confirm":[true]}"#,
            r#"{"Confirm":true}"#,
            r#"{"confirmed":true}"#,
            r#"{"approve":true}"#,
            r#"{"confirm":{"confirm":true}}"#,
            r#"{"confirm":false,"confirm":true}"#,
        ] {
            bodies.push(format!(r#"{{"action":"accept","content":{content}}}"#));
        }
        for body in [
            r#"{"action":"accept"}"#,
            r#"{"content":{"confirm":true}}"#,
            r#"{"action":"decline","action":"accept","content":{"confirm":true}}"#,
            r#"{"action":"accept","content":{"confirm":true},"_meta":{"com.pulsemcp/request-id":"another"}}"#,
            "",
            "null",
            "[]",
            "\"accept\"",
            r#"{"action":"accept","content":{"confirm":true}} x"#,
            "<html>accept</html>",
        ] {
            bodies.push(body.to_owned());
        }
        for body in bodies {
            let got = chain.outcome(&world, Reply::json(&body)).await;
            assert!(got.contains(END), "no answer to {body}: {got}");
            assert!(got.contains(r#""isError":true"#), "{body}: {got}");
            assert!(
                !got.contains(r#""countersign/outcome":"done""#),
                "{body}: {got}"
            );
            assert_eq!(chain.acts.count(), 0, "{body}");
        }
        // The chain is not merely broken: a yes goes through it.
        chain.outcome(&world, Reply::accept()).await;
        assert_eq!(chain.acts.count(), 1);
    });
}

#[test]
fn the_reply_to_the_question_is_no_answer() {
    lab::run(|world| async move {
        let chain = Chain::start(&world, false);
        let caller = chain.call(&world, "1-token-4bd9").await;
        let (seen, reply) = chain.endpoint.next().await;
        assert!(seen.is_post());
        assert!(seen.body.contains("[s] act asks to run."), "{}", seen.body);
        let _ = reply.try_send(Reply::accept());
        let (seen, reply) = chain.endpoint.next().await;
        assert!(!seen.is_post());
        let _ = reply.try_send(Reply::json(r#"{"action":"decline"}"#));
        let got = advancing(&world, caller.until(END)).await;
        assert!(got.contains(r#""countersign/outcome":"declined""#), "{got}");
        assert!(got.contains("aborted at the user's request"), "{got}");
        assert_eq!(chain.acts.count(), 0);
    });
}

#[test]
fn an_answer_after_the_deadline_acts_on_nothing() {
    both(|world, two| {
        Box::pin(async move {
            // The window of 105 s, and the first poll is held until it is over.
            for late_ms in [0, 1, 14_000] {
                let chain = Chain::start(&world, two);
                let caller = chain.call(&world, "1-token-4bd9").await;
                let asked = world.clock.now();
                let (_, reply) = chain.endpoint.next().await;
                let _ = reply.try_send(created());
                let (_, poll) = chain.endpoint.next().await;
                let left = Duration::from_millis(105_000 + late_ms)
                    .saturating_sub(world.clock.now().since(asked));
                world.clock.advance(left);
                let _ = poll.try_send(Reply::accept());
                let got = caller.until(END).await;
                assert!(
                    got.contains(r#""countersign/outcome":"expired""#),
                    "{late_ms}: {got}"
                );
                assert_eq!(chain.acts.count(), 0);
            }
        })
    });
}

#[test]
fn an_answer_in_the_last_millisecond_counts() {
    lab::run(|world| async move {
        let chain = Chain::start(&world, false);
        let caller = chain.call(&world, "1-token-4bd9").await;
        let (_, reply) = chain.endpoint.next().await;
        let _ = reply.try_send(created());
        let (_, poll) = chain.endpoint.next().await;
        world.clock.advance(Duration::from_millis(104_999));
        let _ = poll.try_send(Reply::accept());
        let got = caller.until(END).await;
        assert!(got.contains(r#""countersign/outcome":"done""#), "{got}");
        assert_eq!(chain.acts.count(), 1);
    });
}

#[test]
fn a_machine_that_slept_does_not_find_the_window_open() {
    lab::run(|world| async move {
        let chain = Chain::start(&world, false);
        let caller = chain.call(&world, "1-token-4bd9").await;
        let (_, reply) = chain.endpoint.next().await;
        let _ = reply.try_send(created());
        let (_, poll) = chain.endpoint.next().await;
        world.clock.suspend(Duration::from_secs(3600));
        let _ = poll.try_send(Reply::accept());
        let got = caller.until(END).await;
        assert!(got.contains(r#""countersign/outcome":"expired""#), "{got}");
        assert_eq!(chain.acts.count(), 0);
    });
}

/// The caller leaves while the question is open: everything behind it is gone, and a later yes does nothing.
#[test]
fn a_caller_that_leaves_before_the_answer_takes_the_question_with_it() {
    both(|world, two| {
        Box::pin(async move {
            let chain = Chain::start(&world, two);
            let caller = chain.call(&world, "1-token-4bd9").await;
            let (_, reply) = chain.endpoint.next().await;
            let _ = reply.try_send(created());
            let (_, _poll) = chain.endpoint.next().await;
            let begun = std::time::Instant::now();
            drop(caller);
            // The endpoint's own connection is closed: the upstream call and the poll are gone.
            chain.endpoint.left.recv().await.unwrap();
            println!(
                "two processes {two}: the poll was gone {:?} after the caller",
                begun.elapsed()
            );
            assert_eq!(chain.acts.count(), 0);
        })
    });
}

/// Waits until the kernel shows the close of `caller` at the other end of its connection: under load the last segment can
/// be delivered late, even over loopback.
fn wait_until_visible(server: std::net::SocketAddr, caller: std::net::SocketAddr) {
    let end = |address: std::net::SocketAddr| match address.ip() {
        std::net::IpAddr::V4(ip) => {
            format!(
                "{:08X}:{:04X}",
                u32::from_le_bytes(ip.octets()),
                address.port()
            )
        }
        std::net::IpAddr::V6(_) => panic!("loopback here is IPv4"),
    };
    let established = format!(" {} {} 01 ", end(server), end(caller));
    while std::fs::read_to_string("/proc/net/tcp")
        .unwrap()
        .contains(&established)
    {
        std::thread::yield_now();
    }
}

/// The close is visible at the acting socket before the permit is spent: no act.
#[test]
fn a_close_that_is_visible_wins_over_a_yes() {
    use std::io::Write;
    lab::run(|world| async move {
        for _ in 0..20 {
            let chain = Chain::start(&world, false);
            let mut caller = std::net::TcpStream::connect(chain.gateway).unwrap();
            let channel = chain.endpoint.channel("1-token-4bd9");
            let bytes = call(
                "/mcp?servers=s",
                "act",
                "{}",
                &[("X-Elicitation-Url", &channel)],
            );
            caller.write_all(&bytes).unwrap();
            let (_, reply) = chain.endpoint.next().await;
            let _ = reply.try_send(created());
            let (_, poll) = chain.endpoint.next().await;
            // Both in one turn of the executor, so that the gateway finds the close and the yes at the same time.
            let address = caller.local_addr().unwrap();
            drop(caller);
            wait_until_visible(chain.gateway, address);
            let _ = poll.try_send(Reply::accept());
            // A second call shows that the first has been dealt with.
            let got = chain
                .outcome(&world, Reply::json(r#"{"action":"decline"}"#))
                .await;
            assert!(got.contains(r#""countersign/outcome":"declined""#), "{got}");
            assert_eq!(chain.acts.count(), 0);
        }
    });
}

/// A yes and a close race through two hops: at most one act for each call, and every other call is untouched.
#[test]
fn a_caller_that_leaves_at_the_answer_never_makes_two_acts() {
    lab::run(|world| async move {
        let chain = Chain::start(&world, true);
        for round in 0..20_usize {
            let caller = Caller::connect(&world, chain.gateway).await;
            let channel = chain.endpoint.channel("1-token-4bd9");
            let note = format!(r#"{{"note":"round-{round}"}}"#);
            let headers = [("X-Elicitation-Url", channel.as_str())];
            caller
                .send(&call("/mcp?servers=s", "act", &note, &headers))
                .await;
            let (_, reply) = chain.endpoint.next().await;
            let _ = reply.try_send(created());
            let (_, poll) = chain.endpoint.next().await;
            let _ = poll.try_send(Reply::accept());
            for _ in 0..round {
                smol::unblock(|| ()).await;
            }
            drop(caller);
            // A second call shows that the first has been dealt with.
            let got = chain
                .outcome(&world, Reply::json(r#"{"action":"decline"}"#))
                .await;
            assert!(got.contains(r#""countersign/outcome":"declined""#), "{got}");
        }
        let acts = chain.acts.lines();
        let calls: std::collections::HashSet<&String> = acts.iter().collect();
        assert_eq!(acts.len(), calls.len(), "a call acted twice: {acts:?}");
        assert!(
            acts.iter()
                .all(|act| act.starts_with("acted --note=round-")),
            "{acts:?}"
        );
        println!(
            "{} of 20 calls acted before their caller's close was seen",
            acts.len()
        );
    });
}

fn alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .starts_with(" Z")
    })
}

#[test]
fn a_caller_that_leaves_during_the_act_ends_the_whole_process_group() {
    both(|world, two| {
        Box::pin(async move {
            let acts = Acts::new();
            let file = std::env::temp_dir()
                .join(format!("countersign-group-{}-{two}", std::process::id()));
            let _ = std::fs::remove_file(&file);
            let script = format!(
                "trap '' TERM; sleep 600 & echo $$ $! > {0}.tmp; mv {0}.tmp {0}; wait; echo late >> /dev/null",
                file.display()
            );
            let argv = format!(r#"[sh, -c, "{script}"]"#);
            let chain = Chain::with(&world, two, acts, &argv);
            let caller = chain.call(&world, "1-token-4bd9").await;
            let (_, reply) = chain.endpoint.next().await;
            let _ = reply.try_send(created());
            let (_, poll) = chain.endpoint.next().await;
            let _ = poll.try_send(Reply::accept());
            let pids: Vec<u32> = loop {
                if let Ok(text) = std::fs::read_to_string(&file) {
                    break text
                        .split_whitespace()
                        .map(|pid| pid.parse().unwrap())
                        .collect();
                }
                lab::turn().await;
            };
            assert!(pids.len() == 2 && pids.iter().all(|pid| alive(*pid)));
            let begun = std::time::Instant::now();
            drop(caller);
            while pids.iter().any(|pid| alive(*pid)) {
                smol::unblock(|| ()).await;
            }
            println!(
                "two processes {two}: the process group was gone {:?} after the caller",
                begun.elapsed()
            );
            let _ = std::fs::remove_file(&file);
        })
    });
}

#[test]
fn two_calls_with_two_channels_never_see_each_others_address() {
    both(|world, two| {
        Box::pin(async move {
            let chain = Chain::start(&world, two);
            let first = chain.call(&world, "first-aaaa").await;
            let (seen_first, reply_first) = chain.endpoint.next().await;
            let second = chain.call(&world, "second-bbbb").await;
            let (seen_second, reply_second) = chain.endpoint.next().await;
            for (seen, own, other) in [
                (&seen_first, "first-aaaa", "second-bbbb"),
                (&seen_second, "second-bbbb", "first-aaaa"),
            ] {
                assert!(seen.target.contains(own), "{seen:?}");
                assert!(!format!("{seen:?}").contains(other), "{seen:?}");
            }
            let _ = reply_first.try_send(created());
            let _ = reply_second.try_send(created());
            // The second is accepted and the first declined, whichever polls first.
            for _ in 0..2 {
                let (seen, reply) = chain.endpoint.next().await;
                let accept = seen.target.contains("second-bbbb");
                let decline = Reply::json(r#"{"action":"decline"}"#);
                let _ = reply.try_send(if accept { Reply::accept() } else { decline });
            }
            let got = first.until(END).await;
            assert!(got.contains(r#""countersign/outcome":"declined""#), "{got}");
            let got = second.until(END).await;
            assert!(got.contains(r#""countersign/outcome":"done""#), "{got}");
            assert_eq!(chain.acts.count(), 1);
        })
    });
}

#[test]
fn a_redirect_is_refused_and_never_repeated() {
    both(|world, two| {
        Box::pin(async move {
            for status in [301, 302, 303, 307, 308] {
                let other = Endpoint::start(&world);
                let chain = Chain::start(&world, two);
                let location = other.channel("elsewhere-cccc");
                let redirect = Reply {
                    status,
                    headers: vec![("location", location)],
                    body: String::new(),
                };
                for at_the_question in [true, false] {
                    let caller = chain.call(&world, "1-token-4bd9").await;
                    let (_, reply) = chain.endpoint.next().await;
                    if at_the_question {
                        let _ = reply.try_send(redirect.clone());
                    } else {
                        let _ = reply.try_send(created());
                        let (_, reply) = chain.endpoint.next().await;
                        let _ = reply.try_send(redirect.clone());
                    }
                    let got = caller.until(END).await;
                    assert!(got.contains(&format!("HTTP {status}")), "{got}");
                    assert!(
                        got.contains(r#""countersign/outcome":"endpoint-failed""#),
                        "{got}"
                    );
                    assert!(
                        !got.contains("elsewhere") && !got.to_lowercase().contains("location"),
                        "{got}"
                    );
                }
                assert!(other.seen.is_empty(), "the redirect was followed");
                assert_eq!(chain.acts.count(), 0);
            }
            assert!(!logs::so_far().contains("elsewhere-cccc"));
        })
    });
}

#[test]
fn an_endpoint_that_fails_is_named_by_its_status_alone() {
    lab::run(|world| async move {
        let chain = Chain::start(&world, false);
        for status in [400, 401, 403, 404, 429, 500, 502, 503, 204, 202] {
            let got = chain.outcome(&world, Reply::status(status)).await;
            assert!(got.contains(&format!("HTTP {status}")), "{got}");
            assert!(!got.contains("secret text"), "{got}");
        }
        assert_eq!(chain.acts.count(), 0);
    });
}

/// "The bundle stops accepting answers a margin before core stops waiting", and meanwhile the caller hears of it.
#[test]
fn a_waiting_caller_hears_progress_that_grows() {
    both(|world, two| {
        Box::pin(async move {
            let chain = Chain::start(&world, two);
            let got = chain.outcome(&world, Reply::pending()).await;
            assert!(got.contains(r#""countersign/outcome":"expired""#), "{got}");
            let told: Vec<f64> = got
                .match_indices(r#""progress":"#)
                .map(|(at, found)| {
                    got[at + found.len()..]
                        .split([',', '}'])
                        .next()
                        .unwrap()
                        .parse()
                        .unwrap()
                })
                .collect();
            assert!(
                told.len() >= 2 && told.is_sorted_by(|a, b| a < b),
                "{told:?}"
            );
            assert!(got.contains(r#""progressToken":"p-1""#), "{got}");
            // The same seconds in words. How many passed when it was said depends on how busy the machine is.
            let in_words =
                |told: &f64| got.contains(&format!("waiting for a person: {told} s of 105 s"));
            assert!(told.iter().all(in_words), "{got}");
            assert_eq!(chain.acts.count(), 0);
        })
    });
}

/// "Spending the permit re-checks ... token still valid" (design section 5). A bundle in another process knows no tokens,
/// so the window that it is given ends with the caller's.
#[test]
fn a_yes_after_the_callers_token_has_ended_acts_for_nobody() {
    both(|world, two| {
        Box::pin(async move {
            let acts = Acts::new();
            let endpoint = Endpoint::start(&world);
            // Ten seconds after the world's clock began, of a window of 105.
            let tokens = format!(
                "gateway:\n  tokens:\n    - {{id: a, sha256: {}, roles: [admin], expiresAt: \"2026-12-01T00:00:10Z\"}}\n",
                countersign::secret::hex(&countersign::secret::sha256(b"short-token"))
            );
            let write = |url: Option<&str>| {
                lab::config(&text(&endpoint, &acts.argv(), url).replace("gateway:\n", &tokens))
            };
            let config = if two {
                let address = lab::bundle(&world, &write(Some("http://127.0.0.1:1/")), "b");
                write(Some(&format!("http://{address}/")))
            } else {
                write(None)
            };
            let gateway = lab::gateway(&world, &config);
            let caller = Caller::connect(&world, gateway).await;
            let channel = endpoint.channel("1-token-4bd9");
            let headers = [
                ("X-Elicitation-Url", &*channel),
                ("Authorization", "Bearer short-token"),
            ];
            caller
                .send(&call("/mcp?servers=s", "act", "{}", &headers))
                .await;
            let (question, reply) = endpoint.next().await;
            assert!(
                question.body.contains("Lapses at 2026-12-01T00:00:10"),
                "{}",
                question.body
            );
            let _ = reply.try_send(created());
            let answering = async {
                loop {
                    let (_, reply) = endpoint.next().await;
                    let late = world.clock.wall_ms() >= lab::WALL_MS + 10_000;
                    let _ = reply.try_send(if late {
                        Reply::accept()
                    } else {
                        Reply::pending()
                    });
                }
            };
            let ended = smol::future::or(caller.until(END), answering);
            let got = advancing(&world, ended).await;
            assert!(got.contains(r#""countersign/outcome":"expired""#), "{got}");
            assert_eq!(acts.count(), 0);
        })
    });
}

#[test]
fn who_does_not_hold_the_bundle_key_is_believed_nothing() {
    lab::run(|world| async move {
        let acts = Acts::new();
        let endpoint = Endpoint::start(&world);
        let config = lab::config(&text(&endpoint, &acts.argv(), Some("http://127.0.0.1:1/")));
        let bundle = lab::bundle(&world, &config, "b");
        for authorization in ["", "Bearer wrong", "Bearer", "Basic x", KEY] {
            let caller = Caller::connect(&world, bundle).await;
            let headers: Vec<_> = Some(("Authorization", authorization))
                .filter(|(_, value)| !value.is_empty())
                .into_iter()
                .collect();
            caller.send(&call("/s", "act", "{}", &headers)).await;
            let got = caller.until("\r\n\r\n").await;
            assert!(got.starts_with("HTTP/1.1 401"), "{authorization}: {got}");
        }
        assert!(endpoint.seen.is_empty());
        assert_eq!(acts.count(), 0);
    });
}

/// Rows of the spec's table that this build has: each refusal reaches the caller with its reason, and nobody is asked.
#[test]
fn a_call_that_names_nobody_to_ask_is_refused() {
    both(|world, two| {
        Box::pin(async move {
            let chain = Chain::start(&world, two);
            let channel = chain.endpoint.channel("1-token-4bd9");
            let twice = format!("{channel}\r\nX-Elicitation-Url: {channel}");
            let comma = format!("{channel},{channel}");
            let outside = channel.replace("/approve/", "/other/");
            let foreign = "https://evil.example/approve/1-token-4bd9".to_owned();
            let climbing = channel.replace("1-token", "../1-token");
            let cases = [
                (None, "named no approval channel"),
                (Some(""), "X-Elicitation-Url"),
                (Some(&*twice), "more than once"),
                (Some(&*comma), "X-Elicitation-Url"),
                (Some(&*outside), "X-Elicitation-Url"),
                (Some(&*foreign), "X-Elicitation-Url"),
                (Some(&*climbing), "X-Elicitation-Url"),
                (Some("not a url"), "X-Elicitation-Url"),
            ];
            for (header, reason) in cases {
                let caller = Caller::connect(&world, chain.gateway).await;
                let headers: Vec<_> = header
                    .iter()
                    .map(|value| ("X-Elicitation-Url", *value))
                    .collect();
                caller
                    .send(&call("/mcp?servers=s", "act", "{}", &headers))
                    .await;
                let got = caller.until(END).await;
                assert!(
                    got.contains(r#""countersign/outcome":"nobody-to-ask""#),
                    "{header:?}: {got}"
                );
                assert!(got.contains(reason), "{header:?}: {got}");
                assert!(!got.contains("token-4bd9"), "the URL was repeated: {got}");
            }
            assert!(chain.endpoint.seen.is_empty(), "somebody was asked");
            assert_eq!(chain.acts.count(), 0);
        })
    });
}

/// No credential in any log, at any level, of any crate: everything runs at trace, and the text is searched.
#[test]
fn no_credential_is_logged_at_any_level() {
    both(|world, two| {
        Box::pin(async move {
            let chain = Chain::start(&world, two);
            chain.outcome(&world, Reply::accept()).await;
            chain.outcome(&world, Reply::status(500)).await;
            let caller = Caller::connect(&world, chain.gateway).await;
            let bad = [
                (
                    "X-Elicitation-Url",
                    "https://evil.example/session-secret-77",
                ),
                ("Authorization", "Bearer caller-secret-88"),
            ];
            caller
                .send(&call(
                    "/mcp?servers=s",
                    "act",
                    r#"{"note":"argument-secret-99"}"#,
                    &bad,
                ))
                .await;
            caller.until(END).await;
            let logged = logs::so_far();
            assert!(logged.contains("asked: slug s"), "nothing was captured");
            for secret in [
                "1-token-4bd9",
                KEY,
                "edge-secret-91b7",
                "session-secret-77",
                "caller-secret-88",
                "argument-secret-99",
            ] {
                assert!(!logged.contains(secret), "{secret} was logged");
            }
        })
    });
}

#[test]
fn the_edges_headers_go_with_the_question_and_every_poll() {
    both(|world, two| {
        Box::pin(async move {
            let chain = Chain::start(&world, two);
            let caller = chain.call(&world, "1-token-4bd9").await;
            for reply_with in [
                created(),
                Reply::pending(),
                Reply::json(r#"{"action":"cancel"}"#),
            ] {
                let (seen, reply) = advancing(&world, chain.endpoint.next()).await;
                assert_eq!(
                    seen.header("cf-access-client-secret"),
                    Some("edge-secret-91b7")
                );
                assert_eq!(
                    seen.header("authorization"),
                    None,
                    "the caller's or the bundle's credential"
                );
                assert_eq!(seen.header("x-elicitation-url"), None);
                let _ = reply.try_send(reply_with);
            }
            let got = advancing(&world, caller.until(END)).await;
            assert!(
                got.contains(r#""countersign/outcome":"cancelled""#),
                "{got}"
            );
            assert!(!got.contains("edge-secret"));
        })
    });
}
