//! What is still to come of a result that is too large to be held.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use super::client::CallFault;
use super::result::RpcResult;

/// A result on its way: its members come in pieces, and what was kept back of them at the end.
pub(super) struct Rest(Box<dyn Pieces>);

/// Where the pieces come from.
pub(super) trait Pieces: Send {
    /// The next piece. Dropping the future loses nothing.
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Result<Piece, CallFault>> + Send + '_>>;
}

/// One piece.
pub(super) enum Piece {
    /// Members of the result, or parts of them, with commas between them and no line break.
    Members(Vec<u8>),
    /// The end: members that were kept back.
    Last(RpcResult),
}

impl Rest {
    pub(super) fn new(pieces: impl Pieces + 'static) -> Self {
        Self(Box::new(pieces))
    }

    /// The next piece; none behind [`Piece::Last`]. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<Piece, CallFault> {
        self.0.next().await
    }
}

impl fmt::Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rest(..)")
    }
}
