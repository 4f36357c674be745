//! A reader of our own making that shares nothing with the one under test: lines and splits, RFC 9112 as written, and
//! where it leaves a choice the lenient one that `hyper` takes. It has no bounds, which decide nothing about framing.
//!
//! Lenient, with `hyper`: any number of empty lines before a request; codings before a last `chunked`; Content-Length
//! beside Transfer-Encoding, which counts for nothing (section 6.3 rule 3), and several times the same; blanks behind
//! a chunk size; anything in an extension that does not end its line; any number of digits, in sizes and lengths; a
//! status line that ends with its status; and any status of three digits.
//! Stricter than `hyper`, with the RFC: no line feed without its carriage return, one Host in HTTP/1.1 (section 3.2),
//! no control characters in values (RFC 9110 section 5.5), and a `close` is not taken back by a later `keep-alive`.

use countersign::http::head::{Framing, Method, ReplyFraming};

use super::{Body, Reading, Stop};

/// The head of a request.
#[derive(Debug)]
pub struct Head<'i> {
    /// Bytes of it, empty lines before it included.
    pub end: usize,
    /// The method.
    pub method: &'i [u8],
    /// The target, in whatever form.
    pub target: &'i [u8],
    /// Whether it is HTTP/1.1, and not 1.0.
    pub http11: bool,
    /// The names and values of the fields.
    pub fields: Vec<(&'i [u8], &'i [u8])>,
    /// How the body ends.
    pub framing: Framing,
    /// Whether another request may follow.
    pub keep_alive: bool,
}

/// Reads the head of a request at the start of `input`.
pub fn head(input: &[u8]) -> Reading<Head<'_>> {
    let mut rest = input;
    while let Some(behind) = rest.strip_prefix(b"\r\n") {
        rest = behind;
    }
    let (start_line, lines) = lines(&mut rest)?;

    // Section 3: method SP request-target SP HTTP-version.
    let parts: Vec<&[u8]> = start_line.split(|&byte| byte == b' ').collect();
    let [method, target, version] = parts[..] else {
        return Err(Stop::Refused);
    };
    let http11 = match version {
        b"HTTP/1.0" => false,
        b"HTTP/1.1" => true,
        _ => return Err(Stop::Refused),
    };
    if !is_token(method) || target.is_empty() || !target.iter().all(u8::is_ascii_graphic) {
        return Err(Stop::Refused);
    }
    let fields: Vec<_> = lines.into_iter().map(field).collect::<Reading<_>>()?;
    if http11 && values(&fields, "host").count() != 1 {
        return Err(Stop::Refused);
    }

    Ok(Head {
        end: input.len() - rest.len(),
        method,
        target,
        http11,
        framing: framing(&fields, http11)?,
        keep_alive: persists(&fields, http11),
        fields,
    })
}

/// The head of a reply.
#[derive(Debug)]
pub struct Reply<'i> {
    /// Bytes of it.
    pub end: usize,
    /// The status.
    pub status: u16,
    /// Whether it is HTTP/1.1, and not 1.0.
    pub http11: bool,
    /// The names and values of the fields.
    pub fields: Vec<(&'i [u8], &'i [u8])>,
    /// How the body ends.
    pub framing: ReplyFraming,
    /// Whether another reply may follow.
    pub keep_alive: bool,
}

/// Reads the head of a reply to a request of `method` at the start of `input`.
pub fn reply(input: &[u8], method: Method) -> Reading<Reply<'_>> {
    let mut rest = input;
    let (start_line, lines) = lines(&mut rest)?;
    // Section 4: HTTP-version SP status-code SP [ reason-phrase ].
    let mut parts = start_line.splitn(3, |&byte| byte == b' ');
    let http11 = match parts.next() {
        Some(b"HTTP/1.0") => false,
        Some(b"HTTP/1.1") => true,
        _ => return Err(Stop::Refused),
    };
    let status = match parts.next() {
        Some(digits @ [_, _, _]) => number(digits, 10)?,
        _ => return Err(Stop::Refused),
    };
    let status = u16::try_from(status).map_err(|_| Stop::Refused)?;
    if !parts.next().is_none_or(is_text) {
        return Err(Stop::Refused);
    }
    let fields: Vec<_> = lines.into_iter().map(field).collect::<Reading<_>>()?;
    let framing = reply_framing(&fields, http11, status, method)?;
    Ok(Reply {
        end: input.len() - rest.len(),
        status,
        http11,
        framing,
        keep_alive: persists(&fields, http11) && framing != ReplyFraming::UntilClose,
        fields,
    })
}

/// Section 9.3.
fn persists(fields: &[(&[u8], &[u8])], http11: bool) -> bool {
    let option = |name: &[u8]| {
        values(fields, "connection")
            .flat_map(|value| value.split(|&byte| byte == b','))
            .any(|option| option.trim_ascii().eq_ignore_ascii_case(name))
    };
    !option(b"close") && (http11 || option(b"keep-alive"))
}

/// Section 6.3, what is said of replies.
fn reply_framing(
    fields: &[(&[u8], &[u8])],
    http11: bool,
    status: u16,
    method: Method,
) -> Reading<ReplyFraming> {
    // Rule 1.
    if matches!(status, 100..=199 | 204 | 304) || method == Method::Head {
        return Ok(ReplyFraming::None);
    }
    // Rule 2: a tunnel, which is no reply to end.
    if matches!(status, 200..=299) && method == Method::Connect {
        return Err(Stop::Refused);
    }
    match framing(fields, http11) {
        Ok(Framing::None) => Ok(ReplyFraming::UntilClose),
        Ok(Framing::Length(length)) => Ok(ReplyFraming::Length(length)),
        Ok(Framing::Chunked) => Ok(ReplyFraming::Chunked),
        // Rule 4: a last coding other than chunked ends with the connection.
        Err(_) if http11 && values(fields, "transfer-encoding").next().is_some() => {
            Ok(ReplyFraming::UntilClose)
        }
        Err(stop) => Err(stop),
    }
}

/// Section 6.3, what is said of requests.
fn framing(fields: &[(&[u8], &[u8])], http11: bool) -> Reading<Framing> {
    if let Some(last) = values(fields, "transfer-encoding").last() {
        let last = last.rsplit(|&byte| byte == b',').next().unwrap_or_default();
        let chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
        return if chunked && http11 {
            Ok(Framing::Chunked)
        } else {
            Err(Stop::Refused)
        };
    }
    let lengths: Vec<u64> = values(fields, "content-length")
        .map(|value| number(value, 10))
        .collect::<Reading<_>>()?;
    match lengths.first() {
        None => Ok(Framing::None),
        Some(first) if lengths.iter().all(|length| length == first) => Ok(Framing::Length(*first)),
        Some(_) => Err(Stop::Refused),
    }
}

/// A chunked body, and what other readers could mind about it.
#[derive(Debug)]
pub struct Chunks {
    /// The body.
    pub body: Body,
    /// Whether a chunk has an extension.
    pub extensions: bool,
    /// How many trailers there are.
    pub trailers: usize,
    /// Bytes of the trailers, their last empty line included.
    pub trailer_bytes: usize,
}

/// Reads the chunked body at the start of `input` (section 7.1).
pub fn chunks(input: &[u8]) -> Reading<Chunks> {
    let mut rest = input;
    let mut content = Vec::new();
    let mut extensions = false;
    loop {
        let line = line(&mut rest)?;
        let digits = line.split(|&byte| byte == b';').next().unwrap_or_default();
        extensions |= digits.len() != line.len();
        let blanks = digits
            .iter()
            .rev()
            .take_while(|&&byte| matches!(byte, b' ' | b'\t'));
        let digits = &digits[..digits.len() - blanks.count()];
        let size = number(digits, 16)?;
        if size == 0 {
            break;
        }
        let size = usize::try_from(size).map_err(|_| Stop::More)?;
        let (data, behind) = rest.split_at_checked(size).ok_or(Stop::More)?;
        content.extend_from_slice(data);
        rest = match behind {
            [b'\r', b'\n', behind @ ..] => behind,
            [] | [b'\r'] => return Err(Stop::More),
            _ => return Err(Stop::Refused),
        };
    }
    // Section 7.1.2.
    let before = rest.len();
    let mut trailers = 0;
    loop {
        match line(&mut rest)? {
            [] => break,
            line => field(line)?,
        };
        trailers += 1;
    }
    Ok(Chunks {
        body: Body {
            content,
            end: input.len() - rest.len(),
        },
        extensions,
        trailers,
        trailer_bytes: before - rest.len(),
    })
}

/// Takes a whole head off `rest`: its first line, and the lines of its fields.
fn lines<'i>(rest: &mut &'i [u8]) -> Reading<(&'i [u8], Vec<&'i [u8]>)> {
    let first = line(rest)?;
    let mut lines = Vec::new();
    loop {
        match line(rest)? {
            [] => return Ok((first, lines)),
            line => lines.push(line),
        }
    }
}

/// Takes one line off `rest`. A CR without its LF, or an LF without its CR, is in none (section 2.2).
fn line<'i>(rest: &mut &'i [u8]) -> Reading<&'i [u8]> {
    let end = rest
        .iter()
        .position(|byte| matches!(byte, b'\r' | b'\n'))
        .ok_or(Stop::More)?;
    let (line, behind) = rest.split_at(end);
    match behind {
        [b'\r', b'\n', behind @ ..] => {
            *rest = behind;
            Ok(line)
        }
        [b'\r'] => Err(Stop::More),
        _ => Err(Stop::Refused),
    }
}

/// Section 5: a name, a colon right behind it, and a value. A line that is folded has no name.
fn field(line: &[u8]) -> Reading<(&[u8], &[u8])> {
    let colon = line.iter().position(|&byte| byte == b':');
    let (name, value) = line.split_at(colon.ok_or(Stop::Refused)?);
    let mut value = value.get(1..).unwrap_or_default();
    while let [b' ' | b'\t', behind @ ..] = value {
        value = behind;
    }
    while let [before @ .., b' ' | b'\t'] = value {
        value = before;
    }
    if is_token(name) && is_text(value) {
        Ok((name, value))
    } else {
        Err(Stop::Refused)
    }
}

/// The values of the fields of this name.
fn values<'f>(fields: &'f [(&[u8], &[u8])], name: &str) -> impl Iterator<Item = &'f [u8]> {
    fields
        .iter()
        .filter(move |(field, _)| field.eq_ignore_ascii_case(name.as_bytes()))
        .map(|(_, value)| *value)
}

/// One or more digits and nothing else, as long as they fit.
fn number(digits: &[u8], radix: u32) -> Reading<u64> {
    let text = std::str::from_utf8(digits).map_err(|_| Stop::Refused)?;
    if !text.chars().all(|digit| digit.is_digit(radix)) {
        return Err(Stop::Refused);
    }
    u64::from_str_radix(text, radix).map_err(|_| Stop::Refused)
}

/// What a field's value and a status line's reason may be made of.
fn is_text(text: &[u8]) -> bool {
    !text
        .iter()
        .any(|&byte| byte != b'\t' && byte.is_ascii_control())
}

/// RFC 9110 section 5.6.2: visible ASCII but the delimiters.
fn is_token(text: &[u8]) -> bool {
    let delimiters = b"\"(),/:;<=>?@[\\]{}";
    !text.is_empty()
        && text
            .iter()
            .all(|byte| byte.is_ascii_graphic() && !delimiters.contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads() {
        let framed = |fields: &str| {
            let input = format!("\r\nPOST / HTTP/1.1\r\nHost: h\r\n{fields}\r\nrest");
            head(input.as_bytes()).map(|head| {
                assert_eq!(head.end, input.len() - 4);
                head.framing
            })
        };
        let rows = [
            ("", Ok(Framing::None)),
            ("Content-Length:  5\t\r\n", Ok(Framing::Length(5))),
            (
                "Content-Length: 5\r\ncontent-length: 05\r\n",
                Ok(Framing::Length(5)),
            ),
            (
                "Content-Length: 5\r\nContent-Length: 6\r\n",
                Err(Stop::Refused),
            ),
            ("Content-Length: +5\r\n", Err(Stop::Refused)),
            ("Content-Length:\r\n", Err(Stop::Refused)),
            (
                "Content-Length: 18446744073709551616\r\n",
                Err(Stop::Refused),
            ),
            ("Content-Length : 5\r\n", Err(Stop::Refused)),
            ("Content-Length:\r\n 5\r\n", Err(Stop::Refused)),
            ("A: b\rc\r\n", Err(Stop::Refused)),
            ("A: b\nc: d\r\n", Err(Stop::Refused)),
            ("A: \0\r\n", Err(Stop::Refused)),
            ("Host: h\r\n", Err(Stop::Refused)),
            (
                "Transfer-Encoding: gzip, Chunked\r\nContent-Length: 5\r\n",
                Ok(Framing::Chunked),
            ),
            ("Transfer-Encoding: chunked, gzip\r\n", Err(Stop::Refused)),
            (
                "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n",
                Err(Stop::Refused),
            ),
        ];
        for (fields, expected) in rows {
            assert_eq!(framed(fields), expected, "{fields:?}");
        }
        let http10 = head(b"GET / HTTP/1.0\r\nConnection: a, Keep-Alive\r\n\r\n").expect("a head");
        assert!(http10.keep_alive && !http10.http11);
        let closes =
            b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n";
        assert!(!head(closes).expect("a head").keep_alive);
        assert_eq!(head(&closes[..closes.len() - 1]).err(), Some(Stop::More));
    }

    #[test]
    fn replies() {
        use ReplyFraming::{Chunked, Length, None, UntilClose};
        type Row = (&'static str, Method, Reading<(u16, ReplyFraming, bool)>);
        let rows: &[Row] = &[
            ("1.1 200 OK\r\n", Method::Get, Ok((200, UntilClose, false))),
            (
                "1.1 200 \r\nContent-Length: 5\r\n",
                Method::Get,
                Ok((200, Length(5), true)),
            ),
            (
                "1.1 200\r\nContent-Length: 5\r\n",
                Method::Get,
                Ok((200, Length(5), true)),
            ),
            (
                "1.1 299 a b\t\u{e9}\r\nTransfer-Encoding: Chunked\r\n",
                Method::Get,
                Ok((299, Chunked, true)),
            ),
            (
                "1.1 999 OK\r\nTransfer-Encoding: chunked, gzip\r\n",
                Method::Get,
                Ok((999, UntilClose, false)),
            ),
            (
                "1.1 200 OK\r\nConnection: a, Close\r\nContent-Length: 5\r\n",
                Method::Get,
                Ok((200, Length(5), false)),
            ),
            (
                "1.0 200 OK\r\nContent-Length: 5\r\n",
                Method::Get,
                Ok((200, Length(5), false)),
            ),
            (
                "1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 5\r\n",
                Method::Get,
                Ok((200, Length(5), true)),
            ),
            (
                "1.0 200 OK\r\nTransfer-Encoding: chunked\r\n",
                Method::Get,
                Err(Stop::Refused),
            ),
            ("1.1 100 Continue\r\n", Method::Get, Ok((100, None, true))),
            (
                "1.1 204 OK\r\nContent-Length: 5\r\n",
                Method::Get,
                Ok((204, None, true)),
            ),
            (
                "1.1 304 OK\r\nTransfer-Encoding: chunked\r\n",
                Method::Get,
                Ok((304, None, true)),
            ),
            (
                "1.1 200 OK\r\nContent-Length: 5\r\n",
                Method::Head,
                Ok((200, None, true)),
            ),
            (
                "1.1 200 OK\r\nContent-Length: 5\r\n",
                Method::Connect,
                Err(Stop::Refused),
            ),
            (
                "1.1 403 No\r\nContent-Length: 5\r\n",
                Method::Connect,
                Ok((403, Length(5), true)),
            ),
            (
                "1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n",
                Method::Get,
                Err(Stop::Refused),
            ),
            ("1.1 200 a\0\r\n", Method::Get, Err(Stop::Refused)),
            ("1.1 200\t\r\n", Method::Get, Err(Stop::Refused)),
            ("1.1  200\r\n", Method::Get, Err(Stop::Refused)),
            ("1.1 +20 OK\r\n", Method::Get, Err(Stop::Refused)),
            ("1.1 20 OK\r\n", Method::Get, Err(Stop::Refused)),
            ("1.2 200 OK\r\n", Method::Get, Err(Stop::Refused)),
            ("1.1 200 OK\r\nA : b\r\n", Method::Get, Err(Stop::Refused)),
        ];
        for (head, method, expected) in rows {
            let input = format!("HTTP/{head}\r\nrest");
            let read = reply(input.as_bytes(), *method).map(|reply| {
                assert_eq!(reply.end, input.len() - 4);
                (reply.status, reply.framing, reply.keep_alive)
            });
            assert_eq!(&read, expected, "{head:?}");
        }
        let cut = reply(b"HTTP/1.1 200 OK\r\n\r", Method::Get);
        assert_eq!(cut.err(), Some(Stop::More));
    }

    #[test]
    fn bodies() {
        type Row = (&'static [u8], Reading<(&'static [u8], usize)>);
        let rows: &[Row] = &[
            (b"0\r\n\r\nx", Ok((b"", 5))),
            (b"2\r\nhi\r\n00\r\nA: b\r\n\r\nx", Ok((b"hi", 19))),
            (b"2 \t;a=\"\r\nhi\r\n0\r\n\r\n", Ok((b"hi", 18))),
            (b"2\r\nhi\r\n0\r\n", Err(Stop::More)),
            (b"2\r\nhi", Err(Stop::More)),
            (b"ffffffffffffffff\r\nhi", Err(Stop::More)),
            (b"10000000000000000\r\nhi", Err(Stop::Refused)),
            (b"2\r\nhi!\r\n0\r\n\r\n", Err(Stop::Refused)),
            (b"\r\n\r\n", Err(Stop::Refused)),
            (b" 2\r\nhi\r\n0\r\n\r\n", Err(Stop::Refused)),
            (b"0x2\r\nhi\r\n0\r\n\r\n", Err(Stop::Refused)),
            (b"2\nhi\r\n0\r\n\r\n", Err(Stop::Refused)),
            (b"2;a\rb\r\nhi\r\n0\r\n\r\n", Err(Stop::Refused)),
            (b"0\r\na: b\r\n c\r\n\r\n", Err(Stop::Refused)),
        ];
        for (input, expected) in rows {
            let read = chunks(input).map(|chunks| chunks.body);
            let expected = expected.map(|(content, end)| Body {
                content: content.to_vec(),
                end,
            });
            assert_eq!(read, expected, "{:?}", String::from_utf8_lossy(input));
        }
    }
}
