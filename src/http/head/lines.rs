//! Where a head ends, and which bytes may stand in it.
//!
//! `httparse` accepts a line feed alone and skips any number of empty lines. It never sees either: this comes first.

use std::ops::Range;

use super::HeadFault;

/// Finds the head in `bytes`, whose first `most` bytes are looked at: the range of its lines, the empty last one
/// included. `None` while it is not whole.
///
/// The bytes are judged in their order, so a fault is the same however the bytes were split, and is found with the
/// byte that makes it.
pub(super) fn find_head(
    bytes: &[u8],
    most: usize,
    skip_empty_line: bool,
) -> Result<Option<Range<usize>>, HeadFault> {
    let start = if skip_empty_line && bytes.starts_with(b"\r\n") {
        2
    } else {
        0
    };
    let mut line = start;
    let mut after_cr = false;
    for (at, &byte) in bytes.iter().enumerate().take(most).skip(start) {
        match byte {
            b'\n' if !after_cr => return Err(HeadFault::BareLf),
            b'\n' if at == line + 1 => {
                // RFC 9112 section 2.2: at least one empty line before a request should be skipped. One is; a client
                // that sends more is out of step with its own messages.
                return if line == start {
                    Err(HeadFault::EmptyLine)
                } else {
                    Ok(Some(start..at + 1))
                };
            }
            b'\n' => line = at + 1,
            // RFC 9112 section 2.2: a bare CR must be refused or replaced.
            _ if after_cr => return Err(HeadFault::BareCr),
            b'\r' => {}
            // RFC 9112 section 5.2: a server must refuse or unfold it. Section 2.2 has the same for a blank between
            // the first line and the first field.
            b' ' | b'\t' if at == line && line != start => return Err(HeadFault::Folded),
            b'\t' => {}
            // RFC 9110 section 5.5: CR, LF and NUL are dangerous, the other control characters invalid.
            0..=0x1F | 0x7F => return Err(HeadFault::ControlCharacter),
            _ => {}
        }
        after_cr = byte == b'\r';
    }
    if bytes.len() >= most {
        Err(HeadFault::TooLarge)
    } else {
        Ok(None)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_found_and_bad_bytes_refused() {
        type Row = (&'static [u8], bool, Result<Option<Range<usize>>, HeadFault>);
        let rows: &[Row] = &[
            (b"", true, Ok(None)),
            (b"a\r\n\r\n", true, Ok(Some(0..5))),
            (b"a\r\n\r\n\n\0", true, Ok(Some(0..5))),
            (b"a\r\nb\r\n\r\n", true, Ok(Some(0..8))),
            (b"\r\na\r\n\r\n", true, Ok(Some(2..7))),
            (b"\r\na\r\n\r\n", false, Err(HeadFault::EmptyLine)),
            (b"\r\n\r\na\r\n\r\n", true, Err(HeadFault::EmptyLine)),
            (b"\na\r\n\r\n", true, Err(HeadFault::BareLf)),
            (b"\r\r\na\r\n\r\n", true, Err(HeadFault::BareCr)),
            (b"a\n\n", true, Err(HeadFault::BareLf)),
            (b"a\r\n\n", true, Err(HeadFault::BareLf)),
            (b"a\r\nb\n\r\n", true, Err(HeadFault::BareLf)),
            (b"a\rb\r\n\r\n", true, Err(HeadFault::BareCr)),
            (b"a\r\r\n\r\n", true, Err(HeadFault::BareCr)),
            (b"a\r\nb\r\n c\r\n\r\n", true, Err(HeadFault::Folded)),
            (b"a\r\nb\r\n\tc\r\n\r\n", true, Err(HeadFault::Folded)),
            (b"a\r\n b\r\n\r\n", true, Err(HeadFault::Folded)),
            (b"a\r\nb\tc\r\n\r\n", true, Ok(Some(0..10))),
            (b"a\0\r\n\r\n", true, Err(HeadFault::ControlCharacter)),
            (
                b"a\r\nb: \x0bc\r\n\r\n",
                true,
                Err(HeadFault::ControlCharacter),
            ),
            (
                b"a\r\nb: \x7f\r\n\r\n",
                true,
                Err(HeadFault::ControlCharacter),
            ),
            (b"a\r\nb: \x85\xa0\r\n\r\n", true, Ok(Some(0..12))),
            (b"a\r\n0123456789\r\n\r\n", true, Ok(Some(0..17))),
            (b"a\r\n01234567890\r\n\r\n", true, Err(HeadFault::TooLarge)),
            (
                b"a\r\n012345678901234567890\n",
                true,
                Err(HeadFault::TooLarge),
            ),
        ];
        for (bytes, skip, expected) in rows {
            assert_eq!(&find_head(bytes, 17, *skip), expected, "{bytes:?}");
            // Byte by byte: the first answer that is not "more" is the same one.
            let first = (0..=bytes.len())
                .map(|end| find_head(bytes.get(..end).unwrap(), 17, *skip))
                .find(|found| !matches!(found, Ok(None)));
            assert_eq!(&first.unwrap_or(Ok(None)), expected, "{bytes:?}");
        }
    }
}
