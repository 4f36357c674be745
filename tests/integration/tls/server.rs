//! Our server over TLS: a held call whose caller leaves, long bodies, reuse, handshakes that do not come, reload.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::task::Poll;
use std::time::Duration;

use countersign::http::{ClientFault, Connection, FaultKind, Method, OutRequest};
use countersign::world::memory::MemoryNet;
use countersign::world::tls::{ClientTls, FileFault, HANDSHAKE_TIME, TlsFault};
use countersign::world::{Net, Random, Stream, World};
use url::Url;

use super::certificates::Pki;
use super::{NEVER, Served, client, get, get_path, many, run, run_in, within};
use crate::lab::turn;

/// A connection to `port` with the handshake done.
async fn connect(world: &World, pki: &Pki, port: u16) -> Stream {
    let tls = ClientTls::also_trusting(&world.clock, &[&pki.ca.cert]).unwrap();
    let stream = world.connect("127.0.0.1", port).await.unwrap();
    tls.connect(stream, "localhost").await.unwrap()
}

/// Waits until as many timers are live: the other end has then come to where it waits.
async fn timers(world: &World, count: usize) {
    let settled = async {
        while world.clock.live_timers() != count {
            turn().await;
        }
    };
    within("settling", settled).await;
}

async fn read(stream: &Stream) -> std::io::Result<Vec<u8>> {
    let mut some = [0; 4096];
    let count = poll_fn(|cx| stream.poll_read(cx, &mut some)).await?;
    Ok(some[..count].to_vec())
}

#[test]
fn a_caller_that_leaves_a_held_call_drops_its_handler() {
    run(|world, pki| async move {
        let served = Served::start(&world, &pki.good);
        for announced in [true, false] {
            let stream = connect(&world, &pki, served.port).await;
            stream
                .write_all(b"GET /hold HTTP/1.1\r\nHost: localhost\r\n\r\n")
                .await
                .unwrap();
            within("the call", served.held.recv()).await.unwrap();
            turn().await;
            assert!(served.dropped.is_empty());
            if announced {
                stream.shutdown_write();
            }
            let kept = announced.then_some(stream);
            within("the drop", served.dropped.recv()).await.unwrap();
            drop(kept);
        }
        // A client that gives up does the same.
        let client = client(&world, &pki.ca.cert);
        let asking = get_path(&client, "localhost", served.port, "/hold");
        let held = async { served.held.recv().await.map(|()| None) };
        let given_up = smol::future::or(async { Ok(Some(asking.await)) }, held).await;
        assert!(given_up.unwrap().is_none());
        within("the drop", served.dropped.recv()).await.unwrap();
        assert_eq!(world.clock.live_timers(), 0);
    });
}

#[test]
fn long_bodies_cross_whole_both_ways() {
    run(|world, pki| async move { long_bodies(&world, &pki).await });
}

/// The same over pipes that move a random part of what they could.
#[test]
fn long_bodies_cross_whole_in_any_pieces() {
    let net = Net::memory(MemoryNet::new(Random::seeded(5)));
    run_in(
        net,
        |world, pki| async move { long_bodies(&world, &pki).await },
    );
}

async fn long_bodies(world: &World, pki: &Pki) {
    let served = Served::start(world, &pki.good);
    let client = client(world, &pki.ca.cert);
    let reply = within(
        "the head",
        get_path(&client, "localhost", served.port, "/many"),
    )
    .await;
    let body = within("the body", reply.unwrap().read_all(1 << 24))
        .await
        .unwrap();
    assert!(body == many());
    let url = Url::parse(&format!("https://localhost:{}/echo", served.port)).unwrap();
    for length in [0, 1, 16_383, 16_384, 16_385, 32_768, 1_000_000] {
        let sent: Vec<u8> = many().into_iter().take(length).collect();
        let request = OutRequest::new(Method::Post, &url)
            .unwrap()
            .body(sent.clone());
        let sending = client.send(request, NEVER, Connection::Pooled);
        let reply = within("the head", sending).await.unwrap();
        let echoed = within("the echo", reply.read_all(1 << 24)).await.unwrap();
        assert!(echoed == sent, "{length} bytes");
    }
}

#[test]
fn what_was_reported_as_written_arrives_and_nothing_else() {
    run(|world, pki| async move { cut_while_writing(&world, &pki).await });
    let net = Net::memory(MemoryNet::new(Random::seeded(6)));
    run_in(net, |world, pki| async move {
        cut_while_writing(&world, &pki).await
    });
}

/// Writes until nothing more fits, and drops the stream with a record half taken: what was not reported must not be
/// readable, or a request that acts could be seen after "nothing was sent".
async fn cut_while_writing(world: &World, pki: &Pki) {
    let (_, listener) = super::listen(world, &pki.good);
    let port = listener.local_address().unwrap().port();
    let accepting = async {
        let (stream, _) = listener.accept().await.unwrap();
        stream.handshake().await.unwrap();
        stream
    };
    let both = smol::future::zip(accepting, connect(world, pki, port));
    let (writer, reader) = within("the handshake", both).await;
    let block = [7; 50_000];
    let mut written = 0;
    poll_fn(|cx| {
        loop {
            match writer.poll_write(cx, &block) {
                Poll::Ready(count) => written += count.unwrap(),
                Poll::Pending => return Poll::Ready(()),
            }
        }
    })
    .await;
    drop(writer);
    let mut received = 0;
    let end = loop {
        match within("the rest", read(&reader)).await {
            Ok(bytes) if bytes.is_empty() => break None,
            Ok(bytes) => received += bytes.len(),
            Err(error) => break Some(error.kind()),
        }
    };
    assert_eq!(received, written);
    assert_eq!(end, Some(ErrorKind::UnexpectedEof));
}

#[test]
fn a_connection_is_used_again_and_tickets_do_not_spoil_it() {
    run(|world, pki| async move {
        let (_, listener) = super::listen(&world, &pki.good);
        let port = listener.local_address().unwrap().port();
        let client = client(&world, &pki.ca.cert);
        let serving = async {
            let (stream, _) = listener.accept().await.unwrap();
            stream.handshake().await.unwrap();
            for _ in 0..3 {
                let request = read(&stream).await.unwrap();
                assert!(request.starts_with(b"GET / "));
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
                    .await
                    .unwrap();
            }
            // Nobody else comes: a second connection would wait here unanswered.
            std::future::pending().await
        };
        let asking = async {
            for _ in 0..3 {
                let reply = get(&client, "localhost", port).await.unwrap();
                assert_eq!(reply.read_all(9).await.unwrap(), b"hi");
                turn().await;
            }
        };
        within("three requests", smol::future::or(asking, serving)).await;
    });
}

#[test]
fn a_handshake_that_does_not_come_is_ended() {
    run(|world, pki| async move {
        let served = Served::start(&world, &pki.good);
        // Silent from the start, and silent in the middle of the hello.
        for first in [&b""[..], b"\x16\x03\x01\x02\x00\x01"] {
            let stream = world.connect("127.0.0.1", served.port).await.unwrap();
            stream.write_all(first).await.unwrap();
            timers(&world, 1).await;
            world
                .clock
                .advance(HANDSHAKE_TIME - Duration::from_millis(1));
            turn().await;
            assert!(stream.try_read(&mut [0; 9]).is_none(), "too early");
            world.clock.advance(Duration::from_millis(1));
            let end = within("the close", read(&stream)).await;
            // The end, or a reset where the few bytes were still unread.
            assert!(end.is_ok_and(|bytes| bytes.is_empty()) || !first.is_empty());
            assert_eq!(world.clock.live_timers(), 0);
            // Nobody else was held up.
            let client = client(&world, &pki.ca.cert);
            assert_eq!(
                get(&client, "localhost", served.port).await.unwrap().status,
                200
            );
            drop(client);
            timers(&world, 0).await;
        }
    });
}

#[test]
fn what_is_no_tls_gets_an_alert_and_the_end() {
    run(|world, pki| async move {
        let served = Served::start(&world, &pki.good);
        for first in [
            &b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..],
            &[0xff; 300],
        ] {
            let stream = world.connect("127.0.0.1", served.port).await.unwrap();
            stream.write_all(first).await.unwrap();
            let alert = within("the alert", read(&stream)).await.unwrap();
            assert!(matches!(alert[..], [0x15, 3, _, 0, 2, 2, _]), "{alert:?}");
            assert!(within("the end", read(&stream)).await.unwrap().is_empty());
        }
    });
}

#[test]
fn an_idle_connection_is_ended_with_an_announcement() {
    run(|world, pki| async move {
        let served = Served::start(&world, &pki.good);
        let stream = connect(&world, &pki, served.port).await;
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .await
            .unwrap();
        assert!(read(&stream).await.unwrap().ends_with(b"hello over TLS\n"));
        timers(&world, 1).await;
        world.clock.advance(Duration::from_secs(60));
        assert!(within("the end", read(&stream)).await.unwrap().is_empty());
        // Our own end is a word of its own: nothing goes out after it.
        let stream = connect(&world, &pki, served.port).await;
        stream.shutdown_write();
        let after = stream.write_all(b"after").await.unwrap_err();
        assert_eq!(after.kind(), ErrorKind::NotConnected);
    });
}

/// Bytes that were changed on the way are an error, and so is everything after them.
#[test]
fn a_changed_record_ends_the_connection() {
    run(|world, pki| async move {
        let (_, listener) = super::listen(&world, &pki.good);
        let port = listener.local_address().unwrap().port();
        let between = world.net.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let between_port = between.local_address().unwrap().port();
        let flips = async {
            let (near, _) = between.accept().await.unwrap();
            let far = world.connect("127.0.0.1", port).await.unwrap();
            let there = async {
                loop {
                    let bytes = read(&near).await.unwrap();
                    far.write_all(&bytes).await.unwrap();
                }
            };
            let back = async {
                loop {
                    let mut bytes = read(&far).await.unwrap();
                    // The first record of data that is longer than tickets are: the reply.
                    if bytes[0] == 0x17 && bytes.len() > 1000 {
                        *bytes.last_mut().unwrap() ^= 1;
                    }
                    near.write_all(&bytes).await.unwrap();
                }
            };
            smol::future::or(there, back).await
        };
        let serving = async {
            let (stream, _) = listener.accept().await.unwrap();
            stream.handshake().await.unwrap();
            read(&stream).await.unwrap();
            turn().await;
            let reply = [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &[b'x'; 2000]].concat();
            stream.write_all(&reply).await.unwrap();
            std::future::pending().await
        };
        let client = client(&world, &pki.ca.cert);
        let asking = get(&client, "localhost", between_port);
        let others = smol::future::or(flips, serving);
        let got = within("a changed record", smol::future::or(asking, others)).await;
        let closed = ClientFault {
            kind: FaultKind::Closed,
            sent: true,
        };
        assert_eq!(got.err(), Some(closed));
    });
}

#[test]
fn a_certificate_is_replaced_while_calls_are_held() {
    run(|world, pki| async move {
        let files = super::Files {
            cert: pki.folder.join("replaced.pem"),
            key: pki.folder.join("replaced.key"),
        };
        let put = |from: &super::Files| {
            std::fs::copy(&from.cert, &files.cert).unwrap();
            std::fs::copy(&from.key, &files.key).unwrap();
        };
        put(&pki.good);
        let served = Served::start(&world, &files);
        let (ours, others) = (&pki.ca.cert, &pki.other_ca.cert);
        let held = connect(&world, &pki, served.port).await;
        held.write_all(b"GET /hold HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .await
            .unwrap();
        within("the call", served.held.recv()).await.unwrap();

        put(&pki.stranger);
        let before = get(&client(&world, ours), "localhost", served.port).await;
        assert!(before.is_ok(), "nothing changes before the reload");
        served.tls.reload().await.unwrap();
        let unknown = FaultKind::Tls(TlsFault::UnknownIssuer);
        let after = get(&client(&world, ours), "localhost", served.port).await;
        assert_eq!(after.unwrap_err().kind, unknown);
        assert!(
            get(&client(&world, others), "localhost", served.port)
                .await
                .is_ok()
        );

        // One file written and the other not yet: the old certificate stays.
        std::fs::copy(&pki.rsa.cert, &files.cert).unwrap();
        let fault = served.tls.reload().await.unwrap_err();
        assert_eq!(fault.fault, FileFault::ForeignKey);
        assert!(
            get(&client(&world, others), "localhost", served.port)
                .await
                .is_ok()
        );
        std::fs::copy(&pki.rsa.key, &files.key).unwrap();
        served.tls.reload().await.unwrap();
        assert!(
            get(&client(&world, ours), "localhost", served.port)
                .await
                .is_ok()
        );

        assert!(served.dropped.is_empty(), "the held call lives on");
        assert!(held.try_read(&mut [0; 9]).is_none());
    });
}
