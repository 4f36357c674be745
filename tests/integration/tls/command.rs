//! The binary itself: `serve` with certificates, SIGHUP, and a caller that trusts by `SSL_CERT_FILE`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::certificates::{Files, Pki};

/// `countersign serve`. Ended when dropped.
struct Serving {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Serving {
    fn start(config: &std::path::Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_countersign"))
            .args(["serve", "--config"])
            .arg(config)
            .env_remove("SSL_CERT_FILE")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stderr }
    }

    /// The next line that holds `marker`.
    fn line(&mut self, marker: &str) -> String {
        let mut line = String::new();
        while !line.contains(marker) {
            line.clear();
            assert!(
                self.stderr.read_line(&mut line).unwrap() > 0,
                "no {marker:?}"
            );
        }
        line
    }

    /// The address that follows `marker`.
    fn address(&mut self, marker: &str) -> String {
        let line = self.line(marker);
        line.trim().rsplit(' ').next().unwrap().to_owned()
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args([name, &pid])
                .status()
                .unwrap()
                .success()
        );
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `countersign tools URL` with that file of authorities.
fn tools(url: &str, ca: Option<&std::path::Path>) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_countersign"));
    command.args(["tools", url]).env_remove("SSL_CERT_FILE");
    if let Some(ca) = ca {
        command.env("SSL_CERT_FILE", ca);
    }
    let done = command.output().unwrap();
    let text = [done.stdout, done.stderr].concat();
    (
        done.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

#[test]
fn serve_with_certificates() {
    let Some(pki) = Pki::get() else {
        println!("skipped: there is no openssl command");
        return;
    };
    let files = Files {
        cert: pki.folder.join("served.pem"),
        key: pki.folder.join("served.key"),
    };
    let put = |from: &Files| {
        std::fs::copy(&from.cert, &files.cert).unwrap();
        std::fs::copy(&from.key, &files.key).unwrap();
    };
    put(&pki.good);
    let config = pki.folder.join("serve.yaml");
    let (cert, key) = (files.cert.display(), files.key.display());
    let text = format!(
        "gateway: {{listen: 127.0.0.1:0, tls: {{cert: {cert}, key: {key}}}}}\n\
         desk: {{listen: 127.0.0.1:0, secret: 0123456789abcdef0123456789abcdef, tls: {{cert: {cert}, key: {key}}}}}\n\
         tls: {{caFile: {}}}\n\
         servers:\n- {{slug: s, kind: command, tools: [{{name: listed, argv: [\"true\"]}}]}}\n",
        pki.ca.cert.display()
    );
    std::fs::write(&config, text).unwrap();
    let mut serving = Serving::start(&config);
    let gateway = serving.address("gateway on https://127.0.0.1:");
    let desk = serving.address("desk on https://127.0.0.1:");
    assert!(desk.starts_with("https://127.0.0.1:"));

    let (done, said) = tools(&gateway, Some(&pki.ca.cert));
    assert!(done && said.contains("listed"), "{said}");
    let (done, said) = tools(&gateway, None);
    assert!(!done && said.contains("not trusted here"), "{said}");
    let plain = gateway.replace("https:", "http:");
    assert!(!tools(&plain, None).0);

    // A broken certificate leaves the old one, and a good one is taken.
    std::fs::write(&files.cert, "nothing").unwrap();
    serving.signal("-HUP");
    let line = serving.line("the old certificate stays");
    assert!(line.contains("no certificate in it"), "{line}");
    assert!(tools(&gateway, Some(&pki.ca.cert)).0);
    put(&pki.stranger);
    serving.signal("-HUP");
    serving.line("read anew; new connections");
    serving.line("read anew; new connections");
    assert!(tools(&gateway, Some(&pki.other_ca.cert)).0);
    assert!(!tools(&gateway, Some(&pki.ca.cert)).0);
}

#[test]
fn a_start_without_its_files_says_which() {
    let Some(pki) = Pki::get() else {
        println!("skipped: there is no openssl command");
        return;
    };
    let config = pki.folder.join("broken.yaml");
    let missing = pki.folder.join("none.pem");
    let key = pki.good.key.display();
    for (text, marker) in [
        (
            format!(
                "gateway: {{listen: 127.0.0.1:0, tls: {{cert: {}, key: {key}}}}}\n",
                missing.display()
            ),
            "gateway.tls: ",
        ),
        (
            format!(
                "tls: {{caFile: {}}}\ngateway: {{listen: 127.0.0.1:0}}\n",
                missing.display()
            ),
            "tls.caFile: ",
        ),
    ] {
        std::fs::write(&config, text).unwrap();
        let mut serving = Serving::start(&config);
        let line = serving.line(marker);
        assert!(line.contains("none.pem: cannot be read"), "{line}");
        assert!(!serving.child.wait().unwrap().success());
    }
}
