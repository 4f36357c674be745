//! Other readers of the same bytes, which the `differential_` checks hold ours against.

pub mod async_h1;
pub mod rfc9112;

use countersign::http::head::Framing;

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

/// What our own decoder makes of the body at the start of `input`.
pub fn ours(input: &[u8], framing: Framing) -> Reading<Body> {
    let mut decoder = countersign::http::body::BodyDecoder::new(framing);
    let mut content = Vec::new();
    match decoder.decode(input, &mut content, usize::MAX) {
        Ok(step) if step.done => Ok(Body {
            content,
            end: step.consumed,
        }),
        Ok(_) => Err(Stop::More),
        Err(_) => Err(Stop::Refused),
    }
}
