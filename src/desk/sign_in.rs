//! The door: who calls, by a key or by a browser's cookie, and whether a write was meant by them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::Desk;
use super::page;
use super::people::{Known, SIGN_IN_TIME};
use super::reply::Reply;
use crate::http::RequestHead;

/// The cookie, over https: with this prefix no other host and no plain connection can have set it (RFC 6265bis section
/// 4.1.3.2).
const SECURE_COOKIE: &str = "__Host-countersign-desk";

/// The cookie, over http on loopback, where browsers keep no secure one.
const PLAIN_COOKIE: &str = "countersign-desk";

/// Somebody who may see and answer.
pub(super) struct Caller {
    pub(super) person: Arc<Known>,
    /// Until when; a key has no end of its own.
    pub(super) until_wall_ms: u64,
    /// What their browser sent, if it was no key: then a write needs the token that fits it.
    pub(super) cookie: Option<String>,
}

/// Why a caller is nobody.
pub(super) enum NotSignedIn {
    /// Neither a key nor a cookie that holds.
    Nobody,
    /// Too many wrong keys from that address; no key is looked at for so long.
    Wait(Duration),
    WrongKey,
}

impl From<NotSignedIn> for Reply {
    fn from(why: NotSignedIn) -> Self {
        let refusal = |message| {
            Self::fault(401, "Unauthorized", message).with("www-authenticate", "Bearer".to_owned())
        };
        match why {
            NotSignedIn::Nobody => refusal("Sign in first."),
            NotSignedIn::Wait(wait) => Self::fault(
                429,
                "Too Many Requests",
                "Too many wrong keys from this address.",
            )
            .retry_after(whole_seconds(wait)),
            NotSignedIn::WrongKey => refusal("This key opens nothing here."),
        }
    }
}

/// The fields of a form.
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    /// Reads `application/x-www-form-urlencoded`; `None` if a field is there twice, since then it does not say one
    /// thing.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let mut fields: Vec<(String, String)> = Vec::new();
        for (name, value) in url::form_urlencoded::parse(body) {
            if fields.iter().any(|(earlier, _)| *earlier == name) {
                return None;
            }
            fields.push((name.into_owned(), value.into_owned()));
        }
        Some(Self(fields))
    }

    /// The one field of this name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let mut fields = self.0.iter();
        let (_, value) = fields.find(|(field, _)| field == name)?;
        Some(value)
    }
}

impl Desk {
    /// Who calls: by a key, as the terminal does, or else by a browser's cookie.
    pub(super) fn caller(&self, head: &RequestHead, peer: IpAddr) -> Result<Caller, NotSignedIn> {
        let Ok(authorization) = head.headers.only("authorization") else {
            return Err(NotSignedIn::Nobody);
        };
        // A scheme that is not ours may be that of an edge before us.
        match authorization.and_then(bearer) {
            Some(key) => Ok(Caller {
                person: self.by_key(key, peer)?,
                until_wall_ms: u64::MAX,
                cookie: None,
            }),
            None => self.signed_in(head).ok_or(NotSignedIn::Nobody),
        }
    }

    /// Who calls by a browser's cookie.
    pub(super) fn signed_in(&self, head: &RequestHead) -> Option<Caller> {
        let cookies = head.headers.only("cookie").ok()??;
        let named = cookies
            .split(';')
            .filter_map(|pair| pair.trim().split_once('='))
            .find(|(name, _)| *name == self.cookie_name());
        let (_, cookie) = named?;
        let signed_in = self.people.by_cookie(cookie, self.world.clock.wall_ms())?;
        Some(Caller {
            person: signed_in.person,
            until_wall_ms: signed_in.until_wall_ms,
            cookie: Some(cookie.to_owned()),
        })
    }

    fn by_key(&self, key: &str, peer: IpAddr) -> Result<Arc<Known>, NotSignedIn> {
        if let Some(wait) = self.throttle.wait(peer) {
            return Err(NotSignedIn::Wait(wait));
        }
        self.people.by_key(key).ok_or_else(|| {
            self.throttle.count_wrong(peer);
            log::warn!("a wrong key from {peer}");
            NotSignedIn::WrongKey
        })
    }

    /// `POST /sign-in`: a cookie for a key.
    pub(super) fn sign_in(&self, form: &Form, peer: IpAddr) -> Reply {
        let fault = |status, text| Reply::html(status, page::sign_in(Some(text)));
        match self.by_key(form.get("key").unwrap_or_default(), peer) {
            Ok(person) => {
                let seconds = SIGN_IN_TIME.as_secs();
                let until_wall_ms = self.world.clock.wall_ms().saturating_add(seconds * 1000);
                let cookie = self.people.cookie(&person, until_wall_ms);
                log::info!("{:?} signed in", person.id);
                Reply::see_other("/".to_owned())
                    .with("set-cookie", self.set_cookie(&cookie, seconds))
            }
            Err(NotSignedIn::Wait(wait)) => {
                let wait = whole_seconds(wait);
                let text = format!("Too many wrong keys. Try again in {wait} s.");
                fault(429, &text).retry_after(wait)
            }
            Err(NotSignedIn::Nobody | NotSignedIn::WrongKey) => {
                fault(401, "This key opens nothing here.")
            }
        }
    }

    /// `POST /sign-out`: the browser forgets its cookie.
    pub(super) fn sign_out(&self, head: &RequestHead, form: &Form) -> Reply {
        if let Some(caller) = self.signed_in(head)
            && !self.is_meant(&caller, form.get("csrf"))
        {
            return stale_page();
        }
        Reply::see_other("/".to_owned()).with("set-cookie", self.set_cookie("", 0))
    }

    /// Whether a write was meant by whoever is signed in: it carries the token that only their page has, or a key,
    /// which no page of a stranger can send.
    pub(super) fn is_meant(&self, caller: &Caller, token: Option<&str>) -> bool {
        match (&caller.cookie, token) {
            (None, _) => true,
            (Some(cookie), Some(token)) => self.people.is_csrf_token(cookie, token),
            (Some(_), None) => false,
        }
    }

    /// Refuses a write of the API that was not meant.
    pub(super) fn check_meant(&self, caller: &Caller, head: &RequestHead) -> Result<(), Reply> {
        let token = head.headers.only("x-csrf-token").ok().flatten();
        if self.is_meant(caller, token) {
            return Ok(());
        }
        let message = "The page's token is missing or old. Load the page again.";
        Err(Reply::fault(403, "Forbidden", message))
    }

    fn cookie_name(&self) -> &'static str {
        match self.site.is_secure() {
            true => SECURE_COOKIE,
            false => PLAIN_COOKIE,
        }
    }

    fn set_cookie(&self, value: &str, seconds: u64) -> String {
        let name = self.cookie_name();
        let secure = if self.site.is_secure() {
            "; Secure"
        } else {
            ""
        };
        format!("{name}={value}; Max-Age={seconds}; Path=/; HttpOnly; SameSite=Strict{secure}")
    }
}

/// Refuses a form that was not meant, or whose page is of an earlier sign-in.
pub(super) fn stale_page() -> Reply {
    Reply::text(
        403,
        "This page is out of date. Go back, load it again, then try again.",
    )
}

/// The credentials of the Bearer scheme (RFC 6750 section 2.1); a scheme's name has no case (RFC 9110 section 11.1).
fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, key) = authorization.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| key.trim_start())
}

fn whole_seconds(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_says_one_thing() {
        let form = |text: &str| Form::parse(text.as_bytes());
        let read = form("id=r-1&action=accept&confirm=true&csrf=a%2Bb+c").unwrap_or(Form(vec![]));
        assert_eq!(read.get("csrf"), Some("a+b c"));
        assert_eq!(read.get("confirm"), Some("true"));
        assert_eq!(read.get("other"), None);
        assert!(form("action=accept&action=decline").is_none());
        assert!(form("action=accept&%61ction=decline").is_none());
        assert!(form("").is_some());
    }

    #[test]
    fn a_key_stands_behind_its_scheme() {
        for (value, key) in [
            ("Bearer k", Some("k")),
            ("bearer  k", Some("k")),
            ("Bearer", None),
            ("Basic k", None),
            ("BearerX k", None),
            ("", None),
        ] {
            assert_eq!(bearer(value), key, "{value}");
        }
    }
}
