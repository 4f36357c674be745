//! Other readers of the same bytes, which the `differential_` checks hold ours against.

pub mod async_h1;
pub mod rfc9112;

use countersign::http::body::BodyDecoder;
use countersign::http::head::{Framing, ReplyFraming};

/// What a reader made of the start of a connection.
pub type Reading<T> = Result<T, Stop>;

/// Why there is no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Nothing wrong, and not whole.
    More,
    /// Refused.
    Refused,
}

/// A whole body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// What it says.
    pub content: Vec<u8>,
    /// How many bytes it took: the next message starts behind them.
    pub end: usize,
}

/// The body of so many bytes, at the start of `input`.
pub fn sized(input: &[u8], length: u64) -> Reading<Body> {
    let end = usize::try_from(length).map_err(|_| Stop::More)?;
    let content = input.get(..end).ok_or(Stop::More)?.to_vec();
    Ok(Body { content, end })
}

/// What our own decoder makes of the body of a request at the start of `input`.
pub fn ours(input: &[u8], framing: Framing) -> Reading<Body> {
    decoded(input, BodyDecoder::new(framing))
}

/// What our own decoder makes of the body of a reply at the start of `input`, behind which the connection ends.
pub fn ours_of_reply(input: &[u8], framing: ReplyFraming) -> Reading<Body> {
    decoded(input, BodyDecoder::reply(framing))
}

fn decoded(input: &[u8], mut decoder: BodyDecoder) -> Reading<Body> {
    let mut content = Vec::new();
    match decoder.decode(input, &mut content, usize::MAX) {
        Ok(step) if step.done => Ok(Body {
            content,
            end: step.consumed,
        }),
        // A body that ends with its connection is whole now.
        Ok(step) if decoder.eof().is_ok() => Ok(Body {
            content,
            end: step.consumed,
        }),
        Ok(_) => Err(Stop::More),
        Err(_) => Err(Stop::Refused),
    }
}
