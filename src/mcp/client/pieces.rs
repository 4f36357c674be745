//! An answer over HTTP that is too large to be held.

use std::future::Future;
use std::pin::Pin;

use super::CallFault;
use crate::http::sse::SseReader;
use crate::http::{ClientFault, FaultKind, Reply};
use crate::json::{Passage, PassageFault, Passed};
use crate::mcp::message::Id;
use crate::mcp::rest::{Piece, Pieces};
use crate::mcp::result::{ResultKind, RpcResult};

/// The rest of one answer. Dropping it closes the connection, which tells the server that nobody waits any more.
pub(super) struct Large {
    reply: Reply,
    id: Id,
    /// `None` once the message is whole.
    passage: Option<Passage>,
    source: Source,
    /// Members that have come and not gone on.
    ready: Vec<u8>,
    /// What was kept back, once the message is whole.
    last: Option<RpcResult>,
}

/// How the message is framed.
enum Source {
    /// By the body, whose last bytes may be a part of a character.
    Body(Vec<u8>),
    Stream(Box<SseReader>),
}

/// Members that are looked at, or that differ between the eras. Content of another shape than an object is not for every
/// caller.
fn is_kept_back(name: &str, first: u8) -> bool {
    match name {
        "_meta" | "resultType" | "ttlMs" | "cacheScope" | "nextCursor" | "inputRequests"
        | "requestState" | "isError" => true,
        "structuredContent" => first != b'{',
        _ => false,
    }
}

pub(super) fn closed() -> CallFault {
    CallFault::Connection(ClientFault {
        kind: FaultKind::Closed,
        sent: true,
    })
}

pub(super) fn too_large() -> CallFault {
    CallFault::Connection(ClientFault {
        kind: FaultKind::TooLarge,
        sent: true,
    })
}

fn broken(fault: PassageFault) -> CallFault {
    CallFault::Protocol(match fault {
        PassageFault::Syntax => "a large answer that is not valid JSON",
        PassageFault::TooCostly => "a large answer with more beside its content than is held",
        PassageFault::DuplicateMember => "a large answer with a member twice",
        PassageFault::WrongKind => "a large message that is no answer",
    })
}

impl Large {
    /// An answer that is a body of JSON, of which `begun` has come.
    pub(super) fn of_body(reply: Reply, id: &Id, begun: &[u8]) -> Result<Box<Self>, CallFault> {
        let mut large = Self::new(reply, id, Source::Body(Vec::new()));
        large.take_body(begun)?;
        large.begun()
    }

    /// An answer that is an event, of which the beginning has come.
    pub(super) fn of_stream(
        reply: Reply,
        id: &Id,
        mut reader: SseReader,
    ) -> Result<Box<Self>, CallFault> {
        let begun = reader.take_data().map_err(|_| not_utf8())?;
        let mut large = Self::new(reply, id, Source::Stream(Box::new(reader)));
        large.pass(&begun)?;
        large.begun()
    }

    fn new(reply: Reply, id: &Id, source: Source) -> Self {
        Self {
            reply,
            id: id.clone(),
            passage: Some(Passage::new(is_kept_back)),
            source,
            ready: Vec::new(),
            last: None,
        }
    }

    /// A message that is so large before its `result` has begun is none that anyone waits for.
    fn begun(self) -> Result<Box<Self>, CallFault> {
        match self.passage.as_ref().is_some_and(Passage::has_begun) {
            true => Ok(Box::new(self)),
            false => Err(broken(PassageFault::WrongKind)),
        }
    }

    fn pass(&mut self, text: &str) -> Result<(), CallFault> {
        match &mut self.passage {
            Some(passage) => passage.feed(text, &mut self.ready).map_err(broken),
            None => Ok(()),
        }
    }

    fn take_body(&mut self, bytes: &[u8]) -> Result<(), CallFault> {
        let Source::Body(part) = &mut self.source else {
            return Ok(());
        };
        part.extend_from_slice(bytes);
        let bytes = std::mem::take(part);
        let (sound, left) = match std::str::from_utf8(&bytes) {
            Ok(sound) => (sound, &[][..]),
            Err(error) if error.error_len().is_none() => {
                let (sound, left) = bytes.split_at(error.valid_up_to());
                (std::str::from_utf8(sound).unwrap_or_default(), left)
            }
            Err(_) => return Err(not_utf8()),
        };
        self.pass(sound)?;
        self.source = Source::Body(left.to_vec());
        Ok(())
    }

    /// Reads until something can go on.
    async fn read(&mut self) -> Result<Piece, CallFault> {
        loop {
            if !self.ready.is_empty() {
                return Ok(Piece::Members(std::mem::take(&mut self.ready)));
            }
            if let Some(last) = self.last.take() {
                return Ok(Piece::Last(last));
            }
            if self.passage.is_none() {
                return Err(closed());
            }
            let chunk = self.reply.next_chunk().await?;
            match (&mut self.source, chunk) {
                (Source::Body(_), Some(chunk)) => self.take_body(&chunk)?,
                (Source::Body(left), None) if left.is_empty() => self.end()?,
                (Source::Body(_), None) => return Err(not_utf8()),
                (Source::Stream(_), None) => return Err(closed()),
                (Source::Stream(reader), Some(chunk)) => {
                    let mut first = None;
                    let read = reader.feed(&chunk, |event| {
                        first.get_or_insert(event.data);
                    });
                    read.map_err(|_| not_utf8())?;
                    if let Some(data) = first {
                        self.pass(&data)?;
                        self.end()?;
                    } else {
                        let data = reader.take_data().map_err(|_| not_utf8())?;
                        self.pass(&data)?;
                    }
                }
            }
        }
    }

    /// The message is whole.
    fn end(&mut self) -> Result<(), CallFault> {
        let Some(passage) = self.passage.take() else {
            return Err(closed());
        };
        let Passed { message, result } = passage.finish().map_err(broken)?;
        let member = |name: &str| {
            let found = message.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.get())
        };
        let ours = member("id") == Some(self.id.as_json());
        if !ours || member("jsonrpc") != Some("\"2.0\"") || member("error").is_some() {
            return Err(CallFault::Protocol("an answer to another request"));
        }
        let last = RpcResult::of_members(result).map_err(CallFault::Protocol)?;
        if last.kind() != ResultKind::Complete {
            return Err(CallFault::Protocol("a large answer that is not the last"));
        }
        self.last = Some(last);
        Ok(())
    }
}

fn not_utf8() -> CallFault {
    CallFault::Protocol("a broken event stream, or bytes that are no text")
}

impl Pieces for Large {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Result<Piece, CallFault>> + Send + '_>> {
        Box::pin(self.read())
    }
}
