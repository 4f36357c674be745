//! Requests, as others read them.

use std::str::FromStr;

use countersign::http::head::{Framing, HeadLimits, Parsed, RequestHead, parse_request};
use http_types::Url;

use crate::differential_body::{agrees, agrees_with_async_h1, agrees_with_rfc9112};
use crate::others::{Stop, async_h1, ours, rfc9112, sized};

/// Room for the fields of a head, more than we accept.
pub const MOST_FIELDS: usize = 256;

/// `async-h1` refuses a head of so many bytes.
pub const ASYNC_H1_HEAD_BYTES: usize = 8192;

/// Any bytes as the start of a connection, read by us, by `httparse`, by RFC 9112 and by `async-h1`:
///
/// - whatever head we accept, `httparse` and RFC 9112 accept, with the same end, first line, fields and framing;
/// - so does `async-h1`, but for the few things that it is known to refuse;
/// - the body behind it has the same content and the same end for all;
/// - where we wait for more, no other has seen the end.
pub fn differential_request(input: &[u8]) {
    let parsed = parse_request(input, &HeadLimits::default());
    agrees_with_httparse(input, parsed.as_ref().ok());
    if let Ok(parsed) = &parsed {
        head_agrees_with_rfc9112(input, parsed);
    }
    if let Ok(Parsed::Complete { head, consumed }) = &parsed {
        let body = &input[*consumed..];
        match head.framing {
            Framing::None => agrees(&ours(body, head.framing), &sized(body, 0), "no body"),
            Framing::Length(length) => {
                agrees(&ours(body, head.framing), &sized(body, length), "a length");
            }
            Framing::Chunked => agrees_with_rfc9112(body),
        }
    }
    request_agrees_with_async_h1(&async_h1::askable(input));
}

/// We use `httparse` within a head whose end we found ourselves; here it finds the end itself.
fn agrees_with_httparse(input: &[u8], parsed: Option<&Parsed<RequestHead>>) {
    let mut room = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut request = httparse::Request::new(&mut room);
    let other = request.parse(input);
    match parsed {
        None => {}
        Some(Parsed::Partial) => assert!(
            !matches!(other, Ok(httparse::Status::Complete(_))),
            "httparse has seen the end"
        ),
        Some(Parsed::Complete { head, consumed }) => {
            assert_eq!(other, Ok(httparse::Status::Complete(*consumed)));
            assert_eq!(request.version, Some(u8::from(head.chunks)));
            if let Some(name) = head.method.name() {
                assert_eq!(request.method, Some(name));
            }
            let fields = request
                .headers
                .iter()
                .map(|field| (field.name, field.value));
            assert!(head.headers.iter().eq(fields));
        }
    }
}

fn head_agrees_with_rfc9112(input: &[u8], parsed: &Parsed<RequestHead>) {
    let other = rfc9112::head(input);
    match parsed {
        Parsed::Partial => assert!(other.is_err(), "rfc 9112 has the end: {other:?}"),
        Parsed::Complete { head, consumed } => {
            let other = other.expect("rfc 9112 refuses it");
            assert_eq!(
                (other.end, other.framing, other.http11),
                (*consumed, head.framing, head.chunks)
            );
            // Section 9.3 lets a recipient ignore `keep-alive` in HTTP/1.0, and we do.
            assert_eq!(head.keep_alive, other.keep_alive && other.http11);
            if let Some(name) = head.method.name() {
                assert_eq!(other.method, name.as_bytes());
            }
            // An absolute target without a path gets one.
            let target = head.target.as_bytes();
            assert!(
                other.target.ends_with(target)
                    || target
                        .strip_prefix(b"/")
                        .is_some_and(|rest| other.target.ends_with(rest))
            );
            let ours = head
                .headers
                .iter()
                .map(|(name, value)| (name.as_bytes(), value));
            assert!(ours.eq(other.fields));
        }
    }
}

/// `input` comes from [`async_h1::askable`].
fn request_agrees_with_async_h1(input: &[u8]) {
    let (head, consumed) = match parse_request(input, &HeadLimits::default()) {
        Ok(Parsed::Complete { head, consumed }) => (head, consumed),
        Ok(Parsed::Partial) => {
            let other = async_h1::read(input);
            assert!(other.is_err(), "async-h1 has seen the end: {other:?}");
            return;
        }
        // It may accept what we refuse.
        Err(_) => return,
    };
    let other = match async_h1::read(input) {
        Ok(other) => other,
        Err(stop) => {
            assert_eq!(stop, Stop::Refused, "async-h1 waits for more of a head");
            assert!(async_h1_minds(input, &head), "refused by async-h1");
            return;
        }
    };
    assert_eq!((other.head, other.framing), (consumed, head.framing));
    let body = &input[consumed..];
    match head.framing {
        Framing::Chunked => agrees_with_async_h1(body, &other.body),
        Framing::None | Framing::Length(_) => {
            agrees(&ours(body, head.framing), &other.body, "async-h1");
        }
    }
}

/// Where `async-h1` is stricter than we are.
fn async_h1_minds(input: &[u8], head: &RequestHead) -> bool {
    let other = rfc9112::head(input).expect("we accept it, so does the rfc");
    let text = |bytes| std::str::from_utf8(bytes).expect("ascii");
    let (method, target) = (text(other.method), text(other.target));
    // It serves HTTP/1.1 only, and counts empty lines before the head as part of it.
    !head.chunks
        || other.end >= ASYNC_H1_HEAD_BYTES
        // It knows a list of methods. RFC 9110 section 9.1 would have 501 for others, which is not a head's fault.
        || http_types::Method::from_str(method).is_err()
        // It takes no `*`, and schemes in lower case only, which RFC 3986 section 3.1 has no difference in.
        || !(method == "CONNECT"
            || ["/", "http://", "https://"].iter().any(|start| target.starts_with(start)))
        // The host becomes a part of a URL, which is read as WHATWG has it: a name must not look like a bad IPv4
        // address (`256.1`).
        || Url::parse(&format!("http://{}/", head.host)).is_err()
}
