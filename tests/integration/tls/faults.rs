//! Why a client of ours does not connect: each reason by its own name.

use std::future::poll_fn;
use std::time::Duration;

use countersign::http::{Client, ClientFault, Connection, FaultKind, Method, OutRequest};
use countersign::world::tls::{
    CertificateFault, ClientTls, FileFault, HANDSHAKE_TIME, ServerTls, TlsFault,
};
use countersign::world::{Listener, World};
use url::Url;

use super::{Served, client, get, run, within};

const DAY: Duration = Duration::from_secs(86_400);

fn tls(fault: TlsFault) -> ClientFault {
    ClientFault {
        kind: FaultKind::Tls(fault),
        sent: false,
    }
}

#[test]
fn names_and_addresses_are_those_of_the_certificate() {
    run(|world, pki| async move {
        let client = client(&world, &pki.ca.cert);
        let wrong = TlsFault::WrongName;
        for (files, host, fault) in [
            (&pki.named, "localhost", None),
            (&pki.named, "LOCALHOST", None),
            (&pki.named, "127.0.0.1", Some(wrong)),
            (&pki.named, "desk.localhost", Some(wrong)),
            (&pki.addressed, "127.0.0.1", None),
            (&pki.addressed, "localhost", Some(wrong)),
            (&pki.good, "localhost", None),
            (&pki.good, "localhost.", None),
            (&pki.good, "127.0.0.1", None),
        ] {
            let served = Served::start(&world, files);
            let got = within(host, get(&client, host, served.port)).await;
            assert_eq!(got.err(), fault.map(tls), "{host} at {:?}", files.cert);
        }
    });
}

#[test]
fn only_who_is_trusted_is_believed() {
    run(|world, pki| async move {
        let trusting = client(&world, &pki.ca.cert);
        let browser = Client::new(world.clone());
        let own = client(&world, &pki.self_signed.cert);
        let authority = client(&world, &pki.self_signed_ca.cert);
        let unknown = Some(TlsFault::UnknownIssuer);
        for (what, client, files, fault) in [
            ("ours", &trusting, &pki.good, None),
            ("ours, by RSA", &trusting, &pki.rsa, None),
            ("ours, to a browser", &browser, &pki.good, unknown),
            ("another's", &trusting, &pki.stranger, unknown),
            ("self-signed", &trusting, &pki.self_signed, unknown),
            ("self-signed, trusted", &own, &pki.self_signed, None),
            (
                "an authority's own",
                &trusting,
                &pki.self_signed_ca,
                Some(TlsFault::Authority),
            ),
            (
                "an authority's own, trusted",
                &authority,
                &pki.self_signed_ca,
                Some(TlsFault::Authority),
            ),
        ] {
            let served = Served::start(&world, files);
            let got = within(what, get(client, "localhost", served.port)).await;
            assert_eq!(got.err(), fault.map(tls), "{what}");
        }
    });
}

#[test]
fn a_certificate_is_valid_by_the_worlds_clock() {
    run(|world, pki| async move {
        let served = Served::start(&world, &pki.good);
        assert!(
            get(&client(&world, &pki.ca.cert), "localhost", served.port)
                .await
                .is_ok()
        );
        world.clock.advance(31 * DAY);
        // A client of its own: the other one's session would be resumed, and its certificate not shown again.
        let late = get(&client(&world, &pki.ca.cert), "localhost", served.port).await;
        assert_eq!(late.err(), Some(tls(TlsFault::Expired)));

        let early_clock = countersign::time::Clock::hand_driven(super::real_wall_ms() - 86_400_000);
        let trusted = ClientTls::also_trusting(&early_clock, &[&pki.ca.cert]).unwrap();
        let early = Client::trusting(world.clone(), trusted);
        let early = get(&early, "localhost", served.port).await;
        assert_eq!(early.err(), Some(tls(TlsFault::NotYetValid)));
    });
}

#[test]
fn a_fault_names_its_reason_and_nothing_that_the_other_side_sent() {
    let shown = |fault| tls(fault).to_string();
    assert_eq!(
        shown(TlsFault::WrongName),
        "no secure connection: the certificate is for another name (TLS)"
    );
    assert_eq!(
        shown(TlsFault::Expired),
        "no secure connection: the certificate has expired (TLS)"
    );
    assert_eq!(
        shown(TlsFault::UnknownIssuer),
        "no secure connection: the certificate is self-signed, or of an authority that is not trusted here (TLS)"
    );
}

/// A listener without TLS, for peers that are none.
fn plain(world: &World) -> (Listener, u16) {
    let listener = world.net.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = listener.local_address().unwrap().port();
    (listener, port)
}

#[test]
fn a_peer_that_speaks_no_tls_is_told_apart() {
    run(|world, pki| async move {
        let client = client(&world, &pki.ca.cert);
        for (answer, fault) in [
            (&b"HTTP/1.1 200 OK\r\n\r\n"[..], TlsFault::NotTls),
            (b"\x15\x03\x03\x00\x02\x02\x28", TlsFault::Refused),
            (b"\x15\x03\x03\x00\x02\x02\x46", TlsFault::Version),
            (b"", TlsFault::Ended),
            (b"\x16\x03\x03", TlsFault::Ended),
        ] {
            let (listener, port) = plain(&world);
            let peer = async {
                let (stream, _) = listener.accept().await.unwrap();
                let mut hello = [0; 4096];
                poll_fn(|cx| stream.poll_read(cx, &mut hello))
                    .await
                    .unwrap();
                stream.write_all(answer).await.unwrap();
                stream.shutdown_write();
                // Open until the client has gone: a reset would be another end.
                while poll_fn(|cx| stream.poll_read(cx, &mut hello))
                    .await
                    .is_ok_and(|n| n > 0)
                {}
            };
            let both = smol::future::zip(get(&client, "localhost", port), peer);
            let (got, ()) = within("a peer without TLS", both).await;
            assert_eq!(got.err(), Some(tls(fault)), "{answer:?}");
        }
    });
}

#[test]
fn a_handshake_that_never_comes_ends_with_the_deadline_or_its_own_time() {
    run(|world, pki| async move {
        let client = client(&world, &pki.ca.cert);
        let (listener, port) = plain(&world);
        let url = Url::parse(&format!("https://localhost:{port}/")).unwrap();
        for (given, ends_after) in [
            (Duration::from_secs(3), Duration::from_secs(3)),
            (Duration::from_secs(60), HANDSHAKE_TIME),
        ] {
            let begun = world.clock.now();
            let request = OutRequest::new(Method::Get, &url).unwrap();
            let asking = client.send(request, world.clock.after(given), Connection::Fresh);
            let peer = async {
                let (stream, _) = listener.accept().await.unwrap();
                poll_fn(|cx| stream.poll_read(cx, &mut [0; 9]))
                    .await
                    .unwrap();
                loop {
                    world.clock.advance(Duration::from_millis(500));
                    // The client is asked between two steps.
                    smol::future::yield_now().await;
                }
            };
            let got = within("a silent peer", smol::future::or(asking, peer)).await;
            let timeout = ClientFault {
                kind: FaultKind::Timeout,
                sent: false,
            };
            assert_eq!(got.err(), Some(timeout));
            assert_eq!(world.clock.now().since(begun), ends_after);
            assert_eq!(world.clock.live_timers(), 0);
        }
    });
}

#[test]
fn a_file_that_is_of_no_use_says_why() {
    run(|world, pki| async move {
        let write = |name: &str, content: &[u8]| {
            let file = pki.folder.join(name);
            std::fs::write(&file, content).unwrap();
            file
        };
        let cert = std::fs::read(&pki.good.cert).unwrap();
        let cut = write("cut.pem", &cert[..cert.len() / 2]);
        let empty = write("empty.pem", b"");
        let not_der = write(
            "not-der.pem",
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        );
        let missing = pki.folder.join("missing.pem");
        let gone = FileFault::Unreadable(std::io::ErrorKind::NotFound);
        for (cert, key, file, fault) in [
            (&missing, &pki.good.key, &missing, gone),
            (&pki.good.cert, &missing, &missing, gone),
            (&empty, &pki.good.key, &empty, FileFault::NoCertificate),
            (
                &pki.good.key,
                &pki.good.key,
                &pki.good.key,
                FileFault::NoCertificate,
            ),
            (&cut, &pki.good.key, &cut, FileFault::NotPem),
            (&not_der, &pki.good.key, &not_der, FileFault::Unusable),
            (
                &pki.good.cert,
                &pki.good.cert,
                &pki.good.cert,
                FileFault::NoKey,
            ),
            (
                &pki.good.cert,
                &pki.rsa.key,
                &pki.rsa.key,
                FileFault::ForeignKey,
            ),
        ] {
            let found = ServerTls::load(cert, key).err();
            let expected = CertificateFault {
                file: file.clone(),
                fault,
            };
            assert_eq!(found, Some(expected));
        }
        for (file, fault) in [
            (&missing, gone),
            (&pki.good.key, FileFault::NoCertificate),
            (&not_der, FileFault::Unusable),
        ] {
            let found = ClientTls::also_trusting(&world.clock, &[file]).err();
            assert_eq!(found.map(|found| found.fault), Some(fault));
        }
    });
}
