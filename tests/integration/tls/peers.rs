//! The other implementations: `openssl s_server`, `openssl s_client` and `curl`, as processes of their own.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Output, Stdio};

use countersign::http::FaultKind;
use countersign::world::tls::TlsFault;

use super::certificates::{Files, Pki};
use super::{MANY, Served, client, get, get_path, many, run, within};

/// `openssl s_server` on a port that it chose. Ended when dropped.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    async fn start(files: &Files, arguments: &[&str]) -> Self {
        let mut command = Command::new("openssl");
        command
            .args(["s_server", "-accept", "127.0.0.1:0", "-cert"])
            .arg(&files.cert)
            .arg("-key")
            .arg(&files.key)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        smol::unblock(move || {
            let mut child = command.spawn().unwrap();
            let mut out = BufReader::new(child.stdout.as_mut().unwrap());
            let mut line = String::new();
            while !line.starts_with("ACCEPT ") {
                line.clear();
                assert!(
                    out.read_line(&mut line).unwrap() > 0,
                    "s_server did not start"
                );
            }
            let port = line.trim().rsplit(':').next().unwrap().parse().unwrap();
            Self { child, port }
        })
        .await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn our_client_and_openssls_server() {
    run(|world, pki| async move {
        for files in [&pki.good, &pki.rsa] {
            for version in ["-tls1_2", "-tls1_3", "-no_tls1"] {
                let server = Server::start(files, &["-www", version]).await;
                let client = client(&world, &pki.ca.cert);
                // Twice: the second session is resumed.
                for _ in 0..2 {
                    let reply = within(version, get(&client, "localhost", server.port)).await;
                    let reply = reply.unwrap();
                    assert_eq!(reply.status, 200);
                    // The page has no length: it ends with close_notify.
                    let page = within(version, reply.read_all(1 << 20)).await.unwrap();
                    let page = String::from_utf8(page).unwrap();
                    assert!(page.contains("s_server"), "{page}");
                    let other = if version == "-tls1_2" {
                        "TLSv1.2"
                    } else {
                        "TLSv1.3"
                    };
                    assert!(page.contains(other), "{version}: {page}");
                }
                let named = within(version, get(&client, "127.0.0.1", server.port)).await;
                assert!(named.is_ok(), "an address of the certificate");
            }
        }
    });
}

#[test]
fn no_version_in_common() {
    run(|world, pki| async move {
        let old = ["-www", "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"];
        let server = Server::start(&pki.good, &old).await;
        let client = client(&world, &pki.ca.cert);
        let got = within("an old server", get(&client, "localhost", server.port)).await;
        let fault = got.unwrap_err();
        assert_eq!(fault.kind, FaultKind::Tls(TlsFault::Version));
        assert!(!fault.sent);
    });
}

/// Neither a server that is killed nor one that is told to quit sends `close_notify`: what it sent is a part.
#[test]
fn openssls_server_gone_in_the_middle_of_a_body() {
    run(|world, pki| async move {
        for (killed, version) in [
            (true, "-tls1_2"),
            (true, "-tls1_3"),
            (false, "-tls1_2"),
            (false, "-tls1_3"),
        ] {
            let mut server = Server::start(&pki.good, &[version]).await;
            let client = client(&world, &pki.ca.cert);
            let mut typed = server.child.stdin.take().unwrap();
            // What is typed before anyone is there is sent once somebody is.
            typed.write_all(b"HTTP/1.1 200 OK\r\n\r\npart\n").unwrap();
            let got = within("the head", get(&client, "localhost", server.port)).await;
            let mut reply = got.unwrap();
            let part = within("a part", reply.next_chunk()).await.unwrap();
            assert_eq!(part.unwrap(), b"part\n");
            if killed {
                server.child.kill().unwrap();
            } else {
                // "Q" at the start of what is typed: it closes the socket as it is.
                typed.write_all(b"Q\n").unwrap();
            }
            let end = within("the cut", reply.next_chunk()).await;
            assert_eq!(end.unwrap_err().kind, FaultKind::Closed, "{version}");
        }
    });
}

/// Runs `openssl s_client` with `typed` as its input.
async fn s_client(pki: &Pki, port: u16, arguments: &[&str], typed: &'static [u8]) -> Output {
    let mut command = Command::new("openssl");
    command
        .args(["s_client", "-connect", &format!("127.0.0.1:{port}")])
        .args(["-servername", "localhost", "-verify_hostname", "localhost"])
        .args(["-verify_return_error", "-quiet", "-CAfile"])
        .arg(&pki.ca.cert)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let running = smol::unblock(move || {
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let _ = stdin.write_all(typed);
        // Its input stays open, as a person's would: it ends with the connection.
        let mut out = Vec::new();
        let mut err = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut out).unwrap();
        child.stderr.take().unwrap().read_to_end(&mut err).unwrap();
        drop(stdin);
        Output {
            status: child.wait().unwrap(),
            stdout: out,
            stderr: err,
        }
    });
    within("s_client", running).await
}

#[test]
fn openssls_client_and_our_server() {
    const ASK: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    run(|world, pki| async move {
        for files in [&pki.good, &pki.rsa] {
            let served = Served::start(&world, files);
            for arguments in [
                &["-tls1_2"][..],
                &["-tls1_3"],
                &["-alpn", "h2,http/1.1"],
                &["-tls1_2", "-alpn", "http/1.1"],
            ] {
                let done = s_client(&pki, served.port, arguments, ASK).await;
                let (out, err) = (text(&done.stdout), text(&done.stderr));
                assert!(done.status.success(), "{arguments:?}: {out}{err}");
                assert!(out.starts_with("HTTP/1.1 200"), "{arguments:?}: {out}{err}");
                assert!(out.ends_with("hello over TLS\n"), "{arguments:?}: {out}");
                // openssl complains of an end without close_notify.
                assert!(!err.contains("unexpected eof"), "{arguments:?}: {err}");
            }
            for (arguments, alert) in [
                (&["-alpn", "h2"][..], "no application protocol"),
                (&["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], "alert"),
                (&["-tls1_2", "-cipher", "AES128-SHA"], "handshake failure"),
            ] {
                let done = s_client(&pki, served.port, arguments, ASK).await;
                let err = text(&done.stderr);
                assert!(
                    !done.status.success() && done.stdout.is_empty(),
                    "{arguments:?}"
                );
                assert!(err.contains(alert), "{arguments:?}: {err}");
            }
        }
        let stranger = Served::start(&world, &pki.stranger);
        let done = s_client(&pki, stranger.port, &[], ASK).await;
        assert!(done.stdout.is_empty(), "openssl does not trust it either");
    });
}

/// Reads until `marker` has come.
fn until(out: &mut impl Read, marker: &str) {
    let mut seen = String::new();
    let mut byte = [0];
    while !seen.ends_with(marker) {
        assert!(
            out.read(&mut byte).unwrap() > 0,
            "ended before {marker:?}: {seen}"
        );
        seen.push(char::from(byte[0]));
    }
}

/// New keys in the middle of a connection, as either side may ask for.
#[test]
fn openssls_client_renews_its_keys() {
    run(|world, pki| async move {
        let served = Served::start(&world, &pki.good);
        // Without -quiet, "K" at the start of what is typed asks both sides for new keys.
        let mut command = Command::new("openssl");
        command
            .args([
                "s_client",
                "-connect",
                &format!("127.0.0.1:{}", served.port),
            ])
            .args(["-tls1_3", "-crlf", "-CAfile"])
            .arg(&pki.ca.cert)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let running = smol::unblock(move || {
            let mut child = command.spawn().unwrap();
            let mut typed = child.stdin.take().unwrap();
            let mut out = BufReader::new(child.stdout.take().unwrap());
            let mut err = BufReader::new(child.stderr.take().unwrap());
            for _ in 0..3 {
                typed
                    .write_all(b"GET / HTTP/1.1\nHost: localhost\n\n")
                    .unwrap();
                until(&mut out, "hello over TLS\n");
                typed.write_all(b"K\n").unwrap();
                until(&mut err, "KEYUPDATE\n");
            }
            let _ = child.kill();
            let _ = child.wait();
        });
        within("s_client", running).await;
    });
}

/// Runs `curl`. `None` where there is none.
async fn curl(pki: &Pki, arguments: Vec<String>) -> Option<Output> {
    let mut command = Command::new("curl");
    command
        .args(["-sS", "--max-time", "30", "--noproxy", "*", "--cacert"])
        .arg(&pki.ca.cert)
        .args(arguments);
    match within("curl", smol::unblock(move || command.output())).await {
        Ok(output) => Some(output),
        Err(_) => {
            println!("skipped: there is no curl command");
            None
        }
    }
}

#[test]
fn curl_and_our_server() {
    run(|world, pki| async move {
        let served = Served::start(&world, &pki.good);
        let at = |path: &str| format!("https://localhost:{}{path}", served.port);
        for version in ["--tlsv1.3", "--tls-max 1.2"] {
            let mut arguments: Vec<String> = version.split(' ').map(str::to_owned).collect();
            // Two on one connection.
            arguments.extend([at("/"), at("/")]);
            let Some(done) = curl(&pki, arguments).await else {
                return;
            };
            assert_eq!(text(&done.stderr), "");
            assert_eq!(text(&done.stdout), "hello over TLS\nhello over TLS\n");
        }
        let done = curl(&pki, vec![at("/many")]).await.unwrap();
        assert!(done.stdout == many(), "{}", text(&done.stderr));
        let upload = pki.folder.join("upload");
        std::fs::write(&upload, many()).unwrap();
        let data = format!("@{}", upload.display());
        let arguments = ["--data-binary".to_owned(), data, at("/echo")];
        let done = curl(&pki, arguments.to_vec()).await.unwrap();
        assert!(done.stdout == many(), "{}", text(&done.stderr));

        let named = Served::start(&world, &pki.named);
        let wrong_name = format!("https://127.0.0.1:{}/", named.port);
        let done = curl(&pki, vec![wrong_name]).await.unwrap();
        assert_eq!(done.status.code(), Some(60), "{}", text(&done.stderr));
    });
}

/// Two of each kind on one connection: where the first one's answer ends, the second one's begins.
#[test]
fn curl_keeps_its_connection() {
    run(|world, pki| async move {
        let served = Served::start(&world, &pki.good);
        let url = |path: &str| format!("https://localhost:{}{path}", served.port);
        let upload = pki.folder.join("upload-twice");
        std::fs::write(&upload, many()).unwrap();
        let data = format!("@{}", upload.display());
        // It waits for the interim reply longer than it may take in all.
        let waits = [
            "-H",
            "Expect: 100-continue",
            "--expect100-timeout",
            "60",
            "--data-binary",
            &data,
        ];
        let at_once = ["-H", "Expect:", "--data-binary", &data];
        let chunked = ["-H", "Transfer-Encoding: chunked"];
        let hello = b"hello over TLS\n".to_vec();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {MANY}\r\n\r\n").into_bytes();
        let rows: [(&str, Vec<&str>, Vec<u8>); 8] = [
            ("GET /", vec![], hello.clone()),
            ("GET /many", vec![], many()),
            ("HEAD /many", vec!["-I"], head),
            ("OPTIONS /", vec!["-X", "OPTIONS"], hello.clone()),
            (
                "OPTIONS *",
                vec!["-X", "OPTIONS", "--request-target", "*"],
                hello,
            ),
            ("POST /echo", waits.to_vec(), many()),
            ("POST /echo", [&chunked[..], &at_once].concat(), many()),
            ("POST /echo", [&chunked[..], &waits].concat(), many()),
        ];
        for (what, options, answer) in rows {
            let path = what.split_once(' ').unwrap().1.replace('*', "/");
            let mut arguments = vec!["-v", "--http1.1", "-w"];
            arguments.push("%{http_version} %{http_code} %{num_connects}\n");
            arguments.extend(&options);
            let mut arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
            arguments.extend([url(&path), url(&path)]);
            let Some(done) = curl(&pki, arguments).await else {
                return;
            };
            let said = text(&done.stderr);
            let expected = [&answer[..], b"1.1 200 1\n", &answer, b"1.1 200 0\n"].concat();
            assert!(done.stdout == expected, "{what} {options:?}: {said}");
            let count = |line: &str| said.lines().filter(|said| said.trim_end() == line).count();
            assert_eq!(count(&format!("> {what} HTTP/1.1")), 2, "{said}");
            let interim = if options.contains(&waits[1]) { 2 } else { 0 };
            assert_eq!(count("< HTTP/1.1 100 Continue"), interim, "{said}");
            let pieces = if options.contains(&chunked[1]) { 2 } else { 0 };
            assert_eq!(count("> Transfer-Encoding: chunked"), pieces, "{said}");
        }
    });
}

/// A caller that is killed while its call is held.
#[test]
fn curl_killed_in_a_held_call() {
    run(|world, pki| async move {
        let served = Served::start(&world, &pki.good);
        let url = format!("https://localhost:{}/hold", served.port);
        let mut command = Command::new("curl");
        command.args(["-sS", "--noproxy", "*", "--cacert"]);
        let Ok(mut child) = command.arg(&pki.ca.cert).arg(url).spawn() else {
            println!("skipped: there is no curl command");
            return;
        };
        within("the call", served.held.recv()).await.unwrap();
        assert!(served.dropped.is_empty());
        child.kill().unwrap();
        child.wait().unwrap();
        within("the drop", served.dropped.recv()).await.unwrap();
        let client = client(&world, &pki.ca.cert);
        assert!(
            get_path(&client, "localhost", served.port, "/")
                .await
                .is_ok()
        );
    });
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
