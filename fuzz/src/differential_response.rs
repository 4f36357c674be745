//! Replies, as others read them.

use std::collections::BTreeMap;

use countersign::http::head::{
    Framing, HeadLimits, Method, Parsed, ReplyFraming, ResponseHead, parse_response,
};
use http_types::StatusCode;

use crate::differential_body::{agrees, agrees_with_async_h1};
use crate::differential_request::{ASYNC_H1_HEAD_BYTES, MOST_FIELDS};
use crate::others::{Stop, async_h1, ours_of_reply, rfc9112, sized};
use crate::response_head::METHODS;

/// Fields that `async-h1` adds where a reply has none of their name.
const ASYNC_H1_ADDS: [&str; 2] = ["content-type", "date"];

/// Any bytes as the start of a connection on which a reply is due, read by us, by `httparse`, by RFC 9112 and by
/// `async-h1`; the first byte says to which method, modulo the number of [`METHODS`]:
///
/// - whatever head we accept, `httparse` and RFC 9112 accept, with the same end, status, fields and framing;
/// - so does `async-h1`, but for the few things that it is known to refuse or not to know;
/// - the body behind it has the same content and the same end for all;
/// - where we wait for more, no other has seen the end.
pub fn differential_response(input: &[u8]) {
    let Some((first, input)) = input.split_first() else {
        return;
    };
    let method = METHODS[usize::from(*first) % METHODS.len()];
    // It may be accepted by others and refused by us.
    if let Ok(parsed) = parse_response(input, &method, &HeadLimits::default()) {
        agrees_with_httparse(input, &parsed);
        agrees_with_rfc9112(input, method, &parsed);
    }
    reply_agrees_with_async_h1(&async_h1::askable(input), method);
}

/// We use `httparse` within a head whose end we found ourselves; here it finds the end itself.
fn agrees_with_httparse(input: &[u8], parsed: &Parsed<ResponseHead>) {
    let mut room = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut reply = httparse::Response::new(&mut room);
    let other = reply.parse(input);
    match parsed {
        Parsed::Partial => assert!(
            !matches!(other, Ok(httparse::Status::Complete(_))),
            "httparse has seen the end"
        ),
        Parsed::Complete { head, consumed } => {
            assert_eq!(other, Ok(httparse::Status::Complete(*consumed)));
            assert_eq!(reply.code, Some(head.status));
            // We keep no version. One of 1.0 carries one message.
            assert!(reply.version == Some(1) || (reply.version == Some(0) && !head.keep_alive));
            let fields = reply.headers.iter().map(|field| (field.name, field.value));
            assert!(head.headers.iter().eq(fields));
        }
    }
}

fn agrees_with_rfc9112(input: &[u8], method: Method, parsed: &Parsed<ResponseHead>) {
    let other = rfc9112::reply(input, method);
    match parsed {
        Parsed::Partial => assert!(other.is_err(), "rfc 9112 has the end: {other:?}"),
        Parsed::Complete { head, consumed } => {
            let other = other.expect("rfc 9112 refuses it");
            assert_eq!(
                (other.end, other.status, other.framing),
                (*consumed, head.status, head.framing)
            );
            // Section 9.3 lets a recipient ignore `keep-alive` in HTTP/1.0, and we do.
            assert_eq!(head.keep_alive, other.keep_alive && other.http11);
            let ours = head
                .headers
                .iter()
                .map(|(name, value)| (name.as_bytes(), value));
            assert!(ours.eq(other.fields));

            let body = &input[*consumed..];
            let other = match head.framing {
                ReplyFraming::None => sized(body, 0),
                ReplyFraming::Length(length) => sized(body, length),
                ReplyFraming::Chunked => rfc9112::chunks(body).map(|chunks| chunks.body),
                ReplyFraming::UntilClose => sized(body, body.len() as u64),
            };
            agrees(&ours_of_reply(body, head.framing), &other, "rfc 9112");
        }
    }
}

/// `input` comes from [`async_h1::askable`].
fn reply_agrees_with_async_h1(input: &[u8], method: Method) {
    let (head, consumed) = match parse_response(input, &method, &HeadLimits::default()) {
        Ok(Parsed::Complete { head, consumed }) => (head, consumed),
        Ok(Parsed::Partial) => {
            let other = async_h1::read_reply(input);
            assert!(other.is_err(), "async-h1 has seen the end: {other:?}");
            return;
        }
        // It may accept what we refuse.
        Err(_) => return,
    };
    let other = match async_h1::read_reply(input) {
        Ok(other) => other,
        Err(stop) => {
            assert_eq!(stop, Stop::Refused, "async-h1 waits for more of a head");
            assert!(
                async_h1_minds(input, method, consumed),
                "refused by async-h1"
            );
            return;
        }
    };
    assert_eq!((other.head, other.status), (consumed, head.status));
    let ours = by_name(&head);
    let mut fields = other.fields;
    fields.retain(|name, _| ours.contains_key(name) || !ASYNC_H1_ADDS.contains(&name.as_str()));
    assert_eq!(fields, ours);
    assert_eq!(other.framing, by_fields(&head));
    let body = &input[consumed..];
    match head.framing {
        // It looks at the fields alone, and for `chunked` in lower case.
        ReplyFraming::None => {}
        ReplyFraming::Chunked if other.framing == Framing::None => {}
        ReplyFraming::UntilClose => assert_eq!(other.framing, Framing::None),
        ReplyFraming::Length(length) => {
            assert_eq!(other.framing, Framing::Length(length));
            agrees(&ours_of_reply(body, head.framing), &other.body, "async-h1");
        }
        ReplyFraming::Chunked => {
            assert_eq!(other.framing, Framing::Chunked);
            agrees_with_async_h1(body, &other.body);
        }
    }
}

/// Where `async-h1` is stricter than we are: it takes HTTP/1.1 only, and knows a list of statuses.
fn async_h1_minds(input: &[u8], method: Method, consumed: usize) -> bool {
    let other = rfc9112::reply(input, method).expect("we accept it, so does the rfc");
    !other.http11 || consumed >= ASYNC_H1_HEAD_BYTES || StatusCode::try_from(other.status).is_err()
}

/// The values of each name, in lower case.
fn by_name(head: &ResponseHead) -> BTreeMap<String, Vec<String>> {
    let mut fields: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in head.headers.iter() {
        let value = std::str::from_utf8(value).expect("ascii");
        fields
            .entry(name.to_ascii_lowercase())
            .or_default()
            .push(value.to_owned());
    }
    fields
}

/// The framing that the fields alone have for `async-h1`.
fn by_fields(head: &ResponseHead) -> Framing {
    match (
        head.headers.get("transfer-encoding"),
        head.headers.get("content-length"),
    ) {
        (Some(b"chunked"), _) => Framing::Chunked,
        (_, Some(length)) => {
            let length = std::str::from_utf8(length).expect("ascii");
            Framing::Length(length.parse().expect("a number"))
        }
        (_, None) => Framing::None,
    }
}
