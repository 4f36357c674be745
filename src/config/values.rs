//! Values that several sections hold: addresses, digests, names, references, times, prefixes.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use url::Url;

use super::fault::{At, Notice, Placed, Report, named};
use super::keys::{self, Then};
use super::names::{NAME_GRAMMAR, is_name, parse_time};
use super::reader::Place;
use super::template::Template;
use crate::approval::url::{Allowlist, is_loopback, names_a_mark};
use crate::secret::{self, MIN_SECRET_BYTES};

/// Where a part listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Address and port; port 0 lets the system choose.
    pub address: SocketAddr,
    /// Where the configuration says so; line 0 when it is the default.
    pub at: At,
}

impl Listen {
    fn parse(text: &str) -> Option<SocketAddr> {
        // Names are not resolved: what is listened on must not depend on who answers DNS.
        if let Some(port) = text.strip_prefix("localhost:") {
            return Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().ok()?)));
        }
        text.parse().ok()
    }
}

/// Reads where a section listens: what `name` holds, or its default; without a default, nowhere.
pub(crate) fn listen(section: &Place<'_>, name: &str, report: &mut Report) -> Vec<Listen> {
    let Some(place) = section.get(name) else {
        let default = Listen::parse(section.default_of(name));
        return default
            .map(|address| Listen {
                address,
                at: At::default(),
            })
            .into_iter()
            .collect();
    };
    let items = place.items();
    if items.is_empty() && place.is_list() {
        place.fault(report, "found an empty list, allowed: at least one address");
    }
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for item in items {
        let Some(text) = item.text() else { continue };
        let Some(address) = Listen::parse(text) else {
            item.fault(
                report,
                format!("found {}, allowed: IP:PORT or localhost:PORT", named(text)),
            );
            continue;
        };
        if address.port() != 0 && !seen.insert(address) {
            item.fault(
                report,
                format!("found {} a second time, allowed: once", named(text)),
            );
        }
        found.push(Listen {
            address,
            at: item.at(),
        });
    }
    found
}

/// PEM files of a certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, and behind it the chain to its authority.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Reads the certificate that a section serves with. The files are not looked at: that is the start's to do.
pub(crate) fn certificate(section: &Place<'_>, report: &mut Report) -> Option<CertificateFiles> {
    let place = section.get("tls")?;
    Some(CertificateFiles {
        cert: file(&place, "cert", report)?,
        key: file(&place, "key", report)?,
    })
}

/// Reads the name of a file.
pub(crate) fn file(section: &Place<'_>, name: &str, report: &mut Report) -> Option<PathBuf> {
    let place = section.get(name)?;
    let text = place.text()?;
    if text.is_empty() || text.contains('\0') {
        place.fault(report, "found no name of a file, allowed: a path");
        return None;
    }
    Some(PathBuf::from(text))
}

/// Reads the name of a directory. A relative one would be another with each place that this process is started in.
pub(crate) fn directory(section: &Place<'_>, name: &str, report: &mut Report) -> Option<PathBuf> {
    let place = section.get(name)?;
    let text = place.text()?;
    let text = if text.contains("${") {
        "found a reference, allowed: fixed text"
    } else if !text.starts_with('/') || text.contains('\0') {
        "found no absolute path, allowed: one that starts with /"
    } else {
        return Some(PathBuf::from(text));
    };
    place.fault(report, text);
    None
}

/// Reads a SHA-256. What stands there instead is never repeated: it may be the secret itself.
pub(crate) fn digest(section: &Place<'_>, name: &str, report: &mut Report) -> Option<[u8; 32]> {
    let place = section.get(name)?;
    let found = secret::parse_hex_32(place.scalar()?);
    if found.is_none() {
        place.fault(
            report,
            "found something else, allowed: 64 hexadecimal digits",
        );
    }
    found
}

/// Reads an id.
pub(crate) fn name(place: &Place<'_>, report: &mut Report) -> Option<String> {
    let text = place.text()?;
    if is_name(text) {
        return Some(text.to_owned());
    }
    place.fault(
        report,
        format!("found {}, allowed: {NAME_GRAMMAR}", named(text)),
    );
    None
}

/// Reads a list of ids under a key; absent, an empty one.
pub(crate) fn names(section: &Place<'_>, key: &str, report: &mut Report) -> Vec<String> {
    let items = section
        .get(key)
        .map(|place| place.items())
        .unwrap_or_default();
    items.iter().filter_map(|item| name(item, report)).collect()
}

/// Reads a point in time as milliseconds since 1970.
pub(crate) fn time(section: &Place<'_>, name: &str, report: &mut Report) -> Option<u64> {
    let place = section.get(name)?;
    let found = parse_time(place.text()?);
    if found.is_none() {
        place.fault(
            report,
            "found no point in time, allowed: RFC 3339, such as 2030-01-31T12:00:00Z",
        );
    }
    found
}

/// Reads a value that may hold references.
pub(crate) fn template(place: &Place<'_>, report: &mut Report) -> Option<Placed<Template>> {
    match Template::parse(place.text()?) {
        Ok(value) => Some(Placed {
            value,
            at: place.at(),
        }),
        Err(fault) => {
            place.fault(report, fault.to_string());
            None
        }
    }
}

/// Reads a sealing secret: one, or the new one and the old one.
pub(crate) fn seal_keys(
    section: &Place<'_>,
    name: &str,
    report: &mut Report,
) -> Vec<Placed<Template>> {
    let Some(place) = section.get(name) else {
        return Vec::new();
    };
    let items = place.items();
    if place.is_list() && !(1..=2).contains(&items.len()) {
        place.fault(
            report,
            format!("found {} secrets, allowed: [new, old]", items.len()),
        );
    }
    let mut found = Vec::new();
    for item in items {
        let Some(key) = template(&item, report) else {
            continue;
        };
        if let Some(length) = key
            .value
            .literal_len()
            .filter(|length| *length < MIN_SECRET_BYTES)
        {
            item.fault(
                report,
                format!("found {length} bytes, allowed: at least {MIN_SECRET_BYTES}"),
            );
        }
        found.push(key);
    }
    found
}

/// Reads a list of approval prefixes. The spec: "A prefix is an https URL in normal form whose path ends in
/// /, so it cannot match a sibling path that merely starts the same way."
pub(crate) fn prefixes(place: &Place<'_>, report: &mut Report) -> Allowlist {
    let items = place.items();
    let items: Vec<_> = items
        .iter()
        .filter_map(|item| Some((item, item.text()?)))
        .collect();
    for (item, text) in &items {
        let absent = keys::not_yet("gateway.elicitation.allowedUrlPrefixes[]", Some(text));
        if absent == Some(&Then::Notice) {
            report.notice(Notice::TlsAbsent {
                path: item.at().path,
            });
        }
    }
    let texts: Vec<String> = items.iter().map(|(_, text)| (*text).to_owned()).collect();
    match Allowlist::parse(&texts) {
        Ok(list) => {
            for (item, _) in list
                .whole_host()
                .into_iter()
                .filter_map(|index| items.get(index))
            {
                // The spec: "https://host/ allows the whole host, which is rarely what you want."
                let text = "allows every path of its host, which is rarely what is meant";
                report.warning(&item.at(), text);
            }
            list
        }
        Err(faults) => {
            for (index, fault) in faults {
                let Some((item, _)) = items.get(index) else {
                    continue;
                };
                let allowed = "https, or http for a loopback host, in normal form ending in /";
                item.fault(report, format!("{fault}, allowed: {allowed}"));
            }
            Allowlist::default()
        }
    }
}

/// Reads an address of ours: in normal form but for a final `/`, without user, query and fragment.
pub(crate) fn parse_address(text: &str) -> Option<Url> {
    let url = parse_url(text)?;
    (is_clean(&url, text) && url.query().is_none()).then_some(url)
}

/// Reads an address that others chose: as one of ours, but that it is https or http, may have a query, and may have
/// escapes in both that and its path.
pub(crate) fn parse_their_address(text: &str) -> Option<Url> {
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"))?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or("");
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
    // Behind an empty authority the parser would skip the slashes and find a host, which may have escapes in it.
    if authority.is_empty()
        || authority.contains('%')
        || !text.bytes().all(plain)
        || names_a_mark(text)
    {
        return None;
    }
    let url = Url::parse(text).ok()?;
    is_clean(&url, text).then_some(url)
}

/// Whether what goes there stays unread on its way, so that a credential may: "over https or loopback only".
pub(crate) fn is_private(url: &Url) -> bool {
    let to_ourselves = url.scheme() == "http" && url.host().as_ref().is_some_and(is_loopback);
    to_ourselves || url.scheme() == "https"
}

/// Whether a URL has a host, no user and no fragment, and was written in normal form but for a final `/`.
fn is_clean(url: &Url, text: &str) -> bool {
    let normal = url.as_str() == text || url.as_str().strip_suffix('/') == Some(text);
    let bare = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    normal && bare && url.has_host()
}

/// Parses a URL. What the parser would repair, decode or translate is refused before it sees it (and the IDNA
/// adapter of our lock file asserts, in debug builds, that what is translated has no upper case).
pub(crate) fn parse_url(text: &str) -> Option<Url> {
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'%' | b'\\');
    if text.bytes().all(plain) && !names_a_mark(text) {
        Url::parse(text).ok()
    } else {
        None
    }
}
