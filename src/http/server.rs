//! The server: accepts connections, and on each runs one handler at a time beside a watch on the socket.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use smol::Task;
use smol::future::{FutureExt, yield_now};

use super::caller::CallerSocket;
use super::head::{Method, RequestHead};
use super::inbound::{BodyReader, Inbound, NoHead, Watch};
use super::limits::{Limits, Place};
use super::respond::{Responded, Responder, Then};
use crate::time::Elapsed;
use crate::world::tls::HANDSHAKE_TIME;
use crate::world::{Listener, Stream, World};

/// A pause after accepting failed for want of descriptors or memory; without it the loop would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers requests.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request.
    ///
    /// The future is dropped the moment the caller leaves, at whichever await it is: what must outlive that is
    /// handed to an owner that lives longer before the await.
    fn handle(
        &self,
        request: Request,
        responder: Responder,
    ) -> impl Future<Output = Responded> + Send;
}

/// One request: its head, and its body still to be read.
pub struct Request {
    /// Method, target, headers.
    pub head: RequestHead,
    /// The body.
    pub body: BodyReader,
    /// The address at the other end of the connection.
    pub peer: SocketAddr,
    /// A look at whether the caller is still there.
    pub caller: CallerSocket,
}

/// Serves `listener` until the future is dropped, which closes every connection and drops every handler. Once the world is
/// ending it takes no more connections and no more requests on those that are open, and is done when the last one is.
pub async fn serve<H: Handler>(
    world: World,
    listener: Listener,
    handler: Arc<H>,
    limits: Arc<Limits>,
) {
    let connections = Arc::new(Connections::default());
    let mut accepts = true;
    while let Some(accepted) = unless_ending(&world, listener.accept()).await {
        match accepted {
            Ok((stream, peer)) => {
                accepts = true;
                connections
                    .admit(&world, stream, peer, &handler, &limits)
                    .await;
                // Whoever connects without a pause must not keep the connections that are open from running.
                yield_now().await;
            }
            // Out of descriptors or memory, or a connection that ended in the queue. Calls that run live on.
            Err(error) => {
                // Said once and not at each try, of which there are ten a second.
                if std::mem::take(&mut accepts) {
                    log::warn!("connections cannot be accepted for now: {error}");
                }
                world.clock.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    // None of them is on the list any more, so that each ends by itself and is waited for here.
    let last = std::mem::take(&mut connections.tasks().live);
    for task in last.into_values() {
        task.await;
    }
}

/// What `future` gives, unless the world is ending first.
async fn unless_ending<T>(world: &World, future: impl Future<Output = T>) -> Option<T> {
    let ending = async {
        world.ending.begun().await;
        None
    };
    smol::future::or(ending, async { Some(future.await) }).await
}

/// The tasks of one server's connections. Dropping it drops them.
#[derive(Default)]
struct Connections {
    tasks: Mutex<Tasks>,
}

#[derive(Default)]
struct Tasks {
    next: u64,
    live: HashMap<u64, Task<()>>,
}

impl Connections {
    async fn admit<H: Handler>(
        self: &Arc<Self>,
        world: &World,
        stream: Stream,
        peer: SocketAddr,
        handler: &Arc<H>,
        limits: &Arc<Limits>,
    ) {
        let Some(place) = limits.connections.place() else {
            return refuse(&stream).await;
        };
        let connection = Connection {
            world: world.clone(),
            inbound: Inbound::new(stream, limits.buffered.clone()),
            _place: place,
            peer,
            handler: handler.clone(),
            limits: limits.clone(),
        };
        let owner = Arc::downgrade(self);
        // Under the lock until it is on the list: on another thread it could otherwise end before.
        let mut tasks = self.tasks();
        tasks.next += 1;
        let id = tasks.next;
        let task = world.spawn(async move {
            // A panic in one connection must not end the others.
            if AssertUnwindSafe(connection.run())
                .catch_unwind()
                .await
                .is_err()
            {
                log::error!("a handler panicked; its connection is closed");
            }
            if let Some(owner) = owner.upgrade() {
                owner
                    .tasks()
                    .live
                    .remove(&id)
                    .into_iter()
                    .for_each(Task::detach);
            }
        });
        tasks.live.extend(task.map(|task| (id, task)));
    }

    fn tasks(&self) -> std::sync::MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One write, not waited for: a server at its limit owes a stranger no more. With TLS it goes nowhere, since no hands
/// were shaken.
async fn refuse(stream: &Stream) {
    const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    poll_fn(|cx| {
        let _ = stream.poll_write(cx, FULL);
        Poll::Ready(())
    })
    .await;
    // Closed with the request unread it would be reset, which can destroy the answer (RFC 9112 section 9.6).
    let _ = stream.try_read(&mut [0; 4096]);
}

struct Connection<H> {
    world: World,
    inbound: Arc<Inbound>,
    /// Free again once the socket is closed.
    _place: Place,
    peer: SocketAddr,
    handler: Arc<H>,
    limits: Arc<Limits>,
}

impl<H: Handler> Connection<H> {
    async fn run(self) {
        if !self.shake_hands().await {
            return;
        }
        loop {
            let head = match self.inbound.head(&self.world, &self.limits).await {
                Ok(head) => head,
                // Nothing is half said, so the end is an honest one.
                Err(NoHead::Ended) => return self.inbound.stream.shutdown_write(),
                Err(NoHead::Slow) => {
                    return self.refuse(408, "the request's head came too slowly").await;
                }
                Err(NoHead::Overloaded) => {
                    return self
                        .refuse(503, "too many requests are being read at once")
                        .await;
                }
                Err(NoHead::Refused(fault)) => {
                    return self.refuse(fault.status(), &fault.to_string()).await;
                }
            };
            match self.answer(head).await {
                Some(Responded { then: Then::Reuse }) if !self.world.ending.has_begun() => {}
                Some(Responded { then: Then::Reuse }) => {
                    return self.inbound.linger(&self.world.clock).await;
                }
                Some(Responded { then: Then::Close }) => {
                    return self.inbound.linger(&self.world.clock).await;
                }
                // The caller left: nobody to be polite to, and the handler is already dropped.
                Some(Responded { then: Then::Cut }) | None => return,
            }
        }
    }

    /// The handshake, where the listener speaks TLS. It runs here, so that a slow one holds up nobody else.
    async fn shake_hands(&self) -> bool {
        let clock = &self.world.clock;
        let shaking = self.inbound.stream.handshake();
        match clock.timeout(clock.after(HANDSHAKE_TIME), shaking).await {
            Ok(Ok(())) => true,
            Ok(Err(fault)) => {
                // Scanners and health checks end here all day: no matter for an operator.
                log::debug!("no TLS with {}: {fault}", self.peer);
                false
            }
            Err(Elapsed) => false,
        }
    }

    /// Runs the handler beside the watch on the socket. `None`: the caller left and the handler was dropped.
    async fn answer(&self, head: RequestHead) -> Option<Responded> {
        let responder = Responder::new(
            self.inbound.clone(),
            self.world.clock.clone(),
            self.limits.body_time,
            // After a CONNECT the other side may go on in another protocol.
            head.keep_alive && head.method != Method::Connect,
            head.method == Method::Head,
            head.chunks,
        );
        if head.method == Method::Connect {
            // RFC 9110 section 15.5.6: a 405 names what is allowed, and to a host and port that is nothing.
            let reason = "CONNECT is not served here";
            let answered = self
                .short(responder, 405, Some(("allow", "")), reason)
                .await;
            return Some(answered);
        }
        let body = BodyReader::new(
            self.inbound.clone(),
            self.world.clock.clone(),
            &self.limits,
            head.expect_continue,
        );
        let caller = CallerSocket::new(self.inbound.clone());
        let request = Request {
            head,
            body,
            peer: self.peer,
            caller,
        };
        // Boxed, so that an idle connection does not hold the room that a request needs.
        let mut handler = Box::pin(self.handler.handle(request, responder));
        poll_fn(|cx| {
            loop {
                // The socket first: a close that is visible here must win over a handler that is ready to act.
                if self.inbound.poll_watch(cx) == Watch::Left {
                    return Poll::Ready(None);
                }
                if let Poll::Ready(responded) = handler.as_mut().poll(cx) {
                    return Poll::Ready(Some(responded));
                }
                if !self.inbound.watch_is_due() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    async fn refuse(&self, status: u16, reason: &str) {
        let responder = Responder::new(
            self.inbound.clone(),
            self.world.clock.clone(),
            self.limits.body_time,
            false,
            false,
            true,
        );
        let _ = self.short(responder, status, None, reason).await;
        self.inbound.linger(&self.world.clock).await;
    }

    async fn short(
        &self,
        responder: Responder,
        status: u16,
        header: Option<(&str, &str)>,
        reason: &str,
    ) -> Responded {
        let body = format!("{reason}\n");
        let mut headers = vec![("content-type", "text/plain; charset=utf-8")];
        headers.extend(header);
        responder.send(status, &headers, body.as_bytes()).await
    }
}
