//! The grammars of names: slugs, ids, variables, headers; and of points in time.

use std::fmt;

/// What a slug may look like, for messages.
pub(crate) const SLUG_GRAMMAR: &str = "[a-z0-9]+(-[a-z0-9]+)*";

/// What ids, roles, tool names and argument names may look like, for messages.
pub(crate) const NAME_GRAMMAR: &str = "[A-Za-z0-9_.-]{1,64}";

/// Longest id, role, tool name or argument name: such names stand in logs, metrics and questions.
const MAX_NAME: usize = 64;

/// The name of a server, `[a-z0-9]+(-[a-z0-9]+)*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slug(Box<str>);

impl Slug {
    /// Takes a text that is a slug.
    pub fn parse(text: &str) -> Option<Slug> {
        let word = |word: &str| {
            !word.is_empty()
                && word
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        text.split('-').all(word).then(|| Slug(text.into()))
    }

    /// The slug as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What stands before the names of its own variables: `A_B__` for `a-b`.
    pub fn variable_prefix(&self) -> String {
        variable_prefix(&self.0)
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The prefix of the variables of whatever a slug is meant to be.
pub(crate) fn variable_prefix(slug: &str) -> String {
    format!("{}__", slug.to_ascii_uppercase().replace('-', "_"))
}

/// Whether the text is an id, a role, a tool's name or an argument's: [`NAME_GRAMMAR`].
pub(crate) fn is_name(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(fits)
}

/// Whether the text is the name of an environment variable, `[A-Za-z_][A-Za-z0-9_]*` (POSIX, 3.216).
pub(crate) fn is_variable(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    text.bytes().all(fits) && text.bytes().next().is_some_and(|b| !b.is_ascii_digit())
}

/// Whether the text is a token, and so can name a header (RFC 9110, section 5.6.2).
pub(crate) fn is_token(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(fits)
}

/// Reads a point in time, `2030-01-31T12:00:00Z` or with `.123` and `+01:00` (RFC 3339, section 5.6), as
/// milliseconds since 1970. Earlier times have none. A leap second counts as the one before it.
pub(crate) fn parse_time(text: &str) -> Option<u64> {
    let number = |range: std::ops::Range<usize>| -> Option<u64> {
        let digits = text.get(range)?;
        let plain = digits.bytes().all(|b| b.is_ascii_digit());
        if plain { digits.parse().ok() } else { None }
    };
    let is = |index: usize, allowed: &[u8]| {
        text.as_bytes()
            .get(index)
            .is_some_and(|b| allowed.contains(b))
    };
    if !(is(4, b"-") && is(7, b"-") && is(10, b"Tt") && is(13, b":") && is(16, b":")) {
        return None;
    }
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_in_month = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        _ => return None,
    };
    if !(1..=days_in_month).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }

    let mut rest = text.get(19..)?;
    let mut millis = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
        let digits = fraction.get(..length)?;
        if digits.is_empty() {
            return None;
        }
        millis = format!("{digits:0<3}").get(..3)?.parse::<u64>().ok()?;
        rest = fraction.get(length..)?;
    }
    let ahead_minutes: i64 = match rest.as_bytes() {
        b"Z" | b"z" => 0,
        [sign @ (b'+' | b'-'), _, _, b':', _, _] => {
            let (hours, minutes) = (rest.get(1..3)?, rest.get(4..6)?);
            let plain = hours
                .bytes()
                .chain(minutes.bytes())
                .all(|b| b.is_ascii_digit());
            let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
            if !plain || hours > 23 || minutes > 59 {
                return None;
            }
            let offset = hours * 60 + minutes;
            if *sign == b'-' { -offset } else { offset }
        }
        _ => return None,
    };

    // Days since 1970, by counting years from a March, so that the leap day comes last.
    let (years, months) = if month > 2 {
        (year, month - 3)
    } else {
        (year.checked_sub(1)?, month + 9)
    };
    let days =
        years * 365 + years / 4 - years / 100 + years / 400 + (months * 153 + 2) / 5 + day - 1;
    let days = days.checked_sub(719_468)?;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second.min(59);
    let seconds = seconds.checked_add_signed(-ahead_minutes * 60)?;
    Some(seconds * 1_000 + millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs() {
        for good in ["a", "gmail-rw-external", "1password", "a1-2"] {
            assert!(Slug::parse(good).is_some(), "{good}");
        }
        for bad in [
            "", "-", "a-", "-a", "a--b", "A", "a_b", "a b", "ä", "a/b", "a\n",
        ] {
            assert!(Slug::parse(bad).is_none(), "{bad:?}");
        }
        assert_eq!(variable_prefix("gmail-rw-external"), "GMAIL_RW_EXTERNAL__");
    }

    #[test]
    fn times() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T12:34:56.789Z", Some(951_827_696_789)),
            ("2030-01-31T12:00:00+01:00", Some(1_896_087_600_000)),
            ("2030-01-31t11:00:00.5z", Some(1_896_087_600_500)),
            ("2016-12-31T23:59:60Z", Some(1_483_228_799_000)),
            ("1970-01-01T00:30:00-00:30", Some(3_600_000)),
            ("1970-01-01T00:30:00+01:00", None),
            ("1969-12-31T23:59:59Z", None),
            ("0000-01-01T00:00:00Z", None),
            ("2030-02-29T00:00:00Z", None),
            ("2030-13-01T00:00:00Z", None),
            ("2030-00-01T00:00:00Z", None),
            ("2030-01-00T00:00:00Z", None),
            ("2030-01-01T24:00:00Z", None),
            ("2030-01-01T00:00:00", None),
            ("2030-01-01T00:00:00.Z", None),
            ("2030-01-01 00:00:00Z", None),
            ("2030-01-01T00:00:00+0100", None),
            ("2030-01-01T00:00:00+24:00", None),
            ("2030-01-01T00:00:00+-1:00", None),
            ("2030-01-01", None),
            ("+030-01-01T00:00:00Z", None),
            ("2030-01-01T00:00:0éZ", None),
            ("", None),
        ] {
            assert_eq!(parse_time(text), expected, "{text}");
        }
    }
}
