//! What the gateway tells a mount about asking: `_meta["dev.strad/elicitation"]`.
//!
//! A mount takes this key as the gateway's word, because the gateway never forwards a caller's own `_meta`.

use std::fmt;
use std::time::Duration;

use serde_json::value::RawValue;

use super::url::{Allowlist, ApprovalUrl};
use crate::json::{Members, quote, string};
use crate::secret::Secret;

/// The key in the `_meta` of a `tools/call`.
pub const KEY: &str = "dev.strad/elicitation";

/// Headers that one channel may carry; an edge wants two.
const MAX_HEADERS: usize = 16;

/// The longest window, a day: beyond it a number in `ttlMs` is a mistake.
const MAX_TTL_MS: u64 = 86_400_000;

/// Where to ask, how long, and with which headers. The URL and the headers' values are credentials.
#[derive(Clone, Debug)]
pub struct Channel {
    /// Where the question is sent.
    pub url: ApprovalUrl,
    /// How long a person has, from the moment that the mount receives the call.
    pub ttl: Duration,
    /// The server that asks.
    pub slug: String,
    /// What an edge in front of the endpoint wants, sent with the POST and with every poll.
    pub headers: Vec<(String, Secret)>,
}

/// The three forms of the key.
#[derive(Clone, Debug)]
pub enum Forwarded {
    /// A person may be asked.
    Channel(Channel),
    /// Nobody may be asked; the reason is repeated by the tool's error.
    Refused {
        /// The rule and at most the origin, never the URL.
        reason: String,
        /// The server that would have asked.
        slug: String,
    },
    /// The configuration waives the question for this server.
    Skip {
        /// The server that does not ask.
        slug: String,
    },
}

/// The key held something that is none of its three forms. The gateway's fault, or a stranger's: nobody is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable(&'static str);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the forwarded approval channel is unusable: {}", self.0)
    }
}

impl std::error::Error for Unreadable {}

/// The window that a person gets out of a call's `timeoutMs`: "the slug's timeoutMs less a margin of a quarter of it,
/// at most 15 seconds" (spec, core).
#[must_use]
pub fn ttl_of(timeout: Duration) -> Duration {
    timeout - (timeout / 4).min(Duration::from_secs(15))
}

impl Forwarded {
    /// The value of the key. It holds credentials: for the wire to the mount and for nothing else.
    #[must_use]
    pub fn to_json(&self) -> String {
        match self {
            Self::Channel(channel) => {
                let headers: Vec<_> = channel
                    .headers
                    .iter()
                    .map(|(name, value)| format!("{}:{}", quote(name), quote(value.expose())))
                    .collect();
                format!(
                    r#"{{"url":{},"ttlMs":{},"slug":{},"headers":{{{}}}}}"#,
                    quote(channel.url.url().as_str()),
                    channel.ttl.as_millis(),
                    quote(&channel.slug),
                    headers.join(","),
                )
            }
            Self::Refused { reason, slug } => {
                format!(r#"{{"refused":{},"slug":{}}}"#, quote(reason), quote(slug))
            }
            Self::Skip { slug } => format!(r#"{{"skip":true,"slug":{}}}"#, quote(slug)),
        }
    }

    /// Reads the key's value. The URL is held to the mount's own `allowlist` again: there is no other way to one.
    ///
    /// # Errors
    /// [`Unreadable`]: "A missing or impossible `ttlMs`, an unknown member, or two of the three forms at once is a
    /// refusal" (interface).
    pub fn parse(value: &RawValue, allowlist: &Allowlist) -> Result<Self, Unreadable> {
        let members = Members::parse(value.get()).map_err(|_| Unreadable("not an object"))?;
        let known = ["url", "ttlMs", "slug", "headers", "refused", "skip"];
        if members.iter().any(|(name, _)| !known.contains(&name)) {
            return Err(Unreadable("an unknown member"));
        }
        let text = |name: &str| members.get(name).and_then(string).map(String::from);
        let slug = text("slug").ok_or(Unreadable("no slug"))?;
        let has = |name: &str| members.get(name).is_some();
        match (has("url"), has("refused"), has("skip")) {
            (true, false, false) => {
                let raw = text("url").ok_or(Unreadable("the url is not a string"))?;
                let url = allowlist.admit(raw.as_bytes()).map_err(|_| {
                    Unreadable("the url is not under this mount's allowed prefixes")
                })?;
                let ttl = members.get("ttlMs").and_then(|ttl| ttl.get().parse().ok());
                let ttl = ttl
                    .filter(|ms| (1..=MAX_TTL_MS).contains(ms))
                    .map(Duration::from_millis)
                    .ok_or(Unreadable("a missing or impossible ttlMs"))?;
                let headers = members.get("headers").map_or(Ok(Vec::new()), headers)?;
                Ok(Self::Channel(Channel {
                    url,
                    ttl,
                    slug,
                    headers,
                }))
            }
            (false, true, false) if !has("ttlMs") && !has("headers") => {
                let reason = text("refused").ok_or(Unreadable("the refusal is not a string"))?;
                Ok(Self::Refused { reason, slug })
            }
            (false, false, true) if !has("ttlMs") && !has("headers") => {
                match members.get("skip").map(RawValue::get) {
                    Some("true") => Ok(Self::Skip { slug }),
                    _ => Err(Unreadable("skip is not true")),
                }
            }
            _ => Err(Unreadable("not exactly one of url, refused and skip")),
        }
    }
}

fn headers(value: &RawValue) -> Result<Vec<(String, Secret)>, Unreadable> {
    let members =
        Members::parse(value.get()).map_err(|_| Unreadable("headers is not an object"))?;
    if members.len() > MAX_HEADERS {
        return Err(Unreadable("too many headers"));
    }
    members
        .iter()
        .map(|(name, value)| {
            let value = string(value).ok_or(Unreadable("a header is not a string"))?;
            Ok((name.to_owned(), Secret::new(value.into_owned())))
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn allowlist() -> Allowlist {
        Allowlist::parse(&["https://desk.example/s/".to_owned()]).unwrap()
    }

    fn parse(text: &str) -> Result<Forwarded, Unreadable> {
        Forwarded::parse(
            &RawValue::from_string(text.to_owned()).unwrap(),
            &allowlist(),
        )
    }

    #[test]
    fn the_window_is_the_timeout_less_its_margin() {
        for (timeout, ttl) in [
            (120_000, 105_000),
            (240_000, 225_000),
            (40_000, 30_000),
            (60_000, 45_000),
        ] {
            assert_eq!(
                ttl_of(Duration::from_millis(timeout)),
                Duration::from_millis(ttl)
            );
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let url = allowlist()
            .admit(b"https://desk.example/s/4711-token")
            .unwrap();
        let headers = vec![(
            "CF-Access-Client-Id".to_owned(),
            Secret::new("7f\"3a".to_owned()),
        )];
        let ttl = Duration::from_millis(105_000);
        let channel = Channel {
            url,
            ttl,
            slug: "mail".to_owned(),
            headers,
        };
        let Forwarded::Channel(read) =
            parse(&Forwarded::Channel(channel.clone()).to_json()).unwrap()
        else {
            panic!("not a channel");
        };
        assert_eq!(read.url.url(), channel.url.url());
        assert_eq!((read.ttl, read.slug), (channel.ttl, channel.slug));
        assert_eq!(read.headers[0].1.expose(), "7f\"3a");
        let refused = Forwarded::Refused {
            reason: "why \"so\"".to_owned(),
            slug: "mail".to_owned(),
        };
        assert!(
            matches!(parse(&refused.to_json()).unwrap(), Forwarded::Refused { reason, .. } if reason == "why \"so\"")
        );
        let skip = Forwarded::Skip {
            slug: "mail".to_owned(),
        };
        assert!(matches!(
            parse(&skip.to_json()).unwrap(),
            Forwarded::Skip { .. }
        ));
    }

    #[test]
    fn every_other_form_is_a_refusal() {
        let bad = [
            "null",
            "[]",
            "true",
            r#"{"slug":"a"}"#,
            r#"{"url":"https://desk.example/s/t","slug":"a"}"#,
            r#"{"url":"https://desk.example/s/t","ttlMs":0,"slug":"a"}"#,
            r#"{"url":"https://desk.example/s/t","ttlMs":-1,"slug":"a"}"#,
            r#"{"url":"https://desk.example/s/t","ttlMs":1.5,"slug":"a"}"#,
            r#"{"url":"https://desk.example/s/t","ttlMs":"9","slug":"a"}"#,
            r#"{"url":"https://desk.example/s/t","ttlMs":99999999999,"slug":"a"}"#,
            r#"{"url":"https://desk.example/s/t","ttlMs":9}"#,
            r#"{"url":"https://other.example/s/t","ttlMs":9,"slug":"a"}"#,
            r#"{"url":"https://desk.example/s/t","ttlMs":9,"slug":"a","extra":1}"#,
            r#"{"url":"https://desk.example/s/t","ttlMs":9,"slug":"a","skip":true}"#,
            r#"{"url":"https://desk.example/s/t","ttlMs":9,"slug":"a","refused":"x"}"#,
            r#"{"url":"https://desk.example/s/t","ttlMs":9,"slug":"a","headers":[]}"#,
            r#"{"url":"https://desk.example/s/t","ttlMs":9,"slug":"a","headers":{"x":1}}"#,
            r#"{"skip":"true","slug":"a"}"#,
            r#"{"skip":false,"slug":"a"}"#,
            r#"{"skip":1,"slug":"a"}"#,
            r#"{"skip":true,"slug":"a","refused":"x"}"#,
            r#"{"skip":true,"slug":"a","ttlMs":9}"#,
            r#"{"skip":true}"#,
            r#"{"refused":"x"}"#,
            r#"{"refused":1,"slug":"a"}"#,
            r#"{"skip":true,"skip":true,"slug":"a"}"#,
        ];
        for text in bad {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
