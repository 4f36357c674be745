//! What a yes is bound to: the digest of a call and the digest of the prompt that was shown.

use std::fmt;

use ring::digest;

use crate::json::Exact;
use crate::secret;

/// Says which encoding was hashed. Changed with every change of the encoding, so that no digest of
/// one is a digest of the other.
const CALL_LABEL: &str = "countersign call 1";

/// The same for prompts. The two labels differ, so a prompt's digest is never a call's.
const PROMPT_LABEL: &str = "countersign prompt 1";

/// All that makes one call different from another.
#[derive(Clone, Copy)]
pub struct CallIdentity<'a> {
    /// The server, by its name in the configuration.
    pub slug: &'a str,
    /// The tool, by the name that the caller used.
    pub tool: &'a str,
    /// The arguments, with whatever was resolved first.
    pub arguments: &'a Exact,
    /// Who calls: the token's id.
    pub principal: &'a str,
    /// The channel that the question goes to, in a form that is no credential; `None` if the
    /// question takes another way. No channel and an empty text are not the same.
    pub channel: Option<&'a str>,
}

/// SHA-256 over one call's identity. Two calls have the same digest only if they are the same call.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallDigest([u8; 32]);

impl CallDigest {
    /// The digest of a call: of its arguments' canonical text, not of the bytes that were sent.
    pub fn of(call: &CallIdentity<'_>) -> Self {
        let arguments = call.arguments.canonical();
        let mut encoding = Encoding::new(CALL_LABEL);
        encoding.field(call.slug);
        encoding.field(call.tool);
        encoding.field(&arguments);
        encoding.field(call.principal);
        encoding.optional(call.channel);
        Self(encoding.digest())
    }

    /// The digest's bytes, for a seal or the audit.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// SHA-256 over the prompt that a person read, label included.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PromptDigest([u8; 32]);

impl PromptDigest {
    /// The digest of a whole prompt.
    pub fn of(prompt: &str) -> Self {
        let mut encoding = Encoding::new(PROMPT_LABEL);
        encoding.field(prompt);
        Self(encoding.digest())
    }

    /// The digest's bytes, for a seal or the audit.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// The digest in lower-case hex.
impl fmt::Display for CallDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&secret::hex(&self.0))
    }
}

/// The digest in lower-case hex.
impl fmt::Display for PromptDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&secret::hex(&self.0))
    }
}

impl fmt::Debug for CallDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallDigest({self})")
    }
}

impl fmt::Debug for PromptDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PromptDigest({self})")
    }
}

/// Fields one after the other, each behind its length as eight bytes, most significant first: no
/// text can be moved from one field to the next.
/// Hashed as it is written: a call with attachments is large.
struct Encoding(digest::Context);

impl Encoding {
    fn new(label: &str) -> Self {
        let mut encoding = Self(digest::Context::new(&digest::SHA256));
        encoding.field(label);
        encoding
    }

    fn field(&mut self, text: &str) {
        self.0.update(&(text.len() as u64).to_be_bytes());
        self.0.update(text.as_bytes());
    }

    /// One byte tells whether a field follows.
    fn optional(&mut self, text: Option<&str>) {
        self.0.update(&[u8::from(text.is_some())]);
        if let Some(text) = text {
            self.field(text);
        }
    }

    fn digest(self) -> [u8; 32] {
        let mut hash = [0; 32];
        hash.copy_from_slice(self.0.finish().as_ref());
        hash
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn digest(
        slug: &str,
        tool: &str,
        arguments: &str,
        principal: &str,
        channel: Option<&str>,
    ) -> CallDigest {
        CallDigest::of(&CallIdentity {
            slug,
            tool,
            arguments: &Exact::parse(arguments).unwrap(),
            principal,
            channel,
        })
    }

    #[test]
    fn every_field_counts_and_none_runs_into_the_next() {
        let digests = [
            digest("mail", "send", "{}", "agent", Some("c")),
            digest("mai", "lsend", "{}", "agent", Some("c")),
            digest("mails", "end", "{}", "agent", Some("c")),
            digest("", "mailsend", "{}", "agent", Some("c")),
            digest("send", "mail", "{}", "agent", Some("c")),
            digest("mail", "send", "[]", "agent", Some("c")),
            digest("mail", "send", "{\"a\":1}", "agent", Some("c")),
            digest("mail", "send", "{\"a\":1.0}", "agent", Some("c")),
            digest("mail", "send", "{\"a\":\"1\"}", "agent", Some("c")),
            digest(
                "mail",
                "send",
                "{\"a\":9007199254740992}",
                "agent",
                Some("c"),
            ),
            digest(
                "mail",
                "send",
                "{\"a\":9007199254740993}",
                "agent",
                Some("c"),
            ),
            digest("mail", "send", "{}", "agen", Some("tc")),
            digest("mail", "send", "{}", "agentc", Some("")),
            digest("mail", "send", "{}", "agent", Some("")),
            digest("mail", "send", "{}", "agent", None),
            digest("mail", "send", "{}", "", Some("c")),
            digest("mail", "send\u{0}", "{}", "agent", Some("c")),
            digest("Mail", "send", "{}", "agent", Some("c")),
        ];
        let distinct: HashSet<CallDigest> = digests.into_iter().collect();
        assert_eq!(distinct.len(), digests.len());
    }

    #[test]
    fn the_spelling_of_the_arguments_does_not_count() {
        let spellings = [
            r#"{"to":"a@b","n":[1,2]}"#,
            " { \"n\" : [ 1 , 2 ] ,\n \"to\":\"a\\u0040b\" } ",
        ];
        let [first, second] = spellings.map(|text| digest("s", "t", text, "p", None));
        assert_eq!(first, second);
    }

    /// The encoding is a contract between processes and with stored audits: fixed values, computed
    /// apart from this program.
    #[test]
    fn the_encoding_stays_as_it_is() {
        assert_eq!(
            digest(
                "gmail",
                "send_email",
                r#"{"to":"a@b.example","n":1.0}"#,
                "agent-1",
                Some("c")
            )
            .to_string(),
            "bf9f5b9e236f1e637351ff077687dc49d9d339358409b24df3adf97502eb5eaa"
        );
        assert_eq!(
            digest("gmail", "send_email", "{}", "agent-1", None).to_string(),
            "6fac4e885350bae09fc3c56f5bccfb6c4c2cab8031a42fdd8872cca146275e53"
        );
        assert_eq!(
            PromptDigest::of("Send?").to_string(),
            "091255449f23956c2de03735f4670ef7b07ca10c31dbdbcc30c425b4f2991487"
        );
    }

    #[test]
    fn a_prompt_digest_is_of_the_whole_prompt() {
        assert_eq!(PromptDigest::of("Send?"), PromptDigest::of("Send?"));
        assert_ne!(PromptDigest::of("Send?"), PromptDigest::of("Send? "));
        assert_ne!(PromptDigest::of(""), PromptDigest::of("\0"));
        assert_ne!(
            PromptDigest::of("Send?").as_bytes(),
            &secret::sha256(b"Send?")
        );
    }

    #[test]
    fn debug_is_hex() {
        let digest = PromptDigest::of("x");
        assert_eq!(
            format!("{digest:?}"),
            format!("PromptDigest({})", secret::hex(digest.as_bytes()))
        );
    }
}
