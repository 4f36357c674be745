//! The asker against a scripted endpoint: when it polls, what it sends, and how it stops.

use std::time::Duration;

use countersign::approval::{
    Allowlist, Answer, AskTiming, Asker, Channel, EndpointFault, Question, RequestId,
};
use countersign::http::{Client, FaultKind};
use countersign::secret::Secret;
use countersign::time::Instant;
use countersign::world::World;

use crate::lab::{self, Endpoint, Reply, advancing, advancing_in_memory, created};

const WINDOW: Duration = Duration::from_secs(105);

fn channel(prefix: &str, url: &str) -> Channel {
    let allowlist = Allowlist::parse(&[prefix.to_owned()]).unwrap();
    Channel {
        url: allowlist.admit(url.as_bytes()).unwrap(),
        ttl: WINDOW,
        slug: "s".to_owned(),
        headers: vec![("X-Edge".to_owned(), Secret::new("edge".to_owned()))],
    }
}

fn question(world: &World) -> Question {
    Question {
        message: "Really?".to_owned(),
        title: "Run it?".to_owned(),
        description: None,
        tool: "act".to_owned(),
        request_id: RequestId::from_random([7; 16]),
        expires_at_wall_ms: world.clock.deadline(WINDOW).wall_ms(),
    }
}

fn asker(world: &World) -> Asker {
    Asker::new(
        world.clone(),
        Client::new(world.clone()),
        AskTiming::default(),
    )
}

async fn ask(world: &World, endpoint: &Endpoint) -> Result<Answer, EndpointFault> {
    let channel = channel(&endpoint.prefix(), &endpoint.channel("1-t"));
    let deadline = world.clock.deadline(WINDOW);
    asker(world)
        .ask(&channel, &question(world), &deadline)
        .await
}

#[test]
fn it_polls_at_once_then_about_every_five_seconds_and_last_before_the_deadline() {
    lab::run_in_memory(|world| async move {
        let endpoint = Endpoint::start(&world);
        let begun = world.clock.now();
        let mut polls: Vec<Instant> = Vec::new();
        let answering = async {
            loop {
                let (seen, reply) = endpoint.next().await;
                if seen.is_post() {
                    let _ = reply.try_send(created());
                } else {
                    polls.push(world.clock.now());
                    let _ = reply.try_send(Reply::pending());
                }
            }
        };
        let asking = smol::future::or(ask(&world, &endpoint), answering);
        assert_eq!(
            advancing_in_memory(&world, asking).await,
            Ok(Answer::Expired)
        );
        // The clock moves in steps of 50 ms.
        let step = Duration::from_millis(100);
        assert!(polls[0].since(begun) <= step, "the first poll is immediate");
        let last = polls.pop().unwrap();
        for pair in polls.windows(2) {
            let gap = pair[1].since(pair[0]);
            assert!(
                gap >= Duration::from_millis(4_500) && gap <= Duration::from_millis(5_500) + step,
                "{gap:?}"
            );
        }
        let gaps: std::collections::HashSet<_> = polls
            .windows(2)
            .map(|pair| pair[1].since(pair[0]))
            .collect();
        assert!(gaps.len() > 3, "polls are spread: {gaps:?}");
        let before_the_end = WINDOW.saturating_sub(last.since(begun));
        assert!(
            before_the_end > Duration::ZERO && before_the_end <= Duration::from_millis(1_500),
            "{before_the_end:?}"
        );
        assert!((19..=25).contains(&polls.len()), "{}", polls.len());
        assert!(
            world.clock.live_timers() <= 4,
            "the asker's timers are gone"
        );
    });
}

#[test]
fn the_question_has_exactly_the_protocols_members() {
    lab::run(|world| async move {
        let endpoint = Endpoint::start(&world);
        let expected = r#"{"mode":"form","message":"Really?","requestedSchema":{"type":"object","properties":{"confirm":{"type":"boolean","title":"Run it?","default":true}},"required":["confirm"]},"_meta":{"com.pulsemcp/request-id":"07070707-0707-4707-8707-070707070707","com.pulsemcp/expires-at":"2026-12-01T00:01:45.000Z","com.pulsemcp/tool-name":"act"}}"#;
        let watching = async {
            let (seen, reply) = endpoint.next().await;
            assert_eq!(
                (seen.method.as_str(), seen.target.as_str()),
                ("Post", "/approve/1-t")
            );
            assert_eq!(seen.body, expected);
            assert_eq!(seen.header("content-type"), Some("application/json"));
            assert_eq!(seen.header("x-edge"), Some("edge"));
            let _ = reply.try_send(Reply::json(
                r#"{"requestId":"srv-88","action":"accept","content":{"confirm":true}}"#,
            ));
            let (seen, reply) = endpoint.next().await;
            assert_eq!(
                (seen.method.as_str(), seen.target.as_str()),
                ("Get", "/approve/1-t/srv-88")
            );
            assert_eq!(seen.header("x-edge"), Some("edge"));
            assert_eq!(seen.body, "");
            let _ = reply.try_send(Reply::json(r#"{"action":"decline"}"#));
        };
        let (answer, ()) = smol::future::zip(ask(&world, &endpoint), watching).await;
        assert_eq!(answer, Ok(Answer::Declined));
    });
}

#[test]
fn a_reply_that_is_not_of_the_protocol_ends_the_question() {
    lab::run(|world| async move {
        let long = "x".repeat(70_000);
        for body in [
            "",
            "null",
            "[]",
            "{",
            "<html>",
            "\"x\"",
            r#"{"requestId":7}"#,
            r#"{"requestId":"../up"}"#,
            r#"{"requestId":""}"#,
            r#"{"requestId":"a","requestId":"b"}"#,
            r#"{"_meta":{"com.pulsemcp/request-id":"another"}}"#,
            &long,
        ] {
            let endpoint = Endpoint::start(&world);
            let answering = async {
                let (_, reply) = endpoint.next().await;
                let _ = reply.try_send(Reply::json(body));
                let (seen, _reply) = endpoint.next().await;
                panic!("{body}: asked again: {seen:?}");
            };
            let answer = smol::future::or(ask(&world, &endpoint), answering).await;
            assert!(answer.is_err(), "{body}: {answer:?}");
        }
    });
}

#[test]
fn a_connection_that_fails_is_named_by_its_kind() {
    lab::run(|world| async move {
        let deadline = world.clock.deadline(WINDOW);
        let nobody = world.net.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = nobody.local_address().unwrap().port();
        let ask = async |prefix: &str| {
            let channel = channel(prefix, &format!("{prefix}1-t"));
            asker(&world)
                .ask(&channel, &question(&world), &deadline)
                .await
        };
        // Accepted by the kernel and answered by nobody: the deadline ends it.
        let prefix = format!("http://127.0.0.1:{port}/");
        let silent = advancing(&world, ask(&prefix)).await;
        assert_eq!(silent, Err(EndpointFault::Connection(FaultKind::Timeout)));
        drop(nobody);
        let refused = ask(&prefix).await;
        assert!(
            matches!(
                refused,
                Err(EndpointFault::Connection(
                    FaultKind::Refused | FaultKind::Timeout
                ))
            ),
            "{refused:?}"
        );
    });
}

#[test]
fn dropping_the_ask_closes_its_connection_and_leaves_no_timer() {
    lab::run(|world| async move {
        for at_the_question in [true, false] {
            let endpoint = Endpoint::start(&world);
            let begun = world.clock.live_timers();
            let reached = async {
                let (_, reply) = endpoint.next().await;
                if !at_the_question {
                    let _ = reply.try_send(created());
                    let _held = endpoint.next().await;
                }
            };
            smol::future::or(
                async { panic!("answered: {:?}", ask(&world, &endpoint).await) },
                reached,
            )
            .await;
            endpoint.left.recv().await.unwrap();
            for _ in 0..20 {
                lab::turn().await;
            }
            assert!(
                world.clock.live_timers() <= begun + 1,
                "{}",
                world.clock.live_timers()
            );
        }
    });
}
