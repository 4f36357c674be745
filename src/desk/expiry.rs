//! When a question lapses: what the asker wishes, within bounds.

use std::time::Duration;

/// Of a question that does not say, or says nothing that can be read.
const DEFAULT_WINDOW: Duration = Duration::from_secs(60 * 60);

/// A person needs some time to read. The asker has then long given up, and the answer does nothing.
const SHORTEST_WINDOW: Duration = Duration::from_secs(60);

/// A question is kept in memory until it lapses.
const LONGEST_WINDOW: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How long a question waits that should lapse at `expires_at`, an RFC 3339 time.
pub(super) fn window(expires_at: Option<&str>, now_wall_ms: u64) -> Duration {
    match expires_at.and_then(wall_ms_of) {
        None => DEFAULT_WINDOW,
        Some(at) => Duration::from_millis(at.saturating_sub(now_wall_ms))
            .clamp(SHORTEST_WINDOW, LONGEST_WINDOW),
    }
}

/// Reads an RFC 3339 `date-time` (section 5.6) as milliseconds since 1970, its fraction cut to milliseconds. What lies
/// before 1970 is 0. A leap second is not read.
fn wall_ms_of(text: &str) -> Option<u64> {
    let (date, rest) = text.split_at_checked(10)?;
    let (time, rest) = rest.strip_prefix(['T', 't'])?.split_at_checked(8)?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let (ms, zone) = fraction_ms(rest)?;
    let valid = (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !valid {
        return None;
    }
    let minutes = (days_since_1970(year, month, day) * 24 + hour) * 60 + minute;
    let minutes = minutes - offset_minutes(zone)?;
    let ms = (minutes * 60 + second) * 1000 + ms;
    Some(u64::try_from(ms).unwrap_or(0))
}

/// Three numbers of so many digits with `separator` between them.
fn numbers(text: &str, separator: char, digits: [usize; 3]) -> Option<[i64; 3]> {
    let mut parts = text.split(separator);
    let mut out = [0; 3];
    for (number, digits) in out.iter_mut().zip(digits) {
        *number = digits_of(parts.next()?, digits)?;
    }
    parts.next().is_none().then_some(out)
}

fn digits_of(text: &str, digits: usize) -> Option<i64> {
    let plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

/// The milliseconds of `.123456Z`, and what stands behind the fraction.
fn fraction_ms(text: &str) -> Option<(i64, &str)> {
    let Some(rest) = text.strip_prefix('.') else {
        return Some((0, text));
    };
    let end = rest
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(rest.len());
    let (digits, zone) = rest.split_at(end);
    if digits.is_empty() {
        return None;
    }
    let ms = digits
        .bytes()
        .chain(*b"000")
        .take(3)
        .fold(0, |ms, digit| ms * 10 + i64::from(digit - b'0'));
    Some((ms, zone))
}

/// How far the zone's clocks are ahead of UTC.
fn offset_minutes(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let (sign, ahead) = match zone.split_at_checked(1)? {
        ("+", ahead) => (1, ahead),
        ("-", ahead) => (-1, ahead),
        _ => return None,
    };
    let (hours, minutes) = ahead.split_once(':')?;
    let (hours, minutes) = (digits_of(hours, 2)?, digits_of(minutes, 2)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar; negative before it.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    /// Days from the first day of year 0 to that of 1970.
    const DAYS_TO_1970: i64 = 719_528;
    let earlier = year - 1;
    // Year 0 was a leap year, and is one of the years before any other.
    let leap_days = match year {
        0 => 0,
        _ => earlier / 4 - earlier / 100 + earlier / 400 + 1,
    };
    let months: i64 = (1..month).map(|month| days_in_month(year, month)).sum();
    year * 365 + leap_days + months + day - 1 - DAYS_TO_1970
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approval::wire::rfc3339_utc_ms;

    #[test]
    fn times() {
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("1970-01-01T00:00:00.001Z", Some(1)),
            ("1970-01-01T00:00:00.0019999999999999999999Z", Some(1)),
            ("1970-01-01T00:00:00.1Z", Some(100)),
            ("1970-01-01t00:00:00z", Some(0)),
            ("1970-01-01T01:00:00+01:00", Some(0)),
            ("1969-12-31T23:30:00-00:30", Some(0)),
            ("1960-01-01T00:00:00Z", Some(0)),
            ("0000-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T00:00:00Z", Some(951_782_400_000)),
            ("2026-11-30T12:03:45.000Z", Some(1_796_040_225_000)),
            ("9999-12-31T23:59:59.999Z", Some(253_402_300_799_999)),
            ("2026-11-30T12:03:45", None),
            ("2026-11-30 12:03:45Z", None),
            ("2026-11-30T12:03Z", None),
            ("2026-11-30T12:03:45.Z", None),
            ("2026-11-30T24:00:00Z", None),
            ("2026-11-30T12:60:00Z", None),
            ("2026-11-30T12:00:60Z", None),
            ("2026-11-31T12:00:00Z", None),
            ("2026-02-29T12:00:00Z", None),
            ("1900-02-29T12:00:00Z", None),
            ("2026-00-10T12:00:00Z", None),
            ("2026-13-10T12:00:00Z", None),
            ("2026-1-10T12:00:00Z", None),
            ("2026-11-30T12:03:45+1:00", None),
            ("2026-11-30T12:03:45+24:00", None),
            ("2026-11-30T12:03:45+0100", None),
            ("2026-11-30T12:03:45ZZ", None),
            ("+026-11-30T12:03:45Z", None),
            ("2026-11-30T12:03:45é", None),
            ("ééééé", None),
            ("", None),
            ("1796040225", None),
        ] {
            assert_eq!(wall_ms_of(text), ms, "{text}");
        }
    }

    #[test]
    fn what_we_write_is_read_back() {
        // Through every month of four centuries, and across the hour and millisecond digits.
        for step in 0..6_000_u64 {
            let ms = step * 2_629_746_123;
            assert_eq!(wall_ms_of(&rfc3339_utc_ms(ms)), Some(ms));
        }
    }

    #[test]
    fn the_window_has_bounds() {
        let now = 1_796_040_225_000;
        let at = |ms: u64| Some(rfc3339_utc_ms(ms));
        for (expires_at, seconds) in [
            (None, 3600),
            (Some("soon".to_owned()), 3600),
            (at(now + 105_000), 105),
            (at(now + 60_000), 60),
            (at(now + 59_999), 60),
            (at(now), 60),
            (at(0), 60),
            (at(now + 604_800_000), 604_800),
            (at(now + 604_800_001), 604_800),
            (Some("9999-12-31T23:59:59Z".to_owned()), 604_800),
        ] {
            let window = window(expires_at.as_deref(), now);
            assert_eq!(window, Duration::from_secs(seconds), "{expires_at:?}");
        }
    }
}
