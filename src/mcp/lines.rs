//! Messages as lines: cut out of a stream of bytes, and made for one.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use smol::io::AsyncRead;

/// Bytes read ahead of the lines that are taken. The end of the stream is seen behind as much that nobody takes.
const AHEAD: usize = 65_536;

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Whole(Vec<u8>),
    /// Longer than the limit; the rest of it never comes.
    TooLong,
}

/// Cuts a stream into lines. Empty ones are left out, and so is what the end of the stream cuts off.
pub(super) struct Lines<R> {
    input: R,
    /// The most bytes of one line.
    limit: usize,
    ahead: Box<[u8]>,
    /// What of `ahead` was read and not cut yet.
    from: usize,
    to: usize,
    begun: Vec<u8>,
    /// Within the rest of a line that was too long.
    skipping: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(input: R, limit: usize) -> Self {
        Self {
            input,
            limit,
            ahead: vec![0; AHEAD].into(),
            from: 0,
            to: 0,
            begun: Vec::new(),
            skipping: false,
        }
    }

    /// Reads once, if there is room. How many bytes came; none is the end.
    pub(super) fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.from > 0 {
            self.ahead.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        let Some(room) = self
            .ahead
            .get_mut(self.to..)
            .filter(|room| !room.is_empty())
        else {
            return Poll::Pending;
        };
        let count = ready!(Pin::new(&mut self.input).poll_read(cx, room))?;
        self.to += count;
        Poll::Ready(Ok(count))
    }

    /// Whether no more can be read before a line is taken.
    pub(super) const fn is_full(&self) -> bool {
        self.to - self.from == AHEAD
    }

    /// The next line of what was read.
    pub(super) fn next(&mut self) -> Option<Line> {
        loop {
            let rest = self.ahead.get(self.from..self.to)?;
            if rest.is_empty() {
                return None;
            }
            let end = rest.iter().position(|byte| *byte == b'\n');
            let piece = rest.get(..end.unwrap_or(rest.len()))?;
            self.from += piece.len() + usize::from(end.is_some());
            let too_long = !self.skipping && piece.len() > self.limit - self.begun.len();
            if too_long {
                self.skipping = true;
                self.begun = Vec::new();
            } else if !self.skipping {
                self.begun.extend_from_slice(piece);
            }
            let mut line = None;
            if end.is_some() {
                self.skipping = false;
                line = Some(std::mem::take(&mut self.begun)).filter(|line| !is_blank(line));
            }
            if too_long {
                return Some(Line::TooLong);
            }
            if let Some(line) = line {
                return Some(Line::Whole(line));
            }
        }
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

/// A message as a line. What was passed on as it came may hold line ends between its tokens, where they mean as much as a
/// blank; inside a string of JSON they cannot stand.
pub(super) fn line(message: String) -> Vec<u8> {
    let mut bytes = message.into_bytes();
    for byte in &mut bytes {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    bytes.push(b'\n');
    bytes
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Gives those pieces, one at each read, and the end after them.
    struct Pieces<'a>(Vec<&'a [u8]>);

    impl AsyncRead for Pieces<'_> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            into: &mut [u8],
        ) -> Poll<io::Result<usize>> {
            if self.0.is_empty() {
                return Poll::Ready(Ok(0));
            }
            let piece = self.0.remove(0);
            let (now, later) = piece.split_at(piece.len().min(into.len()));
            into[..now.len()].copy_from_slice(now);
            if !later.is_empty() {
                self.0.insert(0, later);
            }
            Poll::Ready(Ok(now.len()))
        }
    }

    fn cut(limit: usize, pieces: &[&[u8]]) -> Vec<Line> {
        let mut lines = Lines::new(Pieces(pieces.to_vec()), limit);
        let mut cx = Context::from_waker(Waker::noop());
        let mut got = Vec::new();
        while !matches!(lines.poll_ahead(&mut cx), Poll::Ready(Ok(0))) {
            while let Some(line) = lines.next() {
                got.push(line);
            }
        }
        got
    }

    fn whole(text: &str) -> Line {
        Line::Whole(text.as_bytes().to_vec())
    }

    #[test]
    fn lines_are_the_same_wherever_the_stream_is_cut() {
        let text = "{\"a\":\"ü€😀\"}\n\n \r\nb\r\n\nlast".as_bytes();
        let expected = [whole("{\"a\":\"ü€😀\"}"), whole("b\r")];
        for at in 0..=text.len() {
            let (one, two) = text.split_at(at);
            let pieces: Vec<&[u8]> = [one, two]
                .into_iter()
                .filter(|piece| !piece.is_empty())
                .collect();
            assert_eq!(cut(100, &pieces), expected, "{at}");
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(cut(100, &bytes), expected);
    }

    #[test]
    fn the_limit_is_exact_and_what_follows_is_whole_again() {
        for (text, expected) in [
            ("1234\nx\n", vec![whole("1234"), whole("x")]),
            ("12345\nx\n", vec![Line::TooLong, whole("x")]),
            ("123456789012\n\nx\n", vec![Line::TooLong, whole("x")]),
            ("12345", vec![Line::TooLong]),
            ("     \nx\n", vec![Line::TooLong, whole("x")]),
            ("1234", vec![]),
        ] {
            assert_eq!(cut(4, &[text.as_bytes()]), expected, "{text}");
            let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            assert_eq!(cut(4, &bytes), expected, "{text}");
        }
    }

    #[test]
    fn no_more_is_read_ahead_than_there_is_room_for() {
        let long = [b'x'; AHEAD + 10];
        let mut lines = Lines::new(Pieces(vec![b"a\n", &long]), 1000);
        let mut cx = Context::from_waker(Waker::noop());
        let mut read = 0;
        while let Poll::Ready(Ok(count)) = lines.poll_ahead(&mut cx) {
            assert!(count > 0, "the end is behind what is not taken");
            read += count;
        }
        assert!(lines.is_full() && read == AHEAD);
        assert_eq!(lines.next(), Some(whole("a")));
        assert!(!lines.is_full());
        assert!(matches!(lines.poll_ahead(&mut cx), Poll::Ready(Ok(2))));
        assert_eq!(lines.next(), Some(Line::TooLong));
        assert_eq!((lines.next(), lines.begun.capacity()), (None, 0));
    }

    #[test]
    fn a_line_has_one_end() {
        assert_eq!(line("{\n\"a\": \r\n1}".to_owned()), b"{ \"a\":   1}\n");
    }
}
