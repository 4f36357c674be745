//! A server on standard streams: one message a line, both eras on one stream, all of it in one future.
//!
//! There is one client, and the connection is its session. The end of its input is the client's leaving: everything in
//! flight is dropped, as it is when the future itself is.

use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use smol::channel::{Receiver, Sender};
use smol::future::FutureExt;
use smol::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use smol::lock::Semaphore;

use super::answering::{Answering, Done, Next, unless};
use super::crowd::Crowd;
use super::dispatch::{Dispatcher, Kind, Origin, Prepared, agreed, cancelled, meta_of};
use super::lines::{Line, Lines, line};
use super::listen::News;
use super::message::{self, Body, Id, Message, RpcError};
use super::service::{Event, Service};
use super::session::{Nonce, SessionId};
use crate::http::Caller;
use crate::json::Members;
use crate::world::World;

/// The longest line, in bytes, in both directions; as long as a body over HTTP may be by default.
const LINE_BYTES: usize = 33_554_432;

/// Requests in flight, the waiting ones and those of batches included. One more is refused and not left unread: behind it
/// may stand what ends another, or the end itself.
const REQUESTS: usize = 256;

/// Bytes of their lines, which each holds until it is answered; as many as of bodies over HTTP by default.
const REQUEST_BYTES: usize = 268_435_456;

/// Answers of up to [`LINE_BYTES`] that are gathered at once out of pieces. Others wait for it.
const GATHERINGS: usize = 4;

/// Messages on their way to the writer. Whoever has another one holds it, and nothing is read meanwhile.
const QUEUE: usize = 1;

/// Reads in a row before it is the turn of others in the process.
const READS_IN_A_ROW: usize = 16;

/// Serves `service` to one client over a pair of streams, until the end of `input`. Dropping the future ends everything that
/// the client has in flight.
///
/// # Errors
/// That of the stream that failed.
pub async fn serve_stdio<S: Service>(
    world: &World,
    service: Arc<S>,
    principal: S::Principal,
    input: impl AsyncRead + Send,
    output: impl AsyncWrite + Send,
) -> io::Result<()> {
    let (queue, written) = smol::channel::bounded(QUEUE);
    let mut scope = Nonce::default();
    world.random.fill(&mut scope);
    let connection = Connection {
        dispatcher: Dispatcher::new(world.clone(), service),
        principal,
        scope,
        session: Mutex::default(),
        hears: AtomicBool::new(false),
        presence: Arc::default(),
        room: Mutex::default(),
        gatherings: Semaphore::new(GATHERINGS),
        queue,
        waiting: AtomicUsize::new(0),
    };
    let (input, output) = (pin!(input), pin!(output));
    // Whether the client is still there is looked at before anything goes on for it.
    let serving = connection.serve(Lines::new(input, LINE_BYTES));
    smol::future::or(serving, write(output, written)).await
}

/// The one client of a process, and what it has agreed on.
struct Connection<S: Service> {
    dispatcher: Dispatcher<S>,
    principal: S::Principal,
    /// By which messages find requests of both eras here.
    scope: Nonce,
    session: Mutex<Option<SessionId>>,
    /// Whether a legacy client is told of changes.
    hears: AtomicBool,
    presence: Arc<Presence>,
    room: Mutex<Taken>,
    gatherings: Semaphore,
    queue: Sender<Vec<u8>>,
    /// Messages that found the queue full.
    waiting: AtomicUsize,
}

/// Whether the client is there, as far as its input was read.
#[derive(Default)]
struct Presence {
    /// The end of it was seen.
    left: AtomicBool,
    /// So much was sent and not taken that the end could hide behind it.
    hidden: AtomicBool,
}

impl Caller for Presence {
    fn has_left(&self) -> bool {
        self.left.load(Ordering::Acquire) || self.hidden.load(Ordering::Acquire)
    }
}

/// What requests in flight take of the room there is.
#[derive(Clone, Copy, Default)]
struct Taken {
    requests: usize,
    bytes: usize,
}

/// The part of some requests, until it is dropped.
struct Held<'a> {
    room: &'a Mutex<Taken>,
    part: Taken,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut room = lock(self.room);
        room.requests -= self.part.requests;
        room.bytes -= self.part.bytes;
    }
}

/// A message that waits for room in the queue, for as long as it does.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes lines as they come. It ends with an error, or never: the queue is open for as long as anything is read.
async fn write(mut output: Pin<&mut impl AsyncWrite>, lines: Receiver<Vec<u8>>) -> io::Result<()> {
    while let Ok(line) = lines.recv().await {
        output.write_all(&line).await?;
        if lines.is_empty() {
            output.flush().await?;
        }
    }
    Ok(())
}

impl<S: Service> Connection<S> {
    /// Reads lines and answers them, until the end.
    async fn serve<R: AsyncRead + Unpin>(&self, mut lines: Lines<R>) -> io::Result<()> {
        let mut crowd = Crowd::default();
        poll_fn(|cx| {
            for _ in 0..READS_IN_A_ROW {
                let read = lines.poll_ahead(cx)?;
                if matches!(read, Poll::Ready(0)) {
                    self.presence.left.store(true, Ordering::Release);
                    return Poll::Ready(Ok(()));
                }
                let mut went_on = read.is_ready();
                // A client that does not read is not listened to either.
                while self.waiting.load(Ordering::Relaxed) == 0
                    && let Some(line) = lines.next()
                {
                    went_on = true;
                    crowd.push(self.take(line));
                }
                let hidden = lines.is_full();
                self.presence.hidden.store(hidden, Ordering::Release);
                went_on |= crowd.poll(cx);
                if !went_on {
                    return Poll::Pending;
                }
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }

    /// Takes one line. What it does before it first waits is done before the next line is looked at.
    async fn take(&self, line: Line) {
        let bytes = match line {
            Line::Whole(bytes) => bytes,
            Line::TooLong => {
                let why = format!("invalid request: a line has at most {LINE_BYTES} bytes");
                return self.refuse(None, &RpcError::new(-32600, why)).await;
            }
        };
        match message::parse(&bytes) {
            Ok(Body::One(Ok(Message::Request { id, method, params }))) => {
                let Some(_held) = self.hold(1, bytes.len()) else {
                    return self.refuse(Some(&id), &too_many()).await;
                };
                let answered = self.one(&id, method, &params);
                self.or_panicked(Some(&id), answered).await;
            }
            Ok(Body::One(Ok(message))) => self.hear(message).await,
            Ok(Body::Batch(messages)) => {
                let requests = messages
                    .iter()
                    .filter(|message| matches!(message, Ok(Message::Request { .. })));
                let Some(_held) = self.hold(requests.count(), bytes.len()) else {
                    return self.refuse(None, &too_many()).await;
                };
                let answered = self.batch(messages);
                self.or_panicked(None, answered).await;
            }
            Ok(Body::One(Err(error))) | Err(error) => self.refuse(None, &error).await,
        }
    }

    async fn one(&self, id: &Id, method: Cow<'_, str>, params: &Members<'_>) {
        let meta = match meta_of(params) {
            Ok(meta) => meta,
            Err(error) => return self.refuse(Some(id), &error).await,
        };
        let from = self.origin();
        let prepared = match from.prepare(method, params, meta.as_ref()) {
            Ok(prepared) => prepared,
            Err(error) => return self.refuse(Some(id), &error).await,
        };
        match prepared.kind() {
            Kind::Initialize => {
                let (version, capabilities) = agreed(params);
                *lock(&self.session) = Some(SessionId {
                    nonce: self.scope,
                    version,
                    capabilities,
                });
                let answer = self.dispatcher.initialized(&from, id, version).await;
                self.tell(answer).await;
            }
            Kind::Listen => self.listen(&from, id, &prepared).await,
            Kind::Answer => match self.dispatcher.answer(&from, id, &prepared) {
                Ok(answering) => self.answer(Some(id), answering).await,
                Err(error) => self.refuse(Some(id), &error).await,
            },
        }
    }

    async fn batch(&self, messages: Vec<Result<Message<'_>, RpcError>>) {
        let from = self.origin();
        match self.dispatcher.batch(&from, messages) {
            Ok(Some(answering)) => self.answer(None, answering).await,
            Ok(None) => {}
            Err(error) => self.refuse(None, &error).await,
        }
    }

    /// Takes a message that wants no answer.
    async fn hear(&self, message: Message<'_>) {
        let opens = match &message {
            Message::Notification { method, .. } => *method == "notifications/initialized",
            _ => false,
        };
        let from = self.origin();
        if opens && from.session.is_some() && !self.hears.swap(true, Ordering::Relaxed) {
            let news = self.dispatcher.lists(&from).await;
            return self.pass_on(&news).await;
        }
        // Where there are no headers everything is taken, or left.
        let _ = self.dispatcher.take(&from, message);
    }

    async fn listen(&self, from: &Origin<'_, S::Principal>, id: &Id, prepared: &Prepared<'_>) {
        let running = match self.dispatcher.enter(from, id) {
            Ok(running) => running,
            Err(error) => return self.refuse(Some(id), &error).await,
        };
        let listening = async {
            let news = self.dispatcher.listen(from, id, &prepared.request).await;
            let news = match news {
                Ok(news) => news,
                Err(error) => return self.refuse(Some(id), &error).await,
            };
            self.pass_on(&news).await;
            // "It MUST send `notifications/cancelled`" says one page, and another "SHOULD send the success response".
            if let Some(answer) = news.closing() {
                self.tell(answer).await;
                self.tell(format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{}}}}}"#,
                    id.as_json()
                ))
                .await;
            }
        };
        // Of one that the client ends the server says nothing: it "MUST NOT send any further messages for it".
        unless(cancelled(running), listening).await;
    }

    async fn pass_on(&self, news: &News) {
        if let Some(message) = news.acknowledged() {
            self.tell(message).await;
        }
        while let Some(message) = news.next().await {
            self.tell(message).await;
        }
    }

    /// Tells what comes of requests. Nothing more is told once they are cancelled.
    async fn answer(&self, id: Option<&Id>, mut answering: Answering<'_>) {
        let done = loop {
            match answering.next().await {
                Next::Event(Event::Message(message)) => {
                    let telling = self.tell(message);
                    if unless(&mut answering.cancelled, telling).await.is_none() {
                        return;
                    }
                }
                Next::Event(Event::Hold) => {}
                Next::Cancelled => return,
                Next::Done(done) => break done,
            }
        };
        let Answering {
            events, cancelled, ..
        } = answering;
        let telling = async {
            while let Ok(event) = events.try_recv() {
                if let Event::Message(message) = event {
                    self.tell(message).await;
                }
            }
            self.finish(id, done).await;
        };
        unless(cancelled, telling).await;
    }

    /// Tells the answer. A line is whole, so that one which comes in pieces is gathered first.
    async fn finish(&self, id: Option<&Id>, done: Done) {
        let _turn = match &done.large {
            Some(_) => Some(self.gatherings.acquire().await),
            None => None,
        };
        self.tell(done.in_one_piece(id, LINE_BYTES).await).await;
    }

    /// A panic in one request must not end the others.
    async fn or_panicked(&self, id: Option<&Id>, answering: impl Future<Output = ()>) {
        if AssertUnwindSafe(answering).catch_unwind().await.is_err() {
            log::error!("a request panicked");
            let error = RpcError::new(-32603, "the server failed at this request");
            self.refuse(id, &error).await;
        }
    }

    async fn refuse(&self, id: Option<&Id>, error: &RpcError) {
        self.tell(error.to_json(id)).await;
    }

    /// Hands a message to the writer, once there is room.
    async fn tell(&self, message: String) {
        let _waiting = Waiting::new(&self.waiting);
        // Closed: the writer has failed, and this is about to end.
        let _ = self.queue.send(line(message)).await;
    }

    /// Room for so many requests of so many bytes, if there is.
    fn hold(&self, requests: usize, bytes: usize) -> Option<Held<'_>> {
        let mut room = lock(&self.room);
        let all = Taken {
            requests: room.requests + requests,
            bytes: room.bytes + bytes,
        };
        if all.requests > REQUESTS || all.bytes > REQUEST_BYTES {
            return None;
        }
        *room = all;
        Some(Held {
            room: &self.room,
            part: Taken { requests, bytes },
        })
    }

    fn origin(&self) -> Origin<'_, S::Principal> {
        Origin {
            principal: &self.principal,
            headers: None,
            session: *lock(&self.session),
            scope: Some(self.scope),
            caller: self.presence.clone(),
        }
    }
}

fn too_many() -> RpcError {
    RpcError::new(
        -32603,
        "too many requests are in flight; this one was not taken",
    )
}
