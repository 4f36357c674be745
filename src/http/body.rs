//! The body of a message: from bytes to content, by whichever framing its head chose.
//!
//! Sans-I/O, and incremental: the same bytes give the same content, however they are split. Chunks are read as RFC
//! 9112 section 7.1 writes them and not a blank more, since a lenient reader of chunk sizes ends a body elsewhere
//! than a strict one. Stricter than the RFC: no blanks around an extension (`BWS`), at most 16 digits, and bounds on
//! the extensions and the trailers of a whole body. Both are read as grammar and then dropped.

use std::fmt;

use super::head::{Framing, ReplyFraming, is_token_byte};

/// Bytes of extensions in one whole body, not in one chunk: thousands of tiny ones cost as much as a large one. The
/// RFC wants a limit "reasonable for the services provided"; nothing of ours reads extensions.
const EXTENSION_BYTES: u32 = 16_384;

/// Bytes of the trailer section, which nothing of ours reads either.
const TRAILER_BYTES: u32 = 16_384;

/// Digits of a chunk size: 16 are all that 64 bits can hold.
const SIZE_DIGITS: u8 = 16;

/// The end of a chunked body: the last chunk and an empty trailer section.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Writes `data` as one chunk. Nothing is written for no data: a chunk of size 0 would end the body.
pub fn chunk(out: &mut Vec<u8>, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    out.extend_from_slice(format!("{:x}\r\n", data.len()).as_bytes());
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// What one call of [`BodyDecoder::decode`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes of the input that are used up. Fewer than all when the body is whole, and what follows is another
    /// message; or when there was no more room in the output.
    pub consumed: usize,
    /// The body is whole.
    pub done: bool,
}

/// Why a body was refused: the fault of the peer that sent it. The connection is good for one answer at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFault {
    /// A chunk size is not 1 to 16 hexadecimal digits.
    ChunkSize,
    /// A chunk's data is not followed by CRLF.
    ChunkEnd,
    /// A chunk extension is malformed.
    Extension,
    /// More bytes of chunk extensions than allowed.
    ExtensionsTooLarge,
    /// A carriage return or line feed alone.
    LineEnd,
    /// A trailer field is malformed.
    Trailer,
    /// More bytes of trailers than allowed.
    TrailersTooLarge,
    /// The connection ended before the body did.
    Truncated,
}

impl fmt::Display for BodyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ChunkSize => "the peer sent a malformed chunk size",
            Self::ChunkEnd => "the peer sent a chunk of another size than it said",
            Self::Extension => "the peer sent a malformed chunk extension",
            Self::ExtensionsTooLarge => "the peer sent too many bytes of chunk extensions",
            Self::LineEnd => "the peer sent a carriage return or a line feed alone",
            Self::Trailer => "the peer sent a malformed trailer",
            Self::TrailersTooLarge => "the peer sent too many bytes of trailers",
            Self::Truncated => "the peer closed before the body was whole",
        })
    }
}

impl std::error::Error for BodyFault {}

/// Reads one body.
#[derive(Clone, Debug)]
pub struct BodyDecoder {
    state: State,
    /// Bytes of extensions so far.
    extensions: u32,
    /// Bytes of trailers so far.
    trailers: u32,
}

/// What is read next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// So many bytes, and the body is whole.
    Length(u64),
    /// Everything until the connection ends.
    UntilClose,
    /// A place within the chunks.
    Chunks(Chunks),
    /// Nothing: the body is whole.
    Done,
    /// Nothing: it was refused, and stays so.
    Refused(BodyFault),
}

/// A place within a chunked body, named after what was read last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunks {
    /// So many digits of a size.
    Size { digits: u8, size: u64 },
    /// The `;` before an extension.
    Semicolon { size: u64 },
    /// A byte of an extension's name.
    ExtensionName { size: u64 },
    /// The `=` before an extension's value.
    Equals { size: u64 },
    /// A byte of a value that is a token.
    ExtensionToken { size: u64 },
    /// The opening quote of a value, or a byte after it.
    Quoted { size: u64 },
    /// A backslash within quotes.
    Backslash { size: u64 },
    /// The closing quote.
    Unquoted { size: u64 },
    /// The CR behind size and extensions.
    SizeCr { size: u64 },
    /// So much data is left.
    Data { left: u64 },
    /// All data of a chunk.
    DataEnd,
    /// The CR behind the data.
    DataCr,
    /// The CRLF behind the last chunk or a trailer.
    TrailerLine,
    /// A byte of a trailer's name.
    TrailerName,
    /// The colon behind the name, or a byte of the value.
    TrailerValue,
    /// The CR behind a trailer.
    TrailerCr,
    /// The CR of the empty last line.
    LastCr,
}

impl BodyDecoder {
    /// For the body of a request.
    #[must_use]
    pub const fn new(framing: Framing) -> Self {
        Self::reply(match framing {
            Framing::None => ReplyFraming::None,
            Framing::Length(length) => ReplyFraming::Length(length),
            Framing::Chunked => ReplyFraming::Chunked,
        })
    }

    /// For the body of a reply.
    #[must_use]
    pub const fn reply(framing: ReplyFraming) -> Self {
        let state = match framing {
            ReplyFraming::None | ReplyFraming::Length(0) => State::Done,
            ReplyFraming::Length(length) => State::Length(length),
            ReplyFraming::Chunked => State::Chunks(Chunks::Size { digits: 0, size: 0 }),
            ReplyFraming::UntilClose => State::UntilClose,
        };
        Self {
            state,
            extensions: 0,
            trailers: 0,
        }
    }

    /// How many bytes are still to come, where the head said how many there are.
    #[must_use]
    pub const fn length(&self) -> Option<u64> {
        match self.state {
            State::Length(left) => Some(left),
            State::Done => Some(0),
            _ => None,
        }
    }

    /// Whether the body is whole.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Reads `input`, which follows what was consumed before, and appends at most `out_limit` bytes of content to
    /// `out`. Consumes all of `input` unless the body ends in it or the room does: a step that is not done and
    /// leaves input behind wants to be called again with more room. Framing needs no room.
    ///
    /// # Errors
    /// [`BodyFault`], and the same one ever after. What is in `out` by then is part of no body.
    pub fn decode(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        out_limit: usize,
    ) -> Result<Step, BodyFault> {
        let mut rest = input;
        let mut room = out_limit;
        loop {
            let left = match self.state {
                State::Done => break,
                State::Refused(fault) => return Err(fault),
                State::Length(left) | State::Chunks(Chunks::Data { left }) => left,
                State::UntilClose => u64::MAX,
                State::Chunks(place) => {
                    let Some((&byte, behind)) = rest.split_first() else {
                        break;
                    };
                    match self.next(place, byte) {
                        Ok(state) => self.state = state,
                        Err(fault) => {
                            self.state = State::Refused(fault);
                            return Err(fault);
                        }
                    }
                    rest = behind;
                    continue;
                }
            };
            let most = rest
                .len()
                .min(room)
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            if most == 0 {
                break;
            }
            let (data, behind) = rest.split_at(most);
            out.extend_from_slice(data);
            rest = behind;
            room -= most;
            let left = left - most as u64;
            self.state = match self.state {
                State::Length(_) if left == 0 => State::Done,
                State::Length(_) => State::Length(left),
                State::Chunks(_) if left == 0 => State::Chunks(Chunks::DataEnd),
                State::Chunks(_) => State::Chunks(Chunks::Data { left }),
                state => state,
            };
        }
        Ok(Step {
            consumed: input.len() - rest.len(),
            done: self.is_done(),
        })
    }

    /// The connection ended.
    ///
    /// # Errors
    /// [`BodyFault::Truncated`] unless the body is whole or ends just so (RFC 9112 section 8); the fault that it was
    /// refused with before.
    pub fn eof(&mut self) -> Result<(), BodyFault> {
        match self.state {
            State::Done => Ok(()),
            State::UntilClose => {
                self.state = State::Done;
                Ok(())
            }
            State::Refused(fault) => Err(fault),
            State::Length(_) | State::Chunks(_) => {
                self.state = State::Refused(BodyFault::Truncated);
                Err(BodyFault::Truncated)
            }
        }
    }

    /// Reads one byte of framing (RFC 9112 section 7.1).
    ///
    /// ```text
    /// chunk         = 1*HEXDIG [ chunk-ext ] CRLF chunk-data CRLF
    /// last-chunk    = 1*("0") [ chunk-ext ] CRLF
    /// chunk-ext     = *( ";" token [ "=" ( token / quoted-string ) ] )      ; section 7.1.1, without BWS
    /// trailers      = *( token ":" *( SP / HTAB / VCHAR / obs-text ) CRLF ) CRLF
    /// ```
    fn next(&mut self, place: Chunks, byte: u8) -> Result<State, BodyFault> {
        use Chunks as C;
        let next = match (place, byte) {
            (C::Size { digits, size }, _) if byte.is_ascii_hexdigit() => {
                let digit = (byte as char)
                    .to_digit(16)
                    .map(u64::from)
                    .ok_or(BodyFault::ChunkSize)?;
                // Section 7.1: a recipient must anticipate large numerals and not overflow.
                let size = size
                    .checked_mul(16)
                    .and_then(|size| size.checked_add(digit));
                let size = size
                    .filter(|_| digits < SIZE_DIGITS)
                    .ok_or(BodyFault::ChunkSize)?;
                C::Size {
                    digits: digits + 1,
                    size,
                }
            }
            (C::Size { digits: 0, .. }, _) => return Err(BodyFault::ChunkSize),
            (C::Size { size, .. }, b';') => self.extension(C::Semicolon { size })?,
            (C::Size { size, .. }, b'\r') => C::SizeCr { size },
            (C::Size { .. }, b'\n') => return Err(BodyFault::LineEnd),
            (C::Size { .. }, _) => return Err(BodyFault::ChunkSize),

            (C::Semicolon { size } | C::ExtensionName { size }, _) if is_token_byte(byte) => {
                self.extension(C::ExtensionName { size })?
            }
            (C::ExtensionName { size }, b'=') => self.extension(C::Equals { size })?,
            (C::Equals { size } | C::ExtensionToken { size }, _) if is_token_byte(byte) => {
                self.extension(C::ExtensionToken { size })?
            }
            (C::Equals { size }, b'"') => self.extension(C::Quoted { size })?,
            (C::Quoted { size }, b'"') => self.extension(C::Unquoted { size })?,
            (C::Quoted { size }, b'\\') => self.extension(C::Backslash { size })?,
            (C::Quoted { size } | C::Backslash { size }, _) if is_field_byte(byte) => {
                self.extension(C::Quoted { size })?
            }
            (
                C::ExtensionName { size } | C::ExtensionToken { size } | C::Unquoted { size },
                b';',
            ) => self.extension(C::Semicolon { size })?,
            (
                C::ExtensionName { size } | C::ExtensionToken { size } | C::Unquoted { size },
                b'\r',
            ) => C::SizeCr { size },
            (
                C::Semicolon { .. }
                | C::ExtensionName { .. }
                | C::Equals { .. }
                | C::ExtensionToken { .. }
                | C::Quoted { .. }
                | C::Backslash { .. }
                | C::Unquoted { .. },
                _,
            ) => return Err(BodyFault::Extension),

            (C::SizeCr { size: 0 }, b'\n') => C::TrailerLine,
            (C::SizeCr { size }, b'\n') => C::Data { left: size },
            (C::SizeCr { .. }, _) => return Err(BodyFault::LineEnd),

            // The data is copied by `decode`.
            (C::Data { left }, _) => C::Data { left },
            (C::DataEnd, b'\r') => C::DataCr,
            (C::DataCr, b'\n') => C::Size { digits: 0, size: 0 },
            (C::DataEnd | C::DataCr, _) => return Err(BodyFault::ChunkEnd),

            // Section 7.1.2: trailers may be discarded.
            (C::TrailerLine, b'\r') => C::LastCr,
            (C::TrailerLine | C::TrailerName, _) if is_token_byte(byte) => {
                self.trailer(C::TrailerName)?
            }
            (C::TrailerName, b':') => self.trailer(C::TrailerValue)?,
            (C::TrailerValue, b'\r') => self.trailer(C::TrailerCr)?,
            (C::TrailerValue, _) if is_field_byte(byte) => self.trailer(C::TrailerValue)?,
            (C::TrailerCr, b'\n') => self.trailer(C::TrailerLine)?,
            (C::TrailerLine | C::TrailerValue, b'\n') | (C::TrailerCr, _) => {
                return Err(BodyFault::LineEnd);
            }
            (C::TrailerLine | C::TrailerName | C::TrailerValue, _) => {
                return Err(BodyFault::Trailer);
            }

            (C::LastCr, b'\n') => return Ok(State::Done),
            (C::LastCr, _) => return Err(BodyFault::LineEnd),
        };
        Ok(State::Chunks(next))
    }

    /// Counts a byte of an extension.
    fn extension(&mut self, next: Chunks) -> Result<Chunks, BodyFault> {
        self.extensions += 1;
        if self.extensions > EXTENSION_BYTES {
            Err(BodyFault::ExtensionsTooLarge)
        } else {
            Ok(next)
        }
    }

    /// Counts a byte of a trailer.
    fn trailer(&mut self, next: Chunks) -> Result<Chunks, BodyFault> {
        self.trailers += 1;
        if self.trailers > TRAILER_BYTES {
            Err(BodyFault::TrailersTooLarge)
        } else {
            Ok(next)
        }
    }
}

/// Whether `byte` may stand in a field value or a quoted string (RFC 9110 sections 5.5 and 5.6.4).
const fn is_field_byte(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~' | 0x80..)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// What became of a body: its content and what was left behind it, `None` if it did not end, or the fault.
    type Read = Result<Option<(Vec<u8>, usize)>, BodyFault>;

    /// The part of [`Read`] that is no fault, as a table writes it.
    type Expected = Option<(&'static [u8], usize)>;

    /// Feeds `input` in the given pieces, with `room` for each call.
    fn feed<'a>(
        framing: ReplyFraming,
        pieces: impl Iterator<Item = &'a [u8]>,
        room: usize,
    ) -> Read {
        let mut decoder = BodyDecoder::reply(framing);
        let (mut out, mut pending, mut left_behind, mut done) =
            (Vec::new(), Vec::new(), 0, decoder.is_done());
        for piece in pieces {
            pending.extend_from_slice(piece);
            while !done {
                let before = out.len();
                let step = match decoder.decode(&pending, &mut out, room) {
                    Ok(step) => step,
                    Err(fault) => {
                        assert_eq!(
                            decoder.decode(b"0\r\n\r\n", &mut out, room),
                            Err(fault),
                            "a fault stays"
                        );
                        assert_eq!(decoder.eof(), Err(fault));
                        return Err(fault);
                    }
                };
                assert!(step.consumed <= pending.len() && out.len() - before <= room);
                assert_eq!(step.done, decoder.is_done());
                pending.drain(..step.consumed);
                done = step.done;
                if pending.is_empty() {
                    break;
                }
                assert!(done || out.len() - before == room, "stopped without need");
            }
        }
        if done {
            left_behind += pending.len();
            assert_eq!(
                decoder.decode(b"more", &mut out, room),
                Ok(Step {
                    consumed: 0,
                    done: true
                })
            );
            assert_eq!(decoder.eof(), Ok(()));
            return Ok(Some((out, left_behind)));
        }
        if framing == ReplyFraming::UntilClose {
            assert_eq!(decoder.eof(), Ok(()));
            return Ok(Some((out, 0)));
        }
        assert_eq!(decoder.eof(), Err(BodyFault::Truncated));
        Ok(None)
    }

    /// Reads at once, byte by byte, with little room, and cut short, and insists on one answer.
    fn read(framing: ReplyFraming, input: &[u8]) -> Read {
        let whole = feed(framing, [input].into_iter(), usize::MAX);
        for size in [1, 2, 3, 7] {
            for room in [1, 2, usize::MAX] {
                assert_eq!(
                    feed(framing, input.chunks(size), room),
                    whole,
                    "{:?}",
                    String::from_utf8_lossy(input)
                );
            }
        }
        for at in 0..=input.len() {
            let (a, b) = input.split_at(at);
            assert_eq!(feed(framing, [a, b].into_iter(), usize::MAX), whole);
            let cut = feed(framing, [a].into_iter(), usize::MAX);
            match &whole {
                _ if framing == ReplyFraming::UntilClose => {}
                Ok(Some((_, behind))) if at < input.len() - behind => assert_eq!(cut, Ok(None)),
                Ok(Some(_)) => assert!(matches!(cut, Ok(Some(_)))),
                Ok(None) => assert_eq!(cut, Ok(None)),
                Err(fault) => assert!(cut == Ok(None) || cut == Err(*fault)),
            }
        }
        whole
    }

    #[test]
    fn lengths() {
        use ReplyFraming::{Length, None as NoBody, UntilClose};
        let rows: &[(ReplyFraming, &[u8], Expected)] = &[
            (NoBody, b"", Some((b"", 0))),
            (NoBody, b"GET /", Some((b"", 5))),
            (Length(0), b"GET /", Some((b"", 5))),
            (Length(5), b"hello", Some((b"hello", 0))),
            (Length(5), b"helloGET /", Some((b"hello", 5))),
            (Length(5), b"hell", None),
            (Length(5), b"", None),
            (Length(u64::MAX), b"hello", None),
            (UntilClose, b"", Some((b"", 0))),
            (UntilClose, b"hello", Some((b"hello", 0))),
        ];
        for (framing, input, expected) in rows {
            let expected = expected.map(|(content, behind)| (content.to_vec(), behind));
            assert_eq!(read(*framing, input), Ok(expected), "{framing:?} {input:?}");
        }
    }

    #[test]
    fn chunks() {
        use BodyFault as F;
        let rows: &[(&[u8], Result<Expected, BodyFault>)] = &[
            (b"0\r\n\r\n", Ok(Some((b"", 0)))),
            (b"0000\r\n\r\n", Ok(Some((b"", 0)))),
            (b"5\r\nhello\r\n0\r\n\r\n", Ok(Some((b"hello", 0)))),
            (
                b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\nGET /",
                Ok(Some((b"hello world", 5))),
            ),
            (
                b"00000000000000a\r\n0123456789\r\n0\r\n\r\n",
                Ok(Some((b"0123456789", 0))),
            ),
            (
                b"000000000000000A\r\n0123456789\r\n0\r\n\r\n",
                Ok(Some((b"0123456789", 0))),
            ),
            (b"2\r\n\r\n\r\n0\r\n\r\n", Ok(Some((b"\r\n", 0)))),
            (b"5\r\n0\r\n\r\n\r\n0\r\n\r\n", Ok(Some((b"0\r\n\r\n", 0)))),
            // Cut short.
            (b"", Ok(None)),
            (b"5\r\nhello\r\n", Ok(None)),
            (b"5\r\nhello\r\n0\r\n", Ok(None)),
            (b"5\r\nhello\r\n0\r\n\r", Ok(None)),
            (b"ffffffffffffffff\r\nhello", Ok(None)),
            // Sizes.
            (b"\r\n", Err(F::ChunkSize)),
            (b"\r\n0\r\n\r\n", Err(F::ChunkSize)),
            (b"\n", Err(F::ChunkSize)),
            (b";a\r\n", Err(F::ChunkSize)),
            (b"+5\r\nhello\r\n0\r\n\r\n", Err(F::ChunkSize)),
            (b"-1\r\nhello\r\n0\r\n\r\n", Err(F::ChunkSize)),
            (b"0x5\r\nhello\r\n0\r\n\r\n", Err(F::ChunkSize)),
            (b"0_2e\r\nhello\r\n0\r\n\r\n", Err(F::ChunkSize)),
            (b"5_\r\nhello\r\n0\r\n\r\n", Err(F::ChunkSize)),
            (b" 5\r\nhello\r\n0\r\n\r\n", Err(F::ChunkSize)),
            (b"5 \r\nhello\r\n0\r\n\r\n", Err(F::ChunkSize)),
            (b"5\t\r\nhello\r\n0\r\n\r\n", Err(F::ChunkSize)),
            (b"5 ;a\r\nhello\r\n0\r\n\r\n", Err(F::ChunkSize)),
            (b"\xef\xbc\x95\r\nhello\r\n0\r\n\r\n", Err(F::ChunkSize)),
            (b"g\r\n", Err(F::ChunkSize)),
            (b"5\0\r\nhello\r\n0\r\n\r\n", Err(F::ChunkSize)),
            (
                b"00000000000000005\r\nhello\r\n0\r\n\r\n",
                Err(F::ChunkSize),
            ),
            (
                b"10000000000000005\r\nhello\r\n0\r\n\r\n",
                Err(F::ChunkSize),
            ),
            (b"00000000000000000\r\n\r\n", Err(F::ChunkSize)),
            // Line ends.
            (b"5\nhello\r\n0\r\n\r\n", Err(F::LineEnd)),
            (b"5\rhello\r\n0\r\n\r\n", Err(F::LineEnd)),
            (b"5\r\r\nhello\r\n0\r\n\r\n", Err(F::LineEnd)),
            (b"0\n\n", Err(F::LineEnd)),
            (b"0\r\n\n", Err(F::LineEnd)),
            (b"0\r\n\rX", Err(F::LineEnd)),
            (b"0\r\n\r\r\n", Err(F::LineEnd)),
            // What follows the data.
            (b"5\r\nhelloXX0\r\n\r\n", Err(F::ChunkEnd)),
            (b"5\r\nhello\n0\r\n\r\n", Err(F::ChunkEnd)),
            (b"5\r\nhello\n\r0\r\n\r\n", Err(F::ChunkEnd)),
            (b"5\r\nhello\r0\r\n\r\n", Err(F::ChunkEnd)),
            (b"5\r\nhello0\r\n\r\n", Err(F::ChunkEnd)),
            (b"5\r\nhello world\r\n0\r\n\r\n", Err(F::ChunkEnd)),
            // Extensions.
            (b"5;a\r\nhello\r\n0;b=c\r\n\r\n", Ok(Some((b"hello", 0)))),
            (
                b"5;a;b=c;d=\"e;\\\"\r=\"\r\nhello\r\n0\r\n\r\n",
                Err(F::Extension),
            ),
            (
                b"5;a;b=c;d=\"e;\\\"=\xe9\";f\r\nhello\r\n0\r\n\r\n",
                Ok(Some((b"hello", 0))),
            ),
            (b"5;a=\"\"\r\nhello\r\n0\r\n\r\n", Ok(Some((b"hello", 0)))),
            (b"5;\r\nhello\r\n0\r\n\r\n", Err(F::Extension)),
            (b"5;;a\r\nhello\r\n0\r\n\r\n", Err(F::Extension)),
            (b"5;=a\r\nhello\r\n0\r\n\r\n", Err(F::Extension)),
            (b"5;a=\r\nhello\r\n0\r\n\r\n", Err(F::Extension)),
            (b"5;a=b=c\r\nhello\r\n0\r\n\r\n", Err(F::Extension)),
            (b"5;a=;b\r\nhello\r\n0\r\n\r\n", Err(F::Extension)),
            (b"5; a\r\nhello\r\n0\r\n\r\n", Err(F::Extension)),
            (b"5;a \r\nhello\r\n0\r\n\r\n", Err(F::Extension)),
            (b"5;a\nhello\r\n0\r\n\r\n", Err(F::Extension)),
            (b"5;a\rhello\r\n0\r\n\r\n", Err(F::LineEnd)),
            (b"5;a=\"\nhello\r\n0\r\n\r\n", Err(F::Extension)),
            (b"5;a=\"b\r\nhello\r\n0\r\n\r\n", Err(F::Extension)),
            (b"5;a=\"b\\\r\nhello\r\n0\r\n\r\n", Err(F::Extension)),
            (b"5;a=\"b\"c\r\nhello\r\n0\r\n\r\n", Err(F::Extension)),
            (b"5;a=b\"c\"\r\nhello\r\n0\r\n\r\n", Err(F::Extension)),
            (b"5;\xe9\r\nhello\r\n0\r\n\r\n", Err(F::Extension)),
            // Trailers, which are dropped.
            (b"0\r\na: b\r\n\r\nGET /", Ok(Some((b"", 5)))),
            (
                b"0\r\nContent-Length: 5\r\nb:\xe9\t\r\n\r\n",
                Ok(Some((b"", 0))),
            ),
            (b"0\r\na: b\r\n", Ok(None)),
            (b"0\r\na\r\n\r\n", Err(F::Trailer)),
            (b"0\r\n: b\r\n\r\n", Err(F::Trailer)),
            (b"0\r\na : b\r\n\r\n", Err(F::Trailer)),
            (b"0\r\na: b\r\n c\r\n\r\n", Err(F::Trailer)),
            (b"0\r\n a: b\r\n\r\n", Err(F::Trailer)),
            (b"0\r\na: \0\r\n\r\n", Err(F::Trailer)),
            (b"0\r\na: b\n\r\n", Err(F::LineEnd)),
            (b"0\r\na: b\r\n\n", Err(F::LineEnd)),
            (b"0\r\na: b\rc\r\n\r\n", Err(F::LineEnd)),
            (b"0\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", Err(F::Trailer)),
        ];
        for (input, expected) in rows {
            let expected =
                expected.map(|read| read.map(|(content, behind)| (content.to_vec(), behind)));
            let read = read(ReplyFraming::Chunked, input);
            assert_eq!(read, expected, "{:?}", String::from_utf8_lossy(input));
        }
    }

    #[test]
    fn every_byte_but_crlf_behind_the_data_is_refused() {
        for first in 0..=u8::MAX {
            for second in [b'\r', b'\n', b'0', 0, first] {
                let input = [b"1\r\nx", &[first, second][..], b"0\r\n\r\n"].concat();
                let read = feed(ReplyFraming::Chunked, [&input[..]].into_iter(), usize::MAX);
                let good = (first, second) == (b'\r', b'\n');
                assert_eq!(read.is_ok(), good, "{first:#x} {second:#x}");
            }
        }
    }

    #[test]
    fn extensions_and_trailers_are_bounded_over_the_whole_body() {
        let most = EXTENSION_BYTES as usize;
        let chunked =
            |input: Vec<u8>| feed(ReplyFraming::Chunked, [&input[..]].into_iter(), usize::MAX);
        let one = |length: usize| format!("0;{}\r\n\r\n", "a".repeat(length - 1)).into_bytes();
        assert!(matches!(chunked(one(most)), Ok(Some(_))));
        assert_eq!(chunked(one(most + 1)), Err(BodyFault::ExtensionsTooLarge));
        assert_eq!(chunked(one(1 << 22)), Err(BodyFault::ExtensionsTooLarge));
        // Two bytes each.
        let tiny = |count: usize| [b"1;a\r\nx\r\n".repeat(count), b"0\r\n\r\n".to_vec()].concat();
        assert!(matches!(chunked(tiny(most / 2)), Ok(Some(_))));
        assert_eq!(
            chunked(tiny(most / 2 + 1)),
            Err(BodyFault::ExtensionsTooLarge)
        );

        let most = TRAILER_BYTES as usize;
        let one = |length: usize| format!("0\r\na:{}\r\n\r\n", "b".repeat(length - 4)).into_bytes();
        assert!(matches!(chunked(one(most)), Ok(Some(_))));
        assert_eq!(chunked(one(most + 1)), Err(BodyFault::TrailersTooLarge));
        assert_eq!(chunked(one(1 << 22)), Err(BodyFault::TrailersTooLarge));
        let many = [
            b"0\r\n".to_vec(),
            b"a:\r\n".repeat(most / 4 + 1),
            b"\r\n".to_vec(),
        ]
        .concat();
        assert_eq!(chunked(many), Err(BodyFault::TrailersTooLarge));
    }

    #[test]
    fn a_body_that_fits_exactly_is_done_without_more_room() {
        let mut out = Vec::new();
        let mut decoder = BodyDecoder::new(Framing::Chunked);
        let step = decoder.decode(b"5\r\nhello\r\n0\r\n\r\n", &mut out, 5);
        assert_eq!(
            (step, out.as_slice()),
            (
                Ok(Step {
                    consumed: 15,
                    done: true
                }),
                &b"hello"[..]
            )
        );
        let mut decoder = BodyDecoder::new(Framing::Chunked);
        let step = decoder.decode(b"5\r\nhello\r\n0\r\n\r\n", &mut out, 4);
        assert_eq!(
            step,
            Ok(Step {
                consumed: 7,
                done: false
            })
        );
    }

    #[test]
    fn lengths_are_told() {
        assert_eq!(BodyDecoder::new(Framing::None).length(), Some(0));
        assert_eq!(BodyDecoder::new(Framing::Chunked).length(), None);
        let mut decoder = BodyDecoder::new(Framing::Length(5));
        assert_eq!(decoder.length(), Some(5));
        decoder.decode(b"he", &mut Vec::new(), 9).unwrap();
        assert_eq!(decoder.length(), Some(3));
    }

    #[test]
    fn chunks_that_we_write_are_read_back() {
        let mut wire = Vec::new();
        for data in [
            &b"hello"[..],
            b"",
            b" world, which is longer than sixteen bytes",
        ] {
            chunk(&mut wire, data);
        }
        assert!(wire.starts_with(b"5\r\nhello\r\n2a\r\n world"));
        wire.extend_from_slice(LAST_CHUNK);
        let content = b"hello world, which is longer than sixteen bytes".to_vec();
        assert_eq!(read(ReplyFraming::Chunked, &wire), Ok(Some((content, 0))));
    }
}
