//! News of one resource of a server, for one caller.

use std::time::Duration;

use super::remote::Remote;
use crate::json::quote;
use crate::mcp::client::{CallFault, Client, Listener, News, Outgoing};
use crate::mcp::{Announcer, Change, Changes, RpcError};
use crate::time::Instant;
use crate::world::World;

/// For a server's answer to a legacy subscription.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// A legacy server is told again: its session, or its process, may be another by now.
const AGAIN: Duration = Duration::from_secs(60);

/// One stream of a modern server is held no longer: a connection that is dead need not look so.
const HELD_FOR: Duration = Duration::from_secs(1800);

/// How long to stay away from a modern server whose stream has ended, twice as long each time that it ends soon.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(64);

/// Subscribes to the resource `there`, which the caller knows as `here`. Dropping the news ends it at a modern server; a
/// legacy one is not told, since its session is everybody's.
///
/// # Errors
/// A legacy server's own, and that it cannot be reached.
pub(super) async fn subscribe(
    world: &World,
    remote: &Remote,
    there: &str,
    here: &str,
) -> Result<Changes, RpcError> {
    let client = remote.client.clone();
    let clock = world.clock.clone();
    let unreachable = |fault: CallFault| match fault {
        CallFault::Rpc(error) => error.with_code(-32602),
        fault => RpcError::new(-32603, format!("{}: {fault}", remote.slug)),
    };
    let deadline = clock.after(ANSWER_TIME);
    let version = client.version(deadline).await.map_err(unreachable)?;
    let heard = client
        .announcer()
        .map(Announcer::listen)
        .unwrap_or_default();
    if version.is_modern() {
        let announcer = Announcer::default();
        let heard = heard.and(announcer.listen()).of_resource(there, here);
        let there = there.to_owned();
        let listening = world.spawn(async move {
            let mut pause = PAUSE;
            loop {
                let opened = clock.now();
                listen(&client, &there, clock.after(HELD_FOR), &announcer).await;
                pause = match clock.now().since(opened) > LONGEST_PAUSE {
                    true => PAUSE,
                    false => LONGEST_PAUSE.min(pause * 2),
                };
                clock.sleep(pause).await;
                // Whether it changed meanwhile, nobody said.
                announcer.announce(&Change::Resource(there.clone()));
            }
        });
        return Ok(heard.keeping(Box::new(listening)));
    }
    tell(&client, there, deadline).await.map_err(unreachable)?;
    let heard = heard.of_resource(there, here);
    let there = there.to_owned();
    let telling = world.spawn(async move {
        loop {
            clock.sleep(AGAIN).await;
            // What fails now may work the next time.
            let _ = tell(&client, &there, clock.after(ANSWER_TIME)).await;
        }
    });
    Ok(heard.keeping(Box::new(telling)))
}

/// Listens to a modern server until its stream ends.
async fn listen(client: &Client, there: &str, deadline: Instant, announcer: &Announcer) {
    let wanted = format!(r#"{{"resourceSubscriptions":[{}]}}"#, quote(there));
    let mut request = Outgoing::new("subscriptions/listen");
    request.params.push(("notifications", &wanted));
    let mut announce = |news: News<'_>| {
        if let News::Resource(uri) = news {
            announcer.announce(&Change::Resource(uri.to_owned()));
        }
    };
    let mut listener = Listener {
        news: &mut announce,
        questions: None,
    };
    let _ = client.request(&request, deadline, &mut listener).await;
}

/// Tells a legacy server what its session is to hear of.
async fn tell(client: &Client, there: &str, deadline: Instant) -> Result<(), CallFault> {
    let uri = quote(there);
    let mut request = Outgoing::new("resources/subscribe");
    request.params.push(("uri", &uri));
    let mut nobody = Listener {
        news: &mut |_| {},
        questions: None,
    };
    client.request(&request, deadline, &mut nobody).await?;
    Ok(())
}
