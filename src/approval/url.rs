//! The one URL type that a question may be sent to.
//!
//! A caller names the address that is asked, so the text is hostile until [`Allowlist::admit`] has read it. It is parsed
//! once; what was checked is what is connected to. The path holds the token of one session: it is a credential, and
//! nothing here prints it.

use std::fmt;

use ::url::{Host, Url};

use crate::secret;

/// Longest text of an approval URL, in bytes. A Zimmer session URL has some 120, and one of ours fewer than 300; the
/// rest is room for long host names. The bound keeps one header from filling a refusal, a digest or a log line.
pub const MAX_URL_BYTES: usize = 2_048;

/// Longest request id, in bytes. A UUID has 36; an endpoint that mints its own stays under this or has failed.
pub const MAX_REQUEST_ID_BYTES: usize = 128;

/// The prefixes under which approval URLs may lie, as the operator listed them.
///
/// It is the only constructor of [`ApprovalUrl`]. An empty list admits nothing.
#[derive(Clone, Debug, Default)]
pub struct Allowlist {
    /// Each in normal form, https or loopback http, with a path that ends in `/`.
    prefixes: Vec<Url>,
}

impl Allowlist {
    /// Reads the operator's list. All faults are returned, each with the index of its entry.
    pub fn parse(list: &[String]) -> Result<Allowlist, Vec<(usize, PrefixFault)>> {
        let mut prefixes = Vec::with_capacity(list.len());
        let mut faults = Vec::new();
        for (index, text) in list.iter().enumerate() {
            match parse_prefix(text) {
                Ok(prefix) => prefixes.push(prefix),
                Err(fault) => faults.push((index, fault)),
            }
        }
        if faults.is_empty() {
            Ok(Allowlist { prefixes })
        } else {
            Err(faults)
        }
    }

    /// Whether nothing is listed, so that nothing is admitted.
    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// The indexes of the entries that allow a whole host (`https://host/`): valid, but rarely what was meant.
    pub fn whole_host(&self) -> Vec<usize> {
        let entries = self.prefixes.iter().enumerate();
        entries
            .filter(|(_, prefix)| prefix.path() == "/")
            .map(|(index, _)| index)
            .collect()
    }

    /// Whether a URL that some list admitted lies under a prefix of this one: a narrower list, or the list of today.
    pub fn lists(&self, url: &ApprovalUrl) -> bool {
        self.find(&url.url).is_ok()
    }

    /// Reads what a caller sent. The spec's rule: "the URL, after the parser has resolved any .. or %2e%2e segments,
    /// must sit strictly under a listed prefix. It must also be https; plain http is accepted only for a loopback host."
    pub fn admit(&self, raw: &[u8]) -> Result<ApprovalUrl, UrlRefusal> {
        if self.prefixes.is_empty() {
            return Err(UrlRefusal {
                rule: UrlRule::NothingListed,
                origin: None,
            });
        }
        let text = check_text(raw).map_err(|rule| UrlRefusal { rule, origin: None })?;
        let url = parse(text).map_err(|rule| UrlRefusal { rule, origin: None })?;
        match check_parsed(text, &url).and_then(|()| self.find(&url)) {
            Ok(()) => Ok(ApprovalUrl { url }),
            Err(rule) => Err(UrlRefusal {
                rule,
                origin: printable_origin(&url),
            }),
        }
    }

    /// Finds a prefix that `url` lies strictly under: the same scheme, host and port, and a path that goes on after the
    /// prefix's. Prefixes end in `/`, so a sibling that merely starts the same way is not under one.
    fn find(&self, url: &Url) -> Result<(), UrlRule> {
        let mut rule = UrlRule::OriginNotListed;
        for prefix in &self.prefixes {
            let same_origin = url.scheme() == prefix.scheme()
                && url.host() == prefix.host()
                && url.port_or_known_default() == prefix.port_or_known_default();
            if !same_origin {
                continue;
            }
            match url.path().strip_prefix(prefix.path()) {
                Some("") => rule = UrlRule::NoSession,
                Some(_) => return Ok(()),
                None if rule == UrlRule::NoSession => {}
                None => rule = UrlRule::NotUnderPrefix,
            }
        }
        Err(rule)
    }
}

/// A URL that a question may be sent to. Only [`Allowlist::admit`] makes one.
///
/// Its path is a credential: `Debug` and `Display` show the origin only.
#[derive(Clone)]
pub struct ApprovalUrl {
    /// Absolute, http or https, with no userinfo, query or fragment; no empty segment but perhaps the last.
    url: Url,
}

impl ApprovalUrl {
    /// Scheme, host and port: all of it that may be shown.
    pub fn origin(&self) -> String {
        self.url.origin().ascii_serialization()
    }

    /// The parsed value that was checked, to POST the question to. It prints its path: never format it.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Where the answer is fetched: this URL with exactly one path segment appended. Where the path ends in `/` the id
    /// takes the place of the empty segment, as the protocol's own library has it.
    pub fn poll_url(&self, request_id: &RequestId) -> Url {
        let path = self.url.path();
        let base = path.strip_suffix('/').unwrap_or(path);
        let mut url = self.url.clone();
        url.set_path(&format!("{base}/{}", request_id.as_str()));
        url
    }

    /// The same text for every spelling of the same channel, for digests and bounds: the SHA-256 in hex of origin and
    /// path, escapes decoded and a final `/` left out. (`%61` and `a` are one session to the endpoint, and would
    /// otherwise be two to a bound on questions per channel.)
    pub fn same_channel_key(&self) -> String {
        let path = self.url.path();
        let path = path.strip_suffix('/').unwrap_or(path);
        let mut text = self.origin().into_bytes();
        text.extend(percent_decode(path));
        secret::hex(&secret::sha256(&text))
    }
}

impl fmt::Debug for ApprovalUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApprovalUrl({}/..)", self.origin())
    }
}

impl fmt::Display for ApprovalUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin())
    }
}

/// The id of one question, `[A-Za-z0-9_-]{1,128}`: ours, or one that the endpoint gave. Such a text is one path segment
/// as it stands. It is not a credential: by itself it neither asks nor answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(String);

impl RequestId {
    /// Takes an id that someone else wrote, or `None` if it is not of the one permitted form.
    pub fn parse(text: &str) -> Option<RequestId> {
        let permitted = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let fits = (1..=MAX_REQUEST_ID_BYTES).contains(&text.len()) && text.bytes().all(permitted);
        fits.then(|| RequestId(text.to_owned()))
    }

    /// Mints ours from 16 random bytes: a version 4 UUID (RFC 9562, section 5.4) in its usual lower-case form.
    pub fn from_random(random: [u8; 16]) -> RequestId {
        let mut bits = u128::from_be_bytes(random);
        // RFC 9562, sections 4.1 and 4.2: the version stands in bits 48 to 51, the variant in bits 64 and 65.
        bits = bits & !(0xF << 76) | 0x4 << 76;
        bits = bits & !(0x3 << 62) | 0x2 << 62;
        RequestId(format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            bits >> 96,
            bits >> 80 & 0xFFFF,
            bits >> 64 & 0xFFFF,
            bits >> 48 & 0xFFFF,
            bits & 0xFFFF_FFFF_FFFF,
        ))
    }

    /// The id as it stands in JSON and in a path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Checks the bytes before anything parses them, so that what a parser would repair or drop (spaces, tabs and newlines
/// inside, `\` for `/`, a non-ASCII host) never reaches it.
fn check_text(raw: &[u8]) -> Result<&str, UrlRule> {
    if raw.is_empty() {
        return Err(UrlRule::Empty);
    }
    if raw.len() > MAX_URL_BYTES {
        return Err(UrlRule::TooLong);
    }
    for byte in raw {
        match byte {
            // The spec: "A value that is not exactly one URL is refused; that includes a repeated header, which Node
            // joins with a comma."
            b',' => return Err(UrlRule::Comma),
            b'\\' => return Err(UrlRule::Backslash),
            b'?' => return Err(UrlRule::Query),
            b'#' => return Err(UrlRule::Fragment),
            0x21..=0x7E => {}
            _ => return Err(UrlRule::Byte),
        }
    }
    std::str::from_utf8(raw).map_err(|_| UrlRule::Byte)
}

/// Parses, once, and only what is http or https by its text: the parser knows many forms that are none of ours.
///
/// A host in percent escapes is refused before: the parser would decode it, and so let in the non-ASCII hosts that the
/// text cannot hold. (In debug builds the IDNA adapter that our lock file picks asserts that those have no upper case,
/// and the parser asserts on some `file:` paths.)
fn parse(text: &str) -> Result<Url, UrlRule> {
    // RFC 3986, section 3.1: scheme = ALPHA *( ALPHA / DIGIT / "+" / "-" / "." )
    let (scheme, _) = text.split_once(':').ok_or(UrlRule::NotAUrl)?;
    let in_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    if !scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        || !scheme.bytes().all(in_scheme)
    {
        return Err(UrlRule::NotAUrl);
    }
    if !scheme.eq_ignore_ascii_case("https") && !scheme.eq_ignore_ascii_case("http") {
        return Err(UrlRule::Scheme);
    }
    let host = authority(text).rsplit('@').next().unwrap_or("");
    if host.contains('%') {
        return Err(UrlRule::EncodedHost);
    }
    if names_a_mark(text) {
        return Err(UrlRule::NotAUrl);
    }
    Url::parse(text).map_err(|_| UrlRule::NotAUrl)
}

/// Whether a label of the host is Punycode with a right-to-left mark (U+200F) in it.
///
/// There is no such name by UTS 46, whose tables the IDNA adapter of our lock file leaves out: it takes the label, and
/// in debug builds the parser asserts that it did not.
pub(crate) fn names_a_mark(text: &str) -> bool {
    let decoded = |label: &str| {
        let (prefix, rest) = label.split_at_checked(4)?;
        let encoded = prefix.eq_ignore_ascii_case("xn--");
        encoded.then(|| idna::punycode::decode(&rest.to_ascii_lowercase()))?
    };
    authority(text)
        .split(['.', ':', '@', '?', '#'])
        .filter_map(decoded)
        .any(|name| name.contains(&'\u{200F}'))
}

/// The authority as the parser finds it for http and https: what stands between the slashes after the first `:`,
/// however many, and the next slash. Backslashes, `?` and `#`, which would end it too, are refused by now.
fn authority(text: &str) -> &str {
    let after_scheme = text.split_once(':').map_or("", |(_, rest)| rest);
    after_scheme
        .trim_start_matches('/')
        .split('/')
        .next()
        .unwrap_or("")
}

/// Checks what the one parse gave, but for the list. `text` is what was parsed.
fn check_parsed(text: &str, url: &Url) -> Result<(), UrlRule> {
    match url.scheme() {
        "https" => {}
        "http" if url.host().as_ref().is_some_and(is_loopback) => {}
        "http" => return Err(UrlRule::PlainHttp),
        _ => return Err(UrlRule::Scheme),
    }
    // An empty userinfo (`https://@host/`) is gone after the parse, so the text is asked too.
    if authority(text).contains('@') || !url.username().is_empty() || url.password().is_some() {
        return Err(UrlRule::Userinfo);
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(UrlRule::NotAUrl);
    }
    check_path(url.path())
}

/// Checks that no server can take the path for another one: dot segments are resolved by now, so an escape that hides a
/// `/`, a `\` or a `.` was written to be read differently further on.
fn check_path(path: &str) -> Result<(), UrlRule> {
    let segments = path.strip_prefix('/').unwrap_or(path);
    if segments.is_empty() {
        return Ok(());
    }
    // One empty segment is harmless, the last: `poll_url` puts the id into its place. Elsewhere servers disagree on
    // whether `//` is `/`, and so on which path this is.
    let segments = segments.strip_suffix('/').unwrap_or(segments);
    for segment in segments.split('/') {
        check_escapes(segment)?;
        // `..` does not remove such a segment in our parser, though WHATWG says so of `file:` alone (servo/rust-url#1113):
        // elsewhere the text may name another path.
        if let [letter, b':' | b'|'] = segment.as_bytes()
            && letter.is_ascii_alphabetic()
        {
            return Err(UrlRule::DriveLetter);
        }
        let decoded = String::from_utf8(percent_decode(segment)).map_err(|_| UrlRule::Escape)?;
        if decoded.chars().any(char::is_control) {
            return Err(UrlRule::Escape);
        }
        // Some servers cut `;parameters` off a segment and resolve dots only then: `..;` is a dot segment to them.
        match decoded.split(';').next().unwrap_or("") {
            "" => return Err(UrlRule::EmptySegment),
            "." | ".." => return Err(UrlRule::DotSegment),
            _ => {}
        }
    }
    Ok(())
}

/// Refuses `%` without two hex digits, and escapes of `.`, `/`, `\` and of `%` itself (which becomes one of the others
/// where a server decodes twice).
fn check_escapes(segment: &str) -> Result<(), UrlRule> {
    let mut parts = segment.split('%');
    parts.next();
    for part in parts {
        match hex_byte(part.as_bytes()) {
            Some(b'.' | b'/' | b'\\' | b'%') => return Err(UrlRule::EncodedDelimiter),
            Some(_) => {}
            None => return Err(UrlRule::Escape),
        }
    }
    Ok(())
}

/// Decodes each `%` with two hex digits once; anything else stays.
fn percent_decode(text: &str) -> Vec<u8> {
    let mut parts = text.split('%');
    let mut decoded = parts.next().unwrap_or("").as_bytes().to_vec();
    for part in parts {
        let part = part.as_bytes();
        match (hex_byte(part), part.get(2..)) {
            (Some(byte), Some(rest)) => {
                decoded.push(byte);
                decoded.extend_from_slice(rest);
            }
            _ => {
                decoded.push(b'%');
                decoded.extend_from_slice(part);
            }
        }
    }
    decoded
}

/// The byte that the first two characters name in hex.
fn hex_byte(text: &[u8]) -> Option<u8> {
    let digit = |index: usize| {
        text.get(index)
            .and_then(|byte| char::from(*byte).to_digit(16))
    };
    u8::try_from(digit(0)? * 16 + digit(1)?).ok()
}

/// Whether a host is this machine by its name alone: 127.0.0.0/8, `[::1]`, `localhost`. An IPv4 address mapped into
/// IPv6, `localhost.` and names under `localhost` are not: they are left to whatever resolves them.
pub fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

/// The origin of a URL that was refused, where it has one that cannot hold a credential.
fn printable_origin(url: &Url) -> Option<String> {
    matches!(url.scheme(), "http" | "https").then(|| url.origin().ascii_serialization())
}

/// Reads one entry of the list. The spec: "A prefix is an https URL in normal form whose path ends in /, so it cannot
/// match a sibling path that merely starts the same way."
fn parse_prefix(text: &str) -> Result<Url, PrefixFault> {
    let text = check_text(text.as_bytes()).map_err(PrefixFault::Url)?;
    let url = parse(text).map_err(PrefixFault::Url)?;
    check_parsed(text, &url).map_err(PrefixFault::Url)?;
    if url.as_str() != text {
        return Err(PrefixFault::NotNormalForm);
    }
    if !url.path().ends_with('/') {
        return Err(PrefixFault::NoTrailingSlash);
    }
    Ok(url)
}

/// Why an entry of the list cannot be used. The fault is the configuration's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixFault {
    /// It breaks a rule that every approval URL must keep.
    Url(UrlRule),
    /// Parsed and written again it reads differently: an upper-case host, a default port, a dot segment.
    NotNormalForm,
    /// Its path does not end in `/`.
    NoTrailingSlash,
}

impl fmt::Display for PrefixFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrefixFault::Url(rule) => write!(f, "the prefix {rule}"),
            PrefixFault::NotNormalForm => f.write_str("the prefix is not in normal form"),
            PrefixFault::NoTrailingSlash => f.write_str("the prefix's path does not end in `/`"),
        }
    }
}

impl std::error::Error for PrefixFault {}

/// Why a caller's URL is not admitted: the rule, and the origin where one was read. The path, userinfo and query are
/// not kept, so that no text made of this can hold them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlRefusal {
    /// The first rule that is broken.
    rule: UrlRule,
    /// Scheme, host and port, if the text parsed as an http or https URL.
    origin: Option<String>,
}

impl UrlRefusal {
    /// The first rule that is broken.
    pub fn rule(&self) -> UrlRule {
        self.rule
    }

    /// Scheme, host and port, if the text parsed as an http or https URL.
    pub fn origin(&self) -> Option<&str> {
        self.origin.as_deref()
    }
}

impl fmt::Display for UrlRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Some(origin) => write!(f, "the caller's approval URL (at {origin}) {}", self.rule),
            None => write!(f, "the caller's approval URL {}", self.rule),
        }
    }
}

impl std::error::Error for UrlRefusal {}

/// The rules of an approval URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UrlRule {
    /// No prefix is listed at all.
    NothingListed,
    /// The text is empty.
    Empty,
    /// The text has more than [`MAX_URL_BYTES`].
    TooLong,
    /// A byte outside 0x21 to 0x7E.
    Byte,
    /// A comma, as between two joined headers.
    Comma,
    /// A backslash, which the parser would take for a slash.
    Backslash,
    /// A `?`.
    Query,
    /// A `#`.
    Fragment,
    /// A percent escape in the host.
    EncodedHost,
    /// The parser refuses it.
    NotAUrl,
    /// Neither https nor http.
    Scheme,
    /// Plain http to a host that is not loopback.
    PlainHttp,
    /// A user name, a password, or the `@` alone.
    Userinfo,
    /// An escape that is malformed, or decodes to a control character or to no text.
    Escape,
    /// `%2e`, `%2f`, `%5c` or `%25` is left in the path.
    EncodedDelimiter,
    /// An empty segment before the last.
    EmptySegment,
    /// A segment that is a letter with `:` or `|`, as of a drive.
    DriveLetter,
    /// A dot segment behind which `;parameters` stand.
    DotSegment,
    /// No prefix has this scheme, host and port.
    OriginNotListed,
    /// Prefixes have its origin, but it lies under none of them.
    NotUnderPrefix,
    /// It is a prefix itself, with nothing behind it.
    NoSession,
}

impl fmt::Display for UrlRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UrlRule::NothingListed => {
                f.write_str("cannot be used: no approval URL prefix is configured")
            }
            UrlRule::Empty => f.write_str("is empty"),
            UrlRule::TooLong => write!(f, "is longer than {MAX_URL_BYTES} bytes"),
            UrlRule::Byte => f.write_str("holds a space, a control character or a non-ASCII byte"),
            UrlRule::Comma => f.write_str("holds a comma, so it is not exactly one URL"),
            UrlRule::Backslash => f.write_str("holds a backslash"),
            UrlRule::Query => f.write_str("holds a query"),
            UrlRule::Fragment => f.write_str("holds a fragment"),
            UrlRule::EncodedHost => f.write_str("holds a percent escape in its host"),
            UrlRule::NotAUrl => f.write_str("is not an absolute URL"),
            UrlRule::Scheme => f.write_str("is not https"),
            UrlRule::PlainHttp => f.write_str("is plain http to a host that is not loopback"),
            UrlRule::Userinfo => f.write_str("holds a user name or password"),
            UrlRule::Escape => {
                f.write_str("holds a percent escape that is malformed or names no text")
            }
            UrlRule::EncodedDelimiter => {
                f.write_str("holds an encoded dot, slash, backslash or percent sign")
            }
            UrlRule::EmptySegment => f.write_str("holds an empty path segment"),
            UrlRule::DriveLetter => f.write_str("holds a path segment like a drive letter"),
            UrlRule::DotSegment => f.write_str("holds a dot segment with parameters"),
            UrlRule::OriginNotListed => {
                f.write_str("is on a host that is not in the list of approval URL prefixes")
            }
            UrlRule::NotUnderPrefix => f.write_str("is not under a listed approval URL prefix"),
            UrlRule::NoSession => f.write_str("names no session under the listed prefix"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::UrlRule::*;
    use super::*;

    /// What the table is admitted against.
    const PREFIXES: [&str; 9] = [
        "https://zimmer.tadasant.com/api/v1/elicitations/session/",
        "https://desk.example.net:8443/ask/",
        "http://127.0.0.1:8601/e/",
        "http://localhost:8601/e/",
        "http://[::1]:8601/e/",
        "https://whole.example/",
        "https://192.0.2.7/s/",
        "https://[2001:db8::7]/s/",
        "https://xn--bcher-kva.example/s/",
    ];

    /// A URL under the first prefix.
    macro_rules! z {
        ($rest:literal) => {
            concat!(
                "https://zimmer.tadasant.com/api/v1/elicitations/session/",
                $rest
            )
        };
    }

    /// Each text, and what is connected to or the rule that refuses it. One row stays one line.
    #[rustfmt::skip]
    const TABLE: &[(&str, Result<&str, UrlRule>)] = &[
        // As it should be.
        (z!("22867-abc"), Ok(z!("22867-abc"))),
        (z!("4711-q0Zk3pXw8vT1mB6sRj5LdYc2NhUe9aGf7oKi4tPxSzA"), Ok(z!("4711-q0Zk3pXw8vT1mB6sRj5LdYc2NhUe9aGf7oKi4tPxSzA"))),
        (z!("x"), Ok(z!("x"))),
        (z!("a.b"), Ok(z!("a.b"))),
        (z!("a..b"), Ok(z!("a..b"))),
        (z!("..."), Ok(z!("..."))),
        (z!(".hidden"), Ok(z!(".hidden"))),
        (z!("token.json"), Ok(z!("token.json"))),
        (z!("a/b/c"), Ok(z!("a/b/c"))),
        (z!("a@b"), Ok(z!("a@b"))),
        (z!("a:b"), Ok(z!("a:b"))),
        (z!("a!$&'()*+=~_-"), Ok(z!("a!$&'()*+=~_-"))),
        (z!("https://evil.example"), Err(EmptySegment)),
        (z!("ab:"), Ok(z!("ab:"))),
        (z!("1:"), Ok(z!("1:"))),
        (z!("a:/t"), Err(DriveLetter)),
        (z!("C:"), Err(DriveLetter)),
        (z!("C|/../t"), Err(DriveLetter)),
        (z!("c:/../../../t"), Err(DriveLetter)),
        (z!("c:/x/../..%2e"), Err(DriveLetter)),
        (z!("x/Z|/.%2E"), Err(DriveLetter)),
        (z!("https:evil"), Ok(z!("https:evil"))),
        ("https://desk.example.net:8443/ask/t", Ok("https://desk.example.net:8443/ask/t")),
        ("http://127.0.0.1:8601/e/t", Ok("http://127.0.0.1:8601/e/t")),
        ("http://localhost:8601/e/t", Ok("http://localhost:8601/e/t")),
        ("http://[::1]:8601/e/t", Ok("http://[::1]:8601/e/t")),
        ("https://whole.example/t", Ok("https://whole.example/t")),
        ("https://192.0.2.7/s/t", Ok("https://192.0.2.7/s/t")),
        ("https://[2001:db8::7]/s/t", Ok("https://[2001:db8::7]/s/t")),
        // One final slash.
        (z!("t/"), Ok(z!("t/"))),
        (z!("t/u/"), Ok(z!("t/u/"))),
        (z!("t//"), Err(EmptySegment)),
        // No session.
        (z!(""), Err(NoSession)),
        ("https://whole.example/", Err(NoSession)),
        ("https://whole.example", Err(NoSession)),
        (z!("."), Err(NoSession)),
        (z!("%2e"), Err(NoSession)),
        (z!("./"), Err(NoSession)),
        (z!("t/.."), Err(NoSession)),
        (z!("t/%2E%2e"), Err(NoSession)),
        (z!("t/../"), Err(NoSession)),
        ("https://zimmer.tadasant.com/api/v1/elicitations/session", Err(NotUnderPrefix)),
        // Dot segments, resolved by the parser.
        (z!("./t"), Ok(z!("t"))),
        (z!("t/."), Ok(z!("t/"))),
        (z!("a/../t"), Ok(z!("t"))),
        (z!("a/%2e%2e/t"), Ok(z!("t"))),
        (z!("../session/t"), Ok(z!("t"))),
        (z!("../t"), Err(NotUnderPrefix)),
        (z!("../../t"), Err(NotUnderPrefix)),
        (z!("../../../../../../t"), Err(NotUnderPrefix)),
        (z!("%2e%2e/t"), Err(NotUnderPrefix)),
        (z!("%2E%2E/t"), Err(NotUnderPrefix)),
        (z!("%2e%2E/t"), Err(NotUnderPrefix)),
        (z!("%2E%2e/t"), Err(NotUnderPrefix)),
        (z!(".%2e/t"), Err(NotUnderPrefix)),
        (z!(".%2E/t"), Err(NotUnderPrefix)),
        (z!("%2e./t"), Err(NotUnderPrefix)),
        (z!("%2E./t"), Err(NotUnderPrefix)),
        (z!("%2e/t"), Ok(z!("t"))),
        (z!("%2E/t"), Ok(z!("t"))),
        (z!("t/../../t"), Err(NotUnderPrefix)),
        (z!("t/%2e%2e/%2e%2e/sibling/"), Err(NotUnderPrefix)),
        (z!(".."), Err(NotUnderPrefix)),
        (z!("%2e%2e"), Err(NotUnderPrefix)),
        ("https://zimmer.tadasant.com/x/../api/v1/elicitations/session/t", Ok(z!("t"))),
        ("https://whole.example/../../t", Ok("https://whole.example/t")),
        // Encoded dots, slashes and backslashes that survive; and what decodes to them where it is decoded twice.
        (z!("t%2f"), Err(EncodedDelimiter)),
        (z!("t%2Fu"), Err(EncodedDelimiter)),
        (z!("..%2fadmin"), Err(EncodedDelimiter)),
        (z!("..%2Fadmin"), Err(EncodedDelimiter)),
        (z!("%2e%2e%2fadmin"), Err(EncodedDelimiter)),
        (z!("%2E%2E%2Fadmin"), Err(EncodedDelimiter)),
        (z!("%2f"), Err(EncodedDelimiter)),
        (z!("%5c"), Err(EncodedDelimiter)),
        (z!("..%5cadmin"), Err(EncodedDelimiter)),
        (z!("..%5Cadmin"), Err(EncodedDelimiter)),
        (z!("t%5Cu"), Err(EncodedDelimiter)),
        (z!("t%2ejson"), Err(EncodedDelimiter)),
        (z!("t%2Ejson"), Err(EncodedDelimiter)),
        (z!("%2e%2e%2e"), Err(EncodedDelimiter)),
        (z!("..%2e"), Err(EncodedDelimiter)),
        (z!("%2e%2e;/admin"), Err(EncodedDelimiter)),
        (z!("%252e%252e/admin"), Err(EncodedDelimiter)),
        (z!("%252e%252e%252fadmin"), Err(EncodedDelimiter)),
        (z!("..%252f"), Err(EncodedDelimiter)),
        (z!("%25%32%65"), Err(EncodedDelimiter)),
        (z!("100%25"), Err(EncodedDelimiter)),
        ("https://zimmer.tadasant.com/api%2fv1/elicitations/session/t", Err(EncodedDelimiter)),
        ("https://zimmer.tadasant.com%2fapi/v1/elicitations/session/t", Err(EncodedHost)),
        ("https://zimmer.tadasant.com%5capi/v1/elicitations/session/t", Err(EncodedHost)),
        // Other escapes.
        (z!("%61"), Ok(z!("%61"))),
        (z!("a%20b"), Ok(z!("a%20b"))),
        (z!("%C3%A9"), Ok(z!("%C3%A9"))),
        (z!("%3Fa%23b"), Ok(z!("%3Fa%23b"))),
        (z!("a\"<>`{}^|b"), Ok(z!("a%22%3C%3E%60%7B%7D^|b"))),
        (z!("[t]"), Ok(z!("[t]"))),
        (z!("t%00"), Err(Escape)),
        (z!("t%0d%0aX-A:b"), Err(Escape)),
        (z!("t%0A"), Err(Escape)),
        (z!("t%09"), Err(Escape)),
        (z!("t%7f"), Err(Escape)),
        (z!("t%c2%85"), Err(Escape)),
        (z!("%c0%ae%c0%ae"), Err(Escape)),
        (z!("%c0%af"), Err(Escape)),
        (z!("%e0%80%ae"), Err(Escape)),
        (z!("%ff"), Err(Escape)),
        (z!("%u002e"), Err(Escape)),
        (z!("%"), Err(Escape)),
        (z!("t%2"), Err(Escape)),
        (z!("t%zz"), Err(Escape)),
        (z!("%%32%65"), Err(Escape)),
        // Empty segments.
        (z!("/t"), Err(EmptySegment)),
        (z!("//t"), Err(EmptySegment)),
        (z!("a//b"), Err(EmptySegment)),
        (z!("a//"), Err(EmptySegment)),
        (z!("/"), Err(EmptySegment)),
        (z!("/../t"), Ok(z!("t"))),
        (z!("a//../t"), Ok(z!("a/t"))),
        ("https://zimmer.tadasant.com//api/v1/elicitations/session/t", Err(EmptySegment)),
        ("https://zimmer.tadasant.com/api/v1/elicitations//session/t", Err(EmptySegment)),
        ("https://whole.example//t", Err(EmptySegment)),
        ("https://whole.example//", Err(EmptySegment)),
        ("https://whole.example/.//t", Err(EmptySegment)),
        // Path parameters.
        (z!("t;v=1"), Ok(z!("t;v=1"))),
        (z!("t;"), Ok(z!("t;"))),
        (z!("..;/admin"), Err(DotSegment)),
        (z!("t/..;a=b/admin"), Err(DotSegment)),
        (z!(".;/t"), Err(DotSegment)),
        (z!("..%3b/admin"), Err(DotSegment)),
        (z!("..%3Ba"), Err(DotSegment)),
        (z!(";t"), Err(EmptySegment)),
        (z!("%3bt"), Err(EmptySegment)),
        // Bytes that are not text of a URL.
        ("", Err(Empty)),
        (" ", Err(Byte)),
        (" https://whole.example/t", Err(Byte)),
        ("https://whole.example/t ", Err(Byte)),
        ("\thttps://whole.example/t", Err(Byte)),
        ("https://whole.example/t\n", Err(Byte)),
        ("https://whole.example/t\r\n", Err(Byte)),
        ("https://whole.example/a\tb", Err(Byte)),
        ("https://whole.example/a\nb", Err(Byte)),
        ("https://whole.example/a\rb", Err(Byte)),
        ("ht\ntps://whole.example/t", Err(Byte)),
        ("https://whole\t.example/t", Err(Byte)),
        ("https://zimmer.tadasant.com/api/v1/elicitations/session/.\t./t", Err(Byte)),
        ("https://whole.example/a\0", Err(Byte)),
        ("https://whole.example/a\x01", Err(Byte)),
        ("https://whole.example/a\x1f", Err(Byte)),
        ("https://whole.example/a\x7f", Err(Byte)),
        ("https://whole.example/é", Err(Byte)),
        ("https://whole.example/\u{202e}t", Err(Byte)),
        ("https://whole.example/\u{2024}\u{2024}/t", Err(Byte)),
        ("https://whole\u{3002}example/t", Err(Byte)),
        ("\u{feff}https://whole.example/t", Err(Byte)),
        // More than one URL, or half of one.
        ("https://whole.example/a,https://whole.example/b", Err(Comma)),
        ("https://whole.example/a, https://whole.example/b", Err(Comma)),
        ("https://whole.example/a,b", Err(Comma)),
        (",https://whole.example/t", Err(Comma)),
        ("https://whole.example/t,", Err(Comma)),
        ("https://whole.example/t https://whole.example/u", Err(Byte)),
        ("https://whole.example/t%2Cu", Ok("https://whole.example/t%2Cu")),
        ("<https://whole.example/t>", Err(NotAUrl)),
        ("\"https://whole.example/t\"", Err(NotAUrl)),
        ("whole.example/t", Err(NotAUrl)),
        ("//whole.example/t", Err(NotAUrl)),
        ("/api/v1/elicitations/session/t", Err(NotAUrl)),
        ("https", Err(NotAUrl)),
        ("https:", Err(NotAUrl)),
        ("https://", Err(NotAUrl)),
        ("https:///", Err(NotAUrl)),
        ("://whole.example/t", Err(NotAUrl)),
        // Backslashes.
        ("https:\\\\whole.example\\t", Err(Backslash)),
        (z!("..\\t"), Err(Backslash)),
        ("https://whole.example\\t", Err(Backslash)),
        ("https://evil.example\\@whole.example/t", Err(Backslash)),
        ("https://whole.example\\@evil.example/t", Err(Backslash)),
        // Query and fragment.
        (z!("t?a=b"), Err(Query)),
        (z!("t?"), Err(Query)),
        ("https://whole.example?t", Err(Query)),
        ("https://evil.example/?https://whole.example/t", Err(Query)),
        (z!("t#f"), Err(Fragment)),
        (z!("t#"), Err(Fragment)),
        ("https://evil.example#https://whole.example/t", Err(Fragment)),
        (z!("t#a?b"), Err(Fragment)),
        // Schemes.
        ("http://whole.example/t", Err(PlainHttp)),
        ("http://zimmer.tadasant.com/api/v1/elicitations/session/t", Err(PlainHttp)),
        ("http://192.0.2.7/s/t", Err(PlainHttp)),
        ("http://[2001:db8::7]/s/t", Err(PlainHttp)),
        ("https://127.0.0.1:8601/e/t", Err(OriginNotListed)),
        ("https://localhost:8601/e/t", Err(OriginNotListed)),
        ("HTTPS://whole.example/t", Ok("https://whole.example/t")),
        ("HttpS://whole.example/t", Ok("https://whole.example/t")),
        ("ws://whole.example/t", Err(Scheme)),
        ("wss://whole.example/t", Err(Scheme)),
        ("ftp://whole.example/t", Err(Scheme)),
        ("file:///e/t", Err(Scheme)),
        ("file://whole.example/t", Err(Scheme)),
        ("file:///a/c:/..", Err(Scheme)),
        ("file:///w:/a:/..", Err(Scheme)),
        ("file:..", Err(Scheme)),
        ("h\u{131}ttps://whole.example/t", Err(Byte)),
        ("1https://whole.example/t", Err(NotAUrl)),
        ("+https://whole.example/t", Err(NotAUrl)),
        ("ht_tps://whole.example/t", Err(NotAUrl)),
        ("https%3A//whole.example/t", Err(NotAUrl)),
        ("gopher://whole.example/t", Err(Scheme)),
        ("javascript:alert(1)", Err(Scheme)),
        ("data:text/plain;hello", Err(Scheme)),
        ("blob:https://whole.example/t", Err(Scheme)),
        ("view-source:https://whole.example/t", Err(Scheme)),
        ("unix:/run/desk.sock", Err(Scheme)),
        ("whole.example:443/t", Err(Scheme)),
        ("localhost:8601/e/t", Err(Scheme)),
        ("httpss://whole.example/t", Err(Scheme)),
        // The parser's own lenience with slashes: the host that it reads is the host that is compared and connected to.
        ("https:whole.example/t", Ok("https://whole.example/t")),
        ("https:/whole.example/t", Ok("https://whole.example/t")),
        ("https:///whole.example/t", Ok("https://whole.example/t")),
        ("https:////whole.example/t", Ok("https://whole.example/t")),
        ("https:///evil.example/t", Err(OriginNotListed)),
        ("https:evil.example//whole.example/t", Err(EmptySegment)),
        // Userinfo.
        ("https://user@whole.example/t", Err(Userinfo)),
        ("https://user:pass@whole.example/t", Err(Userinfo)),
        ("https://:pass@whole.example/t", Err(Userinfo)),
        ("https://:@whole.example/t", Err(Userinfo)),
        ("https://@whole.example/t", Err(Userinfo)),
        ("https://@@whole.example/t", Err(Userinfo)),
        ("https:@whole.example/t", Err(Userinfo)),
        ("https:///@whole.example/t", Err(Userinfo)),
        ("https://whole.example@evil.example/t", Err(Userinfo)),
        ("https://whole.example:443@evil.example/t", Err(Userinfo)),
        ("https://whole.example%2f@evil.example/t", Err(Userinfo)),
        ("https://zimmer.tadasant.com@evil.example/api/v1/elicitations/session/t", Err(Userinfo)),
        ("https://evil.example@whole.example/t", Err(Userinfo)),
        ("http://127.0.0.1:8601@evil.example/e/t", Err(PlainHttp)),
        ("https://evil.example%40whole.example/t", Err(EncodedHost)),
        ("https://evil.example%23@whole.example/t", Err(Userinfo)),
        // Ports.
        ("https://whole.example:443/t", Ok("https://whole.example/t")),
        ("https://whole.example:0443/t", Ok("https://whole.example/t")),
        ("https://whole.example:/t", Ok("https://whole.example/t")),
        ("https://whole.example:80/t", Err(OriginNotListed)),
        ("https://whole.example:0/t", Err(OriginNotListed)),
        ("https://whole.example:8443/t", Err(OriginNotListed)),
        ("https://whole.example:65535/t", Err(OriginNotListed)),
        ("https://whole.example:65536/t", Err(NotAUrl)),
        ("https://whole.example:-1/t", Err(NotAUrl)),
        ("https://whole.example:+443/t", Err(NotAUrl)),
        ("https://whole.example:4a3/t", Err(NotAUrl)),
        ("https://whole.example:443:443/t", Err(NotAUrl)),
        ("https://whole.example:65979/t", Err(NotAUrl)),
        ("https://desk.example.net/ask/t", Err(OriginNotListed)),
        ("https://desk.example.net:443/ask/t", Err(OriginNotListed)),
        ("https://desk.example.net:08443/ask/t", Ok("https://desk.example.net:8443/ask/t")),
        ("http://127.0.0.1/e/t", Err(OriginNotListed)),
        ("http://127.0.0.1:8602/e/t", Err(OriginNotListed)),
        // Hosts.
        ("https://WHOLE.Example/t", Ok("https://whole.example/t")),
        ("https://whole.example./t", Err(OriginNotListed)),
        ("https://whole.example../t", Err(OriginNotListed)),
        ("https://.whole.example/t", Err(OriginNotListed)),
        ("https://whole..example/t", Err(OriginNotListed)),
        ("https://sub.whole.example/t", Err(OriginNotListed)),
        ("https://whole.example.evil.example/t", Err(OriginNotListed)),
        ("https://notwhole.example/t", Err(OriginNotListed)),
        ("https://whole.exampl/t", Err(OriginNotListed)),
        ("https://wh%6Fle.example/t", Err(EncodedHost)),
        ("https://whole%2eexample/t", Err(EncodedHost)),
        ("https://whole.example%00.evil.example/t", Err(EncodedHost)),
        ("https://whole.example%20/t", Err(EncodedHost)),
        ("https://whole.example%/t", Err(EncodedHost)),
        ("https://whole.example%3a443/t", Err(EncodedHost)),
        ("https://whole.example%0d%0a/t", Err(EncodedHost)),
        ("https://whole_.example/t", Err(OriginNotListed)),
        ("https://<whole>.example/t", Err(NotAUrl)),
        ("https://whole^.example/t", Err(NotAUrl)),
        ("https://whole|.example/t", Err(NotAUrl)),
        ("https://xn--bcher-kva.example/s/t", Ok("https://xn--bcher-kva.example/s/t")),
        ("https://XN--BCHER-KVA.example/s/t", Ok("https://xn--bcher-kva.example/s/t")),
        ("https://b%C3%BCcher.example/s/t", Err(EncodedHost)),
        ("https://xn--/s/t", Err(NotAUrl)),
        ("https://xn--a/s/t", Err(OriginNotListed)),
        ("https://xn--whole-.example/t", Err(NotAUrl)),
        ("https://xn--3ug/s/t", Err(NotAUrl)),
        ("https://a.XN--A-YGN.example:443/s/t", Err(NotAUrl)),
        ("https://user@xn--a-ygn.example/s/t", Err(NotAUrl)),
        ("https:xn--3ug./s/t", Err(NotAUrl)),
        ("https://whole.example/xn--3ug", Ok("https://whole.example/xn--3ug")),
        ("https://whole%E3%80%82example/t", Err(EncodedHost)),
        ("https://wh%C2%ADole.example/t", Err(EncodedHost)),
        ("https://%EF%BD%97hole.example/t", Err(EncodedHost)),
        ("https://A%C3%A9/t", Err(EncodedHost)),
        ("https://user%40@whole.example/t", Err(Userinfo)),
        ("file://A%C3%A9/t", Err(Scheme)),
        // IPv4 in its spellings: all one address after the parse.
        ("https://192.0.2.7./s/t", Ok("https://192.0.2.7/s/t")),
        ("https://3221225991/s/t", Ok("https://192.0.2.7/s/t")),
        ("https://0xC0000207/s/t", Ok("https://192.0.2.7/s/t")),
        ("https://030000001007/s/t", Ok("https://192.0.2.7/s/t")),
        ("https://0300.0.2.7/s/t", Ok("https://192.0.2.7/s/t")),
        ("https://192.519/s/t", Ok("https://192.0.2.7/s/t")),
        ("https://192.0.519/s/t", Ok("https://192.0.2.7/s/t")),
        ("https://0xc0.0x0.0x2.0x7/s/t", Ok("https://192.0.2.7/s/t")),
        ("https://192.0.2.8/s/t", Err(OriginNotListed)),
        ("https://192.0.2.256/s/t", Err(NotAUrl)),
        ("https://192.0.2.7.1/s/t", Err(NotAUrl)),
        ("https://4294967296/s/t", Err(NotAUrl)),
        ("https://0x/s/t", Err(OriginNotListed)),
        ("https://192.0.2.08/s/t", Err(NotAUrl)),
        ("https://[192.0.2.7]/s/t", Err(NotAUrl)),
        ("http://127.1:8601/e/t", Ok("http://127.0.0.1:8601/e/t")),
        ("http://2130706433:8601/e/t", Ok("http://127.0.0.1:8601/e/t")),
        ("http://0x7f.1:8601/e/t", Ok("http://127.0.0.1:8601/e/t")),
        ("http://0177.0.0.1:8601/e/t", Ok("http://127.0.0.1:8601/e/t")),
        ("http://127.0.0.2:8601/e/t", Err(OriginNotListed)),
        ("http://127.255.255.255:8601/e/t", Err(OriginNotListed)),
        ("http://128.0.0.1:8601/e/t", Err(PlainHttp)),
        ("http://126.255.255.255:8601/e/t", Err(PlainHttp)),
        ("http://0.0.0.0:8601/e/t", Err(PlainHttp)),
        ("http://0:8601/e/t", Err(PlainHttp)),
        ("http://169.254.169.254/e/t", Err(PlainHttp)),
        ("http://10.0.0.1:8601/e/t", Err(PlainHttp)),
        // IPv6.
        ("http://[0:0:0:0:0:0:0:1]:8601/e/t", Ok("http://[::1]:8601/e/t")),
        ("http://[0000:0000::0001]:8601/e/t", Ok("http://[::1]:8601/e/t")),
        ("http://[::0.0.0.1]:8601/e/t", Ok("http://[::1]:8601/e/t")),
        ("https://[2001:DB8:0::7]/s/t", Ok("https://[2001:db8::7]/s/t")),
        ("http://[::]:8601/e/t", Err(PlainHttp)),
        ("http://[::2]:8601/e/t", Err(PlainHttp)),
        ("http://[::ffff:127.0.0.1]:8601/e/t", Err(PlainHttp)),
        ("http://[::ffff:7f00:1]:8601/e/t", Err(PlainHttp)),
        ("http://[::127.0.0.1]:8601/e/t", Err(PlainHttp)),
        ("https://[::ffff:192.0.2.7]/s/t", Err(OriginNotListed)),
        ("https://[64:ff9b::192.0.2.7]/s/t", Err(OriginNotListed)),
        ("http://[::1%25eth0]:8601/e/t", Err(EncodedHost)),
        ("http://[::1%eth0]:8601/e/t", Err(EncodedHost)),
        ("http://[fe80::1%251]:8601/e/t", Err(EncodedHost)),
        ("http://[::1:8601/e/t", Err(NotAUrl)),
        ("http://::1:8601/e/t", Err(NotAUrl)),
        ("http://[::1]8601/e/t", Err(NotAUrl)),
        ("http://[]:8601/e/t", Err(NotAUrl)),
        ("http://[1::2::3]:8601/e/t", Err(NotAUrl)),
        ("http://[v1.a]:8601/e/t", Err(NotAUrl)),
        ("http://%5B::1%5D:8601/e/t", Err(EncodedHost)),
        // The name of this machine.
        ("http://LOCALHOST:8601/e/t", Ok("http://localhost:8601/e/t")),
        ("http://loc%61lhost:8601/e/t", Err(EncodedHost)),
        ("http://localhost.:8601/e/t", Err(PlainHttp)),
        ("http://a.localhost:8601/e/t", Err(PlainHttp)),
        ("http://localhost.evil.example:8601/e/t", Err(PlainHttp)),
        ("http://localhost.localdomain:8601/e/t", Err(PlainHttp)),
        ("http://ip6-localhost:8601/e/t", Err(PlainHttp)),
        ("http://127.0.0.1.nip.io:8601/e/t", Err(PlainHttp)),
        // Siblings of a prefix.
        ("https://zimmer.tadasant.com/api/v1/elicitations/sessions/t", Err(NotUnderPrefix)),
        ("https://zimmer.tadasant.com/api/v1/elicitations/session-x/t", Err(NotUnderPrefix)),
        ("https://zimmer.tadasant.com/api/v1/elicitations/session.x", Err(NotUnderPrefix)),
        ("https://zimmer.tadasant.com/api/v1/elicitations/session;/t", Err(NotUnderPrefix)),
        ("https://zimmer.tadasant.com/api/v1/elicitations/", Err(NotUnderPrefix)),
        ("https://zimmer.tadasant.com/api/v1/elicitations/t", Err(NotUnderPrefix)),
        ("https://zimmer.tadasant.com/API/v1/elicitations/session/t", Err(NotUnderPrefix)),
        ("https://zimmer.tadasant.com/api/v1/elicitations/Session/t", Err(NotUnderPrefix)),
        ("https://zimmer.tadasant.com/api/v1/elicitations/%73ession/t", Err(NotUnderPrefix)),
        ("https://zimmer.tadasant.com/x/api/v1/elicitations/session/t", Err(NotUnderPrefix)),
        ("https://zimmer.tadasant.com/", Err(NotUnderPrefix)),
        ("https://zimmer.tadasant.com", Err(NotUnderPrefix)),
        ("https://zimmer.tadasant.com/ask/t", Err(NotUnderPrefix)),
        ("https://desk.example.net:8443/asks/t", Err(NotUnderPrefix)),
        ("https://desk.example.net:8443/ask", Err(NotUnderPrefix)),
        ("https://evil.example/api/v1/elicitations/session/t", Err(OriginNotListed)),
        ("https://evil.example/https://zimmer.tadasant.com/api/v1/elicitations/session/t", Err(EmptySegment)),
    ];

    fn allowlist(prefixes: &[&str]) -> Result<Allowlist, Vec<(usize, PrefixFault)>> {
        Allowlist::parse(
            &prefixes
                .iter()
                .map(|prefix| prefix.to_string())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn every_row_of_the_table_is_admitted_or_refused_by_its_rule() {
        assert!(TABLE.len() >= 150, "{}", TABLE.len());
        let list = allowlist(&PREFIXES).unwrap();
        let mut wrong = String::new();
        for (raw, expected) in TABLE {
            let seen = list
                .admit(raw.as_bytes())
                .map(|url| url.url().to_string())
                .map_err(|refusal| refusal.rule());
            if seen.as_deref().map_err(|rule| *rule) != *expected {
                wrong.push_str(&format!("{raw:?}: {seen:?}, not {expected:?}\n"));
            }
        }
        assert!(wrong.is_empty(), "\n{wrong}");
    }

    #[test]
    fn what_is_admitted_is_admitted_again_as_it_was_written() {
        let list = allowlist(&PREFIXES).unwrap();
        for (_, expected) in TABLE {
            let Ok(normal) = expected else { continue };
            assert_eq!(
                list.admit(normal.as_bytes()).unwrap().url().as_str(),
                *normal
            );
        }
    }

    #[test]
    fn no_byte_outside_the_range_is_admitted_anywhere() {
        let list = allowlist(&PREFIXES).unwrap();
        let whole = b"https://whole.example/t";
        for byte in
            (0..=u8::MAX).filter(|byte| !(0x21..=0x7E).contains(byte) || b",\\?#".contains(byte))
        {
            for at in 0..=whole.len() {
                let mut raw = whole.to_vec();
                raw.insert(at, byte);
                assert!(list.admit(&raw).is_err(), "{byte:#x} at {at}");
            }
        }
    }

    #[test]
    fn the_length_is_bounded() {
        let list = allowlist(&PREFIXES).unwrap();
        let of_length =
            |length: usize| format!("https://whole.example/{}", "t".repeat(length - 22));
        assert!(list.admit(of_length(MAX_URL_BYTES).as_bytes()).is_ok());
        let refusal = list
            .admit(of_length(MAX_URL_BYTES + 1).as_bytes())
            .unwrap_err();
        assert_eq!((refusal.rule(), refusal.origin()), (TooLong, None));
        assert_eq!(
            list.admit(&vec![b'a'; 1 << 20]).unwrap_err().rule(),
            TooLong
        );
    }

    #[test]
    fn an_empty_list_admits_nothing() {
        let list = allowlist(&[]).unwrap();
        assert!(list.is_empty());
        assert_eq!(
            list.admit(b"https://whole.example/t").unwrap_err().rule(),
            NothingListed
        );
        assert!(!allowlist(&PREFIXES).unwrap().is_empty());
    }

    #[test]
    fn a_fault_in_a_prefix_names_its_entry() {
        use PrefixFault::*;
        let table: &[(&str, PrefixFault)] = &[
            ("", Url(Empty)),
            ("https://whole.example", NotNormalForm),
            ("https://whole.example/a", NoTrailingSlash),
            ("https://WHOLE.example/", NotNormalForm),
            ("HTTPS://whole.example/", NotNormalForm),
            ("https://whole.example:443/", NotNormalForm),
            ("https://whole.example:/", NotNormalForm),
            ("http://127.1/e/", NotNormalForm),
            ("http://[::0:1]/e/", NotNormalForm),
            ("https:/whole.example/", NotNormalForm),
            ("https://whole.example/a/../b/", NotNormalForm),
            ("https://whole.example/a/./", NotNormalForm),
            ("https://whole.example/%2e%2e/a/", NotNormalForm),
            ("https://whole.example/a\"b/", NotNormalForm),
            ("https://whole.example/a%2fb/", Url(EncodedDelimiter)),
            ("https://whole.example/a%zz/", Url(Escape)),
            ("https://whole.example//", Url(EmptySegment)),
            ("https://whole.example/a//b/", Url(EmptySegment)),
            ("https://whole.example/..;/", Url(DotSegment)),
            ("https://whole.example/?", Url(Query)),
            ("https://whole.example/a?b/", Url(Query)),
            ("https://whole.example/#", Url(Fragment)),
            ("https://whole.example/#a/", Url(Fragment)),
            ("https://user@whole.example/", Url(Userinfo)),
            ("https://@whole.example/", Url(Userinfo)),
            ("https://user:pass@whole.example/", Url(Userinfo)),
            ("http://whole.example/", Url(PlainHttp)),
            ("http://localhost./", Url(PlainHttp)),
            ("http://[::ffff:7f00:1]/", Url(PlainHttp)),
            ("ftp://whole.example/", Url(Scheme)),
            ("whole.example/", Url(NotAUrl)),
            ("*", Url(NotAUrl)),
            ("https://b\u{fc}cher.example/", Url(Byte)),
            (" https://whole.example/", Url(Byte)),
            ("https://whole.example/ ", Url(Byte)),
            ("https://whole.example/a,b/", Url(Comma)),
            ("https://whole.example\\", Url(Backslash)),
        ];
        for (text, fault) in table {
            assert_eq!(
                allowlist(&["https://a.example/s/", text]).unwrap_err(),
                [(1, *fault)],
                "{text:?}"
            );
        }
        let several = allowlist(&[
            "https://a.example/s",
            "https://a.example/s/",
            "http://a.example/",
        ])
        .unwrap_err();
        assert_eq!(several, [(0, NoTrailingSlash), (2, Url(PlainHttp))]);
        // `*` is a byte like any other: in a host it is that host, and matches nothing else.
        assert!(
            allowlist(&["https://*.example/s/"])
                .unwrap()
                .admit(b"https://a.example/s/t")
                .is_err()
        );
    }

    #[test]
    fn a_prefix_that_allows_a_whole_host_is_pointed_out() {
        assert_eq!(allowlist(&PREFIXES).unwrap().whole_host(), [5]);
        assert!(
            allowlist(&["https://a.example/s/"])
                .unwrap()
                .whole_host()
                .is_empty()
        );
    }

    #[test]
    fn a_narrower_list_says_whether_it_lists_what_another_admitted() {
        let url = allowlist(&PREFIXES)
            .unwrap()
            .admit(b"https://whole.example/a/t")
            .unwrap();
        let listed = |prefix: &str| allowlist(&[prefix]).unwrap().lists(&url);
        assert!(listed("https://whole.example/a/"));
        assert!(!listed("https://whole.example/b/"));
        assert!(!listed("https://whole.example/a/t/"));
        assert!(!allowlist(&[]).unwrap().lists(&url));
    }

    #[test]
    fn a_poll_goes_to_the_same_url_with_one_segment_appended() {
        let list = allowlist(&PREFIXES).unwrap();
        let id = RequestId::parse("srv-88").unwrap();
        for (_, expected) in TABLE {
            let Ok(normal) = expected else { continue };
            let url = list.admit(normal.as_bytes()).unwrap();
            let base = normal.strip_suffix('/').unwrap_or(normal);
            assert_eq!(url.poll_url(&id).as_str(), format!("{base}/srv-88"));
            assert!(list.admit(url.poll_url(&id).as_str().as_bytes()).is_ok());
        }
    }

    #[test]
    fn spellings_of_one_channel_have_one_key() {
        let list = allowlist(&PREFIXES).unwrap();
        let key = |raw: &str| list.admit(raw.as_bytes()).unwrap().same_channel_key();
        let first = key("https://whole.example/s/abc");
        assert_eq!(first.len(), 64);
        for same in [
            "https://whole.example/s/abc/",
            "https://whole.example/s/%61bc",
            "https://whole.example/s/a%62%63/",
            "https://WHOLE.example:443/x/../s/abc",
        ] {
            assert_eq!(key(same), first, "{same}");
        }
        for other in [
            "https://whole.example/s/abd",
            "https://whole.example/s/ABC",
            "https://whole.example/abc",
        ] {
            assert_ne!(key(other), first, "{other}");
        }
        assert_ne!(
            key("http://localhost:8601/e/t"),
            key("http://127.0.0.1:8601/e/t")
        );
    }

    #[test]
    fn nothing_printed_holds_more_than_the_origin() {
        let list = allowlist(&PREFIXES).unwrap();
        let url = list.admit(b"https://whole.example/SECRET").unwrap();
        assert_eq!(url.to_string(), "https://whole.example");
        assert_eq!(
            format!("{url:?} {url:#?}"),
            "ApprovalUrl(https://whole.example/..) ApprovalUrl(https://whole.example/..)"
        );
        for raw in [
            "https://SECRET@whole.example/SECRET",
            "https://SECRET:SECRET@whole.example/SECRET",
            "https://evil.example/SECRET",
            "https://desk.example.net:8443/SECRET",
            "https://whole.example/SECRET?SECRET",
            "https://whole.example/SECRET#SECRET",
            "https://whole.example/SECRET%2f",
            "https://whole.example/SECRET//SECRET",
            "http://whole.example/SECRET",
            "x-secret:SECRET",
            "https://whole.example:SECRET/",
            "SECRET",
        ] {
            let refusal = list.admit(raw.as_bytes()).unwrap_err();
            let printed = format!("{refusal} {refusal:?}");
            assert!(!printed.to_lowercase().contains("secret"), "{printed}");
        }
        let refusal = list
            .admit(b"https://user:SECRET@evil.example:8443/SECRET")
            .unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "the caller's approval URL (at https://evil.example:8443) holds a user name or password"
        );
        assert_eq!(refusal.origin(), Some("https://evil.example:8443"));
        let refusal = list
            .admit(b"https://whole.example/SECRET,https://whole.example/SECRET")
            .unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "the caller's approval URL holds a comma, so it is not exactly one URL"
        );
        assert_eq!(
            PrefixFault::Url(Userinfo).to_string(),
            "the prefix holds a user name or password"
        );
    }

    #[test]
    fn a_request_id_has_one_form() {
        let longest = "a".repeat(MAX_REQUEST_ID_BYTES);
        for text in [
            "a",
            "-",
            "_",
            "srv-88",
            "5b0d9a0e-2c1e-4a55-9f0b-0c5f6f7b1a21",
            "AZaz09_-",
            &longest,
        ] {
            assert_eq!(RequestId::parse(text).unwrap().as_str(), text);
        }
        let too_long = "a".repeat(MAX_REQUEST_ID_BYTES + 1);
        for text in [
            "", ".", "..", "a/b", "/", "a.b", "a b", "a%2f", "%", "a?b", "a#b", "a\\b", "é", "a\n",
            "\0", "a:b", &too_long,
        ] {
            assert_eq!(RequestId::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_request_id_of_ours_is_a_version_4_uuid() {
        assert_eq!(
            RequestId::from_random([0; 16]).as_str(),
            "00000000-0000-4000-8000-000000000000"
        );
        assert_eq!(
            RequestId::from_random([0xFF; 16]).as_str(),
            "ffffffff-ffff-4fff-bfff-ffffffffffff"
        );
        let counted = std::array::from_fn(|index| index as u8 * 0x11);
        assert_eq!(
            RequestId::from_random(counted).as_str(),
            "00112233-4455-4677-8899-aabbccddeeff"
        );
        assert_eq!(
            RequestId::parse(RequestId::from_random(counted).as_str()),
            Some(RequestId::from_random(counted))
        );
    }
}
