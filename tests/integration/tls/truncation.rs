//! A body that was cut is never taken for a whole one, however its end is told.

use std::future::poll_fn;

use countersign::http::{ClientFault, FaultKind};
use countersign::world::Stream;

use super::{client, get, listen, run, within};

/// How the server ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// `close_notify`, then the end of the stream.
    Announced,
    /// The end of the stream alone, as whoever is in between can forge it.
    Bare,
}

/// Waits for a request, answers with `reply`, and ends.
async fn answer(stream: Stream, reply: &[u8], end: End) {
    stream.handshake().await.unwrap();
    let mut request = [0; 4096];
    poll_fn(|cx| stream.poll_read(cx, &mut request))
        .await
        .unwrap();
    stream.write_all(reply).await.unwrap();
    if end == End::Announced {
        stream.shutdown_write();
        // Open until the client is done: what it sends on leaving would be answered with a reset.
        std::future::pending::<()>().await;
    }
}

#[test]
fn a_body_cut_short_is_an_error_in_every_framing() {
    run(|world, pki| async move {
        let client = client(&world, &pki.ca.cert);
        let closed = ClientFault {
            kind: FaultKind::Closed,
            sent: true,
        };
        let whole = |body: &str| Ok(body.as_bytes().to_vec());
        let length = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n";
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let until_close = "HTTP/1.1 200 OK\r\n\r\n";
        for (head, body, end, expected) in [
            (length, "0123456789", End::Announced, whole("0123456789")),
            (length, "0123456789", End::Bare, whole("0123456789")),
            (length, "01234", End::Announced, Err(closed)),
            (length, "01234", End::Bare, Err(closed)),
            (length, "", End::Bare, Err(closed)),
            (chunked, "3\r\nabc\r\n0\r\n\r\n", End::Bare, whole("abc")),
            (chunked, "3\r\nabc\r\n", End::Announced, Err(closed)),
            (chunked, "3\r\nabc\r\n", End::Bare, Err(closed)),
            (chunked, "3\r\nabc\r\n0\r\n", End::Bare, Err(closed)),
            (chunked, "3\r\nab", End::Bare, Err(closed)),
            (until_close, "all of it", End::Announced, whole("all of it")),
            (until_close, "", End::Announced, whole("")),
            (until_close, "a part", End::Bare, Err(closed)),
            (until_close, "", End::Bare, Err(closed)),
        ] {
            let (_, listener) = listen(&world, &pki.good);
            let port = listener.local_address().unwrap().port();
            let reply = format!("{head}{body}");
            let serving = async {
                let (stream, _) = listener.accept().await.unwrap();
                answer(stream, reply.as_bytes(), end).await;
                std::future::pending().await
            };
            let asking = async {
                let reply = get(&client, "localhost", port).await.unwrap();
                reply.read_all(100).await
            };
            let got = within(&reply, smol::future::or(asking, serving)).await;
            assert_eq!(got, expected, "{reply:?} {end:?}");
        }
    });
}

#[test]
fn a_head_cut_short_is_an_error() {
    run(|world, pki| async move {
        let client = client(&world, &pki.ca.cert);
        for (reply, end) in [
            ("", End::Bare),
            ("", End::Announced),
            ("HTTP/1.1 200 OK\r\nContent-Le", End::Bare),
            ("HTTP/1.1 200 OK\r\nContent-Le", End::Announced),
        ] {
            let (_, listener) = listen(&world, &pki.good);
            let port = listener.local_address().unwrap().port();
            let serving = async {
                let (stream, _) = listener.accept().await.unwrap();
                answer(stream, reply.as_bytes(), end).await;
                std::future::pending().await
            };
            let asking = get(&client, "localhost", port);
            let got = within("a cut head", smol::future::or(asking, serving)).await;
            let fault = got.unwrap_err();
            assert_eq!(
                (fault.kind, fault.sent),
                (FaultKind::Closed, true),
                "{reply:?}"
            );
        }
    });
}
