//! `async-h1`'s server and client, driven from memory.
//!
//! It gets one byte for each read and is polled by hand, so that what it has read when it is done is where it takes
//! the message to end. Given more at once it would refuse a chunked body that anything follows, and wait without a
//! waker for trailers that are not there yet.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use countersign::http::head::Framing;
use futures_io::{AsyncRead, AsyncWrite};
use http_types::headers::HeaderValues;

use super::{Body, Reading, Stop};

/// The head of a request that was accepted, and what became of its body.
#[derive(Debug)]
pub struct Request {
    /// Bytes of the head.
    pub head: usize,
    /// How the body ends.
    pub framing: Framing,
    /// The body behind it.
    pub body: Reading<Body>,
}

/// The head of a reply that was accepted, and what became of its body.
#[derive(Debug)]
pub struct Reply {
    /// Bytes of the head.
    pub head: usize,
    /// The status.
    pub status: u16,
    /// The values of each name, which is in lower case. Of `date` and `content-type` it makes up those that are not
    /// there.
    pub fields: BTreeMap<String, Vec<String>>,
    /// How the fields frame a body: it knows neither replies without one nor those that end with their connection.
    pub framing: Framing,
    /// The body behind it.
    pub body: Reading<Body>,
}

/// `input` as it can be asked about, of the same length and, to us, of the same framing:
///
/// - `http-types` panics at a field value or trailer that is not ASCII. A brace is legal and illegal in the same
///   places as those bytes are: in values and quotes, and not in names, sizes and targets.
/// - At `100-continue`, written just so, `async-h1` starts threads.
/// - In debug builds its parser of URLs panics at Punycode with a right-to-left mark in it. An underscore is legal and
///   illegal in the same places as a hyphen is.
pub fn askable(input: &[u8]) -> Vec<u8> {
    let mut asked: Vec<u8> = input
        .iter()
        .map(|&byte| if byte.is_ascii() { byte } else { b'{' })
        .collect();
    replace(&mut asked, |part| part == b"100-continue", b"100-Continue");
    replace(
        &mut asked,
        |part| part.eq_ignore_ascii_case(b"xn--"),
        b"xn-_",
    );
    asked
}

/// Puts `new` in the place of every part of its length that is meant.
fn replace(text: &mut [u8], is_meant: impl Fn(&[u8]) -> bool, new: &[u8]) {
    let mut at = 0;
    while let Some(found) = text[at..].windows(new.len()).position(&is_meant) {
        at += found;
        text[at..at + new.len()].copy_from_slice(new);
    }
}

/// Reads a request and its body. `input` comes from [`askable`].
pub fn read(input: &[u8]) -> Reading<Request> {
    let wire = Wire::new(input);
    let mut decoding = pin!(async_h1::server::decode(wire.clone()));
    let (request, mut reader) = match wire.drive(|cx| decoding.as_mut().poll(cx))? {
        Ok(Some(decoded)) => decoded,
        Ok(None) => return Err(Stop::More),
        Err(_) => return Err(wire.stop()),
    };
    let head = wire.state(|state| state.read);
    // The type of the reader has no public name.
    let framing = match format!("{reader:?}").as_str() {
        "BodyReader::None" => Framing::None,
        "BodyReader::Chunked" => Framing::Chunked,
        _ => Framing::Length(request.len().expect("a length") as u64),
    };
    let body = wire.body(&mut reader, head);
    // The receiver of the trailers is in it.
    drop(request);
    Ok(Request {
        head,
        framing,
        body,
    })
}

/// Reads a reply and its body. `input` comes from [`askable`].
pub fn read_reply(input: &[u8]) -> Reading<Reply> {
    let wire = Wire::new(input);
    let mut decoding = pin!(async_h1::client::decode(wire.clone()));
    let Ok(mut reply) = wire.drive(|cx| decoding.as_mut().poll(cx))? else {
        return Err(wire.stop());
    };
    let head = wire.state(|state| state.read);
    let texts = |values: &HeaderValues| {
        values
            .iter()
            .map(|value| value.as_str().to_owned())
            .collect()
    };
    Ok(Reply {
        head,
        status: reply.status().into(),
        fields: reply
            .iter()
            .map(|(name, values)| (name.as_str().to_owned(), texts(values)))
            .collect(),
        framing: match (reply.len(), reply.header("content-length")) {
            (None, _) => Framing::Chunked,
            (Some(length), Some(_)) => Framing::Length(length as u64),
            // It has an empty body then.
            (Some(_), None) => Framing::None,
        },
        body: wire.body(&mut reply, head),
    })
}

/// A connection on which the input comes in and then the end.
#[derive(Clone)]
struct Wire(Arc<Mutex<State>>);

struct State {
    input: Vec<u8>,
    read: usize,
    /// Whether the end was seen.
    closed: bool,
}

impl Wire {
    fn new(input: &[u8]) -> Self {
        Self(Arc::new(Mutex::new(State {
            input: input.to_vec(),
            read: 0,
            closed: false,
        })))
    }

    /// Reads a body to its end, behind a head of so many bytes.
    fn body(&self, reader: &mut (impl AsyncRead + Unpin), head: usize) -> Reading<Body> {
        let mut content = Vec::new();
        let mut piece = [0; 64];
        loop {
            match self.drive(|cx| Pin::new(&mut *reader).poll_read(cx, &mut piece))? {
                // It takes a body that the close cut short for whole: one with a length, and a last chunk with no
                // empty line behind it.
                Ok(0) if self.state(|state| state.closed) => return Err(Stop::More),
                Ok(0) => {
                    return Ok(Body {
                        content,
                        end: self.state(|state| state.read) - head,
                    });
                }
                Ok(more) => content.extend_from_slice(&piece[..more]),
                Err(_) => return Err(self.stop()),
            }
        }
    }

    fn state<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Why there is no more, behind an error.
    fn stop(&self) -> Stop {
        if self.state(|state| state.closed) {
            Stop::More
        } else {
            Stop::Refused
        }
    }

    /// Polls for as long as that makes it read.
    fn drive<T>(&self, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Reading<T> {
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            let before = self.state(|state| (state.read, state.closed));
            if let Poll::Ready(done) = poll(&mut cx) {
                return Ok(done);
            }
            assert_ne!(
                before,
                self.state(|state| (state.read, state.closed)),
                "async-h1 waits for nothing"
            );
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<std::io::Result<usize>> {
        Poll::Ready(Ok(self.state(|state| {
            let (Some(room), Some(&byte)) = (buffer.first_mut(), state.input.get(state.read))
            else {
                state.closed |= !buffer.is_empty();
                return 0;
            };
            *room = byte;
            state.read += 1;
            1
        })))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(fields: &str, body: &str) -> Reading<Request> {
        read(format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n{body}").as_bytes())
    }

    fn whole(content: &str, end: usize) -> Reading<Body> {
        let content = content.as_bytes().to_vec();
        Ok(Body { content, end })
    }

    /// What the comparisons rest on: that it accepts what is plain, and says where it ends.
    #[test]
    fn plain_requests_are_read_to_their_end_and_no_further() {
        let request = post("Content-Length: 2\r\n", "hiGET").expect("a head");
        assert_eq!((request.head, request.framing), (47, Framing::Length(2)));
        assert_eq!(request.body, whole("hi", 2));
        let request = post("", "GET").expect("a head");
        assert_eq!((request.head, request.framing), (28, Framing::None));
        assert_eq!(request.body, whole("", 0));
        let chunked = "Transfer-Encoding: chunked\r\n";
        let request = post(chunked, "2\r\nhi\r\n0\r\nA: b\r\n\r\nGET").expect("a head");
        assert_eq!((request.head, request.framing), (56, Framing::Chunked));
        assert_eq!(request.body, whole("hi", 18));
        assert_eq!(
            read(b"POST / HTTP/1.1\r\nHost: h\r\n").err(),
            Some(Stop::More)
        );
    }

    #[test]
    fn plain_replies_are_read_to_their_end_and_no_further() {
        let reply =
            read_reply(b"HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 2\r\na: c\r\n\r\nhiHTTP")
                .expect("a head");
        assert_eq!((reply.head, reply.status), (50, 200));
        assert_eq!(reply.framing, Framing::Length(2));
        assert_eq!(reply.body, whole("hi", 2));
        assert_eq!(reply.fields["a"], ["b", "c"]);
        let names: Vec<_> = reply.fields.keys().collect();
        assert_eq!(names, ["a", "content-length", "content-type", "date"]);
        let reply = read_reply(
            b"HTTP/1.1 404\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nA: b\r\n\r\nHTTP",
        )
        .expect("a head");
        assert_eq!((reply.status, reply.framing), (404, Framing::Chunked));
        assert_eq!(reply.body, whole("hi", 18));
        let cut = read_reply(b"HTTP/1.1 200 OK\r\nA: b\r\n");
        assert_eq!(cut.err(), Some(Stop::More));
    }

    /// Each is refused by it and accepted by us: the list that `differential_response` excuses.
    #[test]
    fn what_replies_it_is_known_to_refuse_it_refuses() {
        for head in [
            "HTTP/1.0 200 OK\r\n\r\n",
            "HTTP/1.1 299 Fine\r\n\r\n",
            &format!("HTTP/1.1 200 OK\r\nA:{}\r\n\r\n", "b".repeat(8192)),
        ] {
            let read = read_reply(head.as_bytes());
            assert_eq!(read.err(), Some(Stop::Refused), "{head}");
        }
    }

    /// Where it knows less of framing than the RFC, which `differential_response` leaves out.
    #[test]
    fn what_it_does_not_know_of_replies() {
        let framing = |head: &str| {
            let head = format!("HTTP/1.1 {head}\r\n\r\n");
            read_reply(head.as_bytes()).expect("a head").framing
        };
        let rows = [
            ("200 OK", Framing::None),
            ("304 Not Modified\r\nContent-Length: 5", Framing::Length(5)),
            ("200 OK\r\nTransfer-Encoding: Chunked", Framing::None),
        ];
        for (head, expected) in rows {
            assert_eq!(framing(head), expected, "{head}");
        }
    }

    /// Each is refused by it and accepted by us: the list that `differential_body` and `differential_request` excuse.
    #[test]
    fn what_it_is_known_to_refuse_it_refuses() {
        let chunked = "Transfer-Encoding: chunked\r\n";
        let trailers = |count: usize| format!("0\r\n{}\r\n", "a:\r\n".repeat(count));
        for (body, refused) in [
            ("1;a\r\nx\r\n0\r\n\r\n".to_owned(), true),
            (trailers(16), false),
            (trailers(17), true),
            (format!("0\r\na:{}\r\n\r\n", "b".repeat(8192 - 6)), false),
            (format!("0\r\na:{}\r\n\r\n", "b".repeat(8192 - 5)), true),
        ] {
            let read = post(chunked, &body).expect("a head").body;
            assert_eq!(read.err(), refused.then_some(Stop::Refused));
        }
        for head in [
            "GET / HTTP/1.0\r\nHost: h\r\n\r\n",
            &format!(
                "GET / HTTP/1.1\r\nHost: h\r\nA:{}\r\n\r\n",
                "b".repeat(8192)
            ),
            "BREW / HTTP/1.1\r\nHost: h\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
            "GET HTTP://h/ HTTP/1.1\r\nHost: h\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: 256.1\r\n\r\n",
        ] {
            assert_eq!(read(head.as_bytes()).err(), Some(Stop::Refused), "{head}");
        }
    }

    /// Where it is lenient and we refuse or wait, it is wrong, and not to be followed.
    #[test]
    fn where_it_is_lenient() {
        let chunked = "Transfer-Encoding: chunked\r\n";
        let request = post(chunked, "\r\n\r\n").expect("a head");
        assert_eq!(request.body, whole("", 4), "no size at all");
        let request = post("Transfer-Encoding: gzip\r\n", "").expect("a head");
        assert_eq!(request.framing, Framing::None, "a coding it does not know");
        let request = post("Transfer-Encoding: gzip, chunked\r\n", "").expect("a head");
        assert_eq!(request.framing, Framing::None, "a list of codings");
        let lengths = "Content-Length: 1\r\nContent-Length: +2\r\n";
        let request = post(lengths, "").expect("a head");
        assert_eq!(
            request.framing,
            Framing::Length(2),
            "the last of two lengths, signed"
        );
        // Taken for whole by it; the driver knows that the connection ended first.
        let request = post("Content-Length: 2\r\n", "h").expect("a head");
        assert_eq!(request.body.err(), Some(Stop::More));
        let request = post(chunked, "0\r\n").expect("a head");
        assert_eq!(request.body.err(), Some(Stop::More));
    }

    #[test]
    fn what_is_asked_has_its_length() {
        assert_eq!(
            askable(b"a\xe9\xff100-continue100-continue"),
            b"a{{100-Continue100-Continue"
        );
        assert_eq!(askable(b"100-continu"), b"100-continu");
        assert_eq!(askable(b"xn--3ug.XN---xN-"), b"xn-_3ug.xn-_-xN-");
    }
}
