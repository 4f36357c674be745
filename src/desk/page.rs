//! The page where people answer, as the server renders it: it works as it stands with script off, and `desk.js` keeps the
//! same markup live where script is on.
//!
//! Everything that reaches the page from outside goes through `escape`; `Markup` makes that a matter of types. The
//! templates are files of their own, with `{{name}}` where a value goes.

use std::fmt::Write as _;

/// The script of both pages, served at `/desk.js` as `text/javascript`.
pub const SCRIPT: &str = include_str!("page/desk.js");

/// The style sheet of both pages, served at `/desk.css` as `text/css`.
pub const STYLE: &str = include_str!("page/desk.css");

/// The policy for every reply of the page: only our two files, nothing inline, nobody may frame it, forms post only home.
/// Trusted types with no policy mean that not even our own script can turn a string into markup.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'";

/// Placeholders: `csrf`, `title`, `person`, `heading`, `questions`, `empty_hidden`, `history_hidden`, `answered`, `notice`,
/// `blank_question`, `blank_answered`.
const INDEX: &str = include_str!("page/index.html");

/// Placeholders: `id`, `asked`, `expires`, `tool`, `session`, `unverified_hidden`, `message`, `window`, `left`,
/// `left_words`, `csrf`, `title`, `description_hidden`, `description`. Its first button is the one that Enter in the tick box
/// presses; the method `dialog` outside a dialog does nothing, so that Enter there is no answer.
const QUESTION: &str = include_str!("page/question.html");

/// Placeholders: `action`, `outcome`, `tool`, `session`, `how`.
const ANSWERED: &str = include_str!("page/answered.html");

/// Placeholders: `fault_hidden`, `fault`.
const SIGN_IN: &str = include_str!("page/sign-in.html");

/// What one person sees at one moment.
#[derive(Clone)]
pub struct PageView<'a> {
    /// Who is signed in.
    pub person: &'a str,
    /// The token that every answer and the sign-out must carry.
    pub csrf: &'a str,
    /// The desk's wall clock, in milliseconds since 1970.
    pub now_wall_ms: u64,
    /// What the last answer came to, for a browser without script.
    pub notice: Option<&'a str>,
    /// The open questions that this person may answer, in any order.
    pub pending: Vec<PendingView>,
    /// What was answered lately, newest first.
    pub recent: Vec<AnsweredView>,
}

/// One open question.
#[derive(Clone, Debug)]
pub struct PendingView {
    /// The request id that an answer names.
    pub id: String,
    /// The exact text of the question.
    pub message: String,
    /// The session, or slug, that asks.
    pub session: String,
    /// The tool that would act.
    pub tool: String,
    /// When the question came, in milliseconds since 1970.
    pub asked_wall_ms: u64,
    /// When it stops waiting.
    pub expires_wall_ms: u64,
    /// The label of the box that has to be ticked; empty: the page says "Confirm".
    pub title: String,
    /// A line under that label.
    pub description: Option<String>,
    /// Whether the sender proved more than that it knows the session URL.
    pub sender_verified: bool,
}

/// One question that waits no more.
#[derive(Clone, Debug)]
pub struct AnsweredView {
    /// The request id.
    pub id: String,
    /// The tool that was asked about.
    pub tool: String,
    /// The session that asked.
    pub session: String,
    /// What it came to: `accept`, `not-confirmed`, `decline`, `cancel`, `expired` or `withdrawn`.
    pub action: String,
    /// Who answered, where a person did.
    pub who: Option<String>,
    /// When, in milliseconds since 1970.
    pub answered_wall_ms: u64,
    /// From the question to its end.
    pub latency_ms: u64,
}

/// The page for somebody who is not signed in, with what was wrong with the last try.
#[must_use]
pub fn sign_in(fault: Option<&str>) -> String {
    fill(
        SIGN_IN,
        &[
            ("fault_hidden", hidden(fault.is_none())),
            ("fault", escape(fault.unwrap_or_default())),
        ],
    )
    .0
}

/// The desk itself: open questions, the one with the least time left first, then what was answered lately.
#[must_use]
pub fn index(view: &PageView<'_>) -> String {
    let mut pending: Vec<&PendingView> = view.pending.iter().collect();
    // The script sorts by the same three, so that nothing moves when it takes over.
    pending.sort_by(|a, b| {
        (a.expires_wall_ms, a.asked_wall_ms, &a.id).cmp(&(
            b.expires_wall_ms,
            b.asked_wall_ms,
            &b.id,
        ))
    });
    let heading = heading(pending.len());
    let title = match pending.len() {
        0 => "countersign desk".to_owned(),
        open => format!("({open}) countersign desk"),
    };
    fill(
        INDEX,
        &[
            ("csrf", escape(view.csrf)),
            ("person", escape(view.person)),
            ("title", escape(&title)),
            ("heading", escape(&heading)),
            ("notice", escape(view.notice.unwrap_or_default())),
            (
                "questions",
                Markup::join(pending.iter().map(|one| question(one, view))),
            ),
            ("empty_hidden", hidden(!pending.is_empty())),
            ("history_hidden", hidden(view.recent.is_empty())),
            (
                "answered",
                Markup::join(
                    view.recent
                        .iter()
                        .map(|one| answered(one, view.now_wall_ms)),
                ),
            ),
            ("blank_question", blank(QUESTION)),
            ("blank_answered", blank(ANSWERED)),
        ],
    )
    .0
}

/// The line above the list.
fn heading(open: usize) -> String {
    match open {
        0 => "No question is waiting".to_owned(),
        1 => "1 question is waiting".to_owned(),
        _ => format!("{open} questions are waiting"),
    }
}

/// One open question with its form.
fn question(one: &PendingView, view: &PageView<'_>) -> Markup {
    let left = one.expires_wall_ms.saturating_sub(view.now_wall_ms);
    let window = one.expires_wall_ms.saturating_sub(one.asked_wall_ms).max(1);
    let left_words = match left {
        0 => "no time left".to_owned(),
        _ => format!("{} left", duration(left)),
    };
    let title = if one.title.is_empty() {
        "Confirm"
    } else {
        &one.title
    };
    fill(
        QUESTION,
        &[
            ("id", escape(&one.id)),
            ("asked", number(one.asked_wall_ms)),
            ("expires", number(one.expires_wall_ms)),
            ("tool", visible(&one.tool)),
            ("session", visible(&one.session)),
            ("unverified_hidden", hidden(one.sender_verified)),
            ("message", visible(&one.message)),
            ("window", number(window)),
            ("left", number(left.min(window))),
            ("left_words", escape(&left_words)),
            ("csrf", escape(view.csrf)),
            ("title", visible(title)),
            ("description_hidden", hidden(one.description.is_none())),
            (
                "description",
                visible(one.description.as_deref().unwrap_or_default()),
            ),
        ],
    )
}

/// One line of the history.
fn answered(one: &AnsweredView, now_wall_ms: u64) -> Markup {
    let outcome = match one.action.as_str() {
        "accept" => "accepted",
        "not-confirmed" => "accepted without the tick",
        "decline" => "declined",
        "cancel" => "cancelled",
        other => other,
    };
    let mut how = String::new();
    if let Some(who) = &one.who {
        how = format!("by {who} ");
    }
    // Writing to a String cannot fail.
    let _ = write!(
        how,
        "after {}, {} ago",
        duration(one.latency_ms),
        duration(now_wall_ms.saturating_sub(one.answered_wall_ms))
    );
    fill(
        ANSWERED,
        &[
            ("action", escape(&one.action)),
            ("outcome", escape(outcome)),
            ("tool", visible(&one.tool)),
            ("session", visible(&one.session)),
            ("how", escape(&how)),
        ],
    )
}

/// A span of time in words, rounded up to a second, in its two largest units; `duration` in `desk.js` says the same.
fn duration(ms: u64) -> String {
    let seconds = ms.div_ceil(1000).max(1);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// HTML that may stand in a page as it is. Made only by [`escape`], [`visible`], [`number`], [`hidden`] and [`fill`].
struct Markup(String);

impl Markup {
    /// One after the other.
    fn join(parts: impl Iterator<Item = Markup>) -> Markup {
        Markup(parts.map(|part| part.0).collect())
    }
}

/// Text from anywhere, made safe as element content and inside a double- or single-quoted attribute.
///
/// A parser turns a bare CR into LF and drops NUL; so that the text shown is the exact text, CR is written as a reference, and
/// NUL, which HTML cannot hold, as the replacement character.
fn escape(text: &str) -> Markup {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\r' => out.push_str("&#13;"),
            '\0' => out.push('\u{FFFD}'),
            other => out.push(other),
        }
    }
    Markup(out)
}

/// [`escape`] for content that a caller may have chosen: a character that does not show, or that turns the direction of writing,
/// stands there as a marked code point, so that what a person reads is the order and the whole of what was asked. Our own gate
/// sends none of them; others may. `visible` in `desk.js` does the same.
fn visible(text: &str) -> Markup {
    let mut out = String::with_capacity(text.len());
    let mut plain = 0;
    for (at, character) in text.char_indices() {
        let after = at + character.len_utf8();
        let line_end = character == '\r' && text.as_bytes().get(after) == Some(&b'\n');
        if line_end || !disguises(character) {
            continue;
        }
        out.push_str(&escape(&text[plain..at]).0);
        // Writing to a String cannot fail.
        let _ = write!(out, "<mark>U+{:04X}</mark>", u32::from(character));
        plain = after;
    }
    out.push_str(&escape(&text[plain..]).0);
    Markup(out)
}

/// Controls other than tab and line feed, line separators, zero-width and bidirectional characters, and tags.
fn disguises(character: char) -> bool {
    match character {
        '\t' | '\n' => false,
        '\u{AD}' | '\u{61C}' | '\u{180E}' | '\u{FEFF}' => true,
        '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' => true,
        '\u{E0000}'..='\u{E007F}' => true,
        other => other.is_control(),
    }
}

/// Digits need no escape.
fn number(value: u64) -> Markup {
    Markup(value.to_string())
}

/// The `hidden` attribute, or nothing.
fn hidden(yes: bool) -> Markup {
    Markup(if yes {
        " hidden".to_owned()
    } else {
        String::new()
    })
}

/// A template with its values. One pass: a value that holds `{{csrf}}` is a value, not a placeholder. A name without a value
/// is a fault of ours; it leaves nothing behind.
fn fill(template: &'static str, values: &[(&str, Markup)]) -> Markup {
    let mut out = String::with_capacity(template.len() * 2);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        let Some((name, tail)) = after.split_once("}}") else {
            rest = after;
            break;
        };
        let value = values.iter().find(|(known, _)| *known == name);
        debug_assert!(values.is_empty() || value.is_some(), "no value for {name}");
        if let Some((_, value)) = value {
            out.push_str(&value.0);
        }
        rest = tail;
    }
    out.push_str(rest);
    Markup(out)
}

/// A template with nothing in it, for the script to clone: so that the markup of a question is written once.
fn blank(template: &'static str) -> Markup {
    fill(template, &[])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Breaks out of content, of both kinds of attribute, of a comment, of a script, and of the templates.
    const HOSTILE: &str =
        "</div><script>alert(1)</script><!-- \" onfocus=x ' y=z & &lt; {{csrf}} `${a}`\r\nend";

    fn pending(id: &str, expires_wall_ms: u64) -> PendingView {
        PendingView {
            id: id.to_owned(),
            message: "Delete \"a.txt\"?".to_owned(),
            session: "demo".to_owned(),
            tool: "delete_file".to_owned(),
            asked_wall_ms: 1_000,
            expires_wall_ms,
            title: "Delete this file?".to_owned(),
            description: None,
            sender_verified: true,
        }
    }

    fn answer(action: &str, who: Option<&str>) -> AnsweredView {
        AnsweredView {
            id: "r1".to_owned(),
            tool: "delete_file".to_owned(),
            session: "demo".to_owned(),
            action: action.to_owned(),
            who: who.map(str::to_owned),
            answered_wall_ms: 40_000,
            latency_ms: 12_400,
        }
    }

    fn view(pending: Vec<PendingView>, recent: Vec<AnsweredView>) -> PageView<'static> {
        PageView {
            person: "ana",
            csrf: "token",
            now_wall_ms: 100_000,
            notice: None,
            pending,
            recent,
        }
    }

    #[test]
    fn escape_leaves_no_way_out() {
        for (text, html) in [
            ("", ""),
            ("plain text", "plain text"),
            ("a & b", "a &amp; b"),
            ("&amp;", "&amp;amp;"),
            ("<b>", "&lt;b&gt;"),
            ("\"'", "&quot;&#39;"),
            ("one\ntwo\tthree", "one\ntwo\tthree"),
            ("one\r\ntwo", "one&#13;\ntwo"),
            ("nul\0", "nul\u{FFFD}"),
            ("ünïcode \u{1F511}", "ünïcode \u{1F511}"),
        ] {
            assert_eq!(escape(text).0, html, "{text:?}");
        }
    }

    #[test]
    fn what_would_not_show_is_marked() {
        for (text, html) in [
            ("plain\n\ttext", "plain\n\ttext"),
            ("dos\r\nline", "dos&#13;\nline"),
            ("back\rover", "back<mark>U+000D</mark>over"),
            ("end\r", "end<mark>U+000D</mark>"),
            (
                "\u{202E}<b>\u{202C}",
                "<mark>U+202E</mark>&lt;b&gt;<mark>U+202C</mark>",
            ),
            (
                "a\u{200B}b\u{FEFF}",
                "a<mark>U+200B</mark>b<mark>U+FEFF</mark>",
            ),
            (
                "\u{0}\u{1B}[2J\u{85}",
                "<mark>U+0000</mark><mark>U+001B</mark>[2J<mark>U+0085</mark>",
            ),
            ("\u{E0041}", "<mark>U+E0041</mark>"),
            ("שלום ünïcode", "שלום ünïcode"),
        ] {
            assert_eq!(visible(text).0, html, "{text:?}");
        }
    }

    #[test]
    fn a_value_is_never_read_as_a_template() {
        let page = fill(
            "{{a}}|{{b}}|{{",
            &[("a", escape("{{b}}")), ("b", escape("<}}"))],
        );
        assert_eq!(page.0, "{{b}}|&lt;}}|");
    }

    /// Every text that comes from outside, hostile at once: what is left of it in the page is its escaped form, so the page has
    /// exactly the tags that it has with harmless text.
    #[test]
    fn nothing_from_outside_is_interpolated_unescaped() {
        let page = |text: &str| {
            let question = PendingView {
                id: text.to_owned(),
                message: text.to_owned(),
                session: text.to_owned(),
                tool: text.to_owned(),
                title: text.to_owned(),
                description: Some(text.to_owned()),
                ..pending("q", 200_000)
            };
            let history = AnsweredView {
                id: text.to_owned(),
                tool: text.to_owned(),
                session: text.to_owned(),
                ..answer(text, Some(text))
            };
            let view = PageView {
                person: text,
                csrf: text,
                notice: Some(text),
                ..view(vec![question], vec![history])
            };
            index(&view)
        };
        let harmless = page("harmless");
        assert_eq!(
            page(HOSTILE),
            harmless.replace("harmless", &escape(HOSTILE).0)
        );
        let fault = |text| sign_in(Some(text));
        assert_eq!(
            fault(HOSTILE),
            fault("harmless").replace("harmless", &escape(HOSTILE).0)
        );
        // 7 texts of the question, 2 of them more than once, and so on: none was lost on the way.
        assert!(harmless.matches("harmless").count() >= 16);
    }

    /// Every value of a template sits where [`escape`] is enough: in content, or in a double-quoted attribute; the bare ones are
    /// our own `hidden`.
    #[test]
    fn placeholders_stand_only_where_escaping_is_enough() {
        for template in [INDEX, QUESTION, ANSWERED, SIGN_IN] {
            for (at, _) in template.match_indices("{{") {
                let before = &template[..at];
                let name = template[at + 2..].split_once("}}").unwrap().0;
                let tag = &before[before.rfind('<').unwrap()..];
                if tag.contains('>') {
                    let element = tag
                        .trim_start_matches('<')
                        .split([' ', '>'])
                        .next()
                        .unwrap();
                    assert!(
                        !["script", "style"].contains(&element),
                        "{name} in {element}"
                    );
                } else if tag.matches('"').count() % 2 == 0 {
                    assert!(name.ends_with("_hidden"), "{name} stands bare in a tag");
                } else {
                    let attribute = tag
                        .rsplit_once("=\"")
                        .unwrap()
                        .0
                        .rsplit(' ')
                        .next()
                        .unwrap();
                    assert!(
                        !attribute.starts_with("on") && attribute != "style",
                        "{name}"
                    );
                    assert!(
                        !["href", "src", "action"].contains(&attribute),
                        "{name} in {attribute}"
                    );
                }
            }
        }
    }

    #[test]
    fn each_placeholder_has_a_value_and_none_is_left() {
        let page = index(&view(
            vec![pending("q", 200_000)],
            vec![answer("decline", Some("bo"))],
        ));
        assert!(!page.contains("{{") && !page.contains("}}"));
        assert!(!sign_in(None).contains("{{"));
    }

    #[test]
    fn the_policy_allows_what_the_pages_hold() {
        for html in [INDEX, QUESTION, ANSWERED, SIGN_IN] {
            for inline in [
                " style=",
                " onclick=",
                "<style",
                "javascript:",
                "http:",
                "https:",
            ] {
                // The one address in the pages is text that tells how to call the gateway.
                let html = html.replace("http://127.0.0.1:8600/mcp", "");
                assert!(!html.contains(inline), "{inline}");
            }
            for script in html.match_indices("<script") {
                assert!(
                    html[script.0..]
                        .starts_with("<script type=\"module\" src=\"/desk.js\"></script>")
                );
            }
        }
        for sink in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "http:",
            "https:",
        ] {
            assert!(!SCRIPT.contains(sink), "{sink}");
        }
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
        assert!(!CONTENT_SECURITY_POLICY.contains("unsafe"));
    }

    #[test]
    fn the_question_with_the_least_time_comes_first() {
        let page = index(&view(
            vec![
                pending("late", 300_000),
                pending("soon", 150_000),
                pending("middle", 200_000),
            ],
            vec![],
        ));
        let at = |id: &str| page.find(&format!("data-id=\"{id}\"")).unwrap();
        assert!(at("soon") < at("middle") && at("middle") < at("late"));
        assert!(page.contains("<title>(3) countersign desk</title>"));
        assert!(page.contains(">3 questions are waiting<"));
    }

    #[test]
    fn a_question_is_a_form_that_works_without_script() {
        let page = index(&view(vec![pending("r-1", 205_000)], vec![]));
        for part in [
            "<form method=\"post\" action=\"/answer\"",
            "name=\"csrf\" value=\"token\"",
            "name=\"id\" value=\"r-1\"",
            "<input type=\"checkbox\" name=\"confirm\" value=\"true\" checked>",
            "name=\"action\" value=\"accept\"",
            "name=\"action\" value=\"decline\"",
            "<div class=\"message\">Delete &quot;a.txt&quot;?</div>",
            "1 min 45 s left",
            "<p class=\"unverified\" hidden>",
            "<section id=\"empty\" class=\"empty\" hidden>",
        ] {
            assert!(page.contains(part), "{part}");
        }
        // The form's default button, which Enter in the tick box would press, is one that does nothing.
        let form = page
            .split_once("<form method=\"post\" action=\"/answer\"")
            .unwrap()
            .1;
        assert!(
            form.split_once("<button")
                .unwrap()
                .1
                .starts_with(" type=\"submit\" formmethod=\"dialog\"")
        );
    }

    #[test]
    fn a_sender_that_proved_nothing_is_marked() {
        let question = PendingView {
            sender_verified: false,
            ..pending("r-1", 200_000)
        };
        assert!(
            index(&view(vec![question], vec![]))
                .contains("<p class=\"unverified\">sender not verified</p>")
        );
    }

    #[test]
    fn the_history_says_what_each_came_to() {
        for (action, who, outcome, how) in [
            (
                "accept",
                Some("ana"),
                ">accepted<",
                "by ana after 13 s, 1 min 0 s ago",
            ),
            (
                "not-confirmed",
                Some("bo"),
                ">accepted without the tick<",
                "by bo after 13 s",
            ),
            ("decline", Some("bo"), ">declined<", "by bo after 13 s"),
            ("cancel", Some("bo"), ">cancelled<", "by bo after 13 s"),
            ("expired", None, ">expired<", ">after 13 s"),
            ("withdrawn", None, ">withdrawn<", ">after 13 s"),
        ] {
            let page = index(&view(vec![], vec![answer(action, who)]));
            assert!(page.contains(outcome) && page.contains(how), "{action}");
        }
    }

    #[test]
    fn durations_in_words() {
        for (ms, words) in [
            (0, "1 s"),
            (1, "1 s"),
            (1_001, "2 s"),
            (59_000, "59 s"),
            (59_001, "1 min 0 s"),
            (105_000, "1 min 45 s"),
            (3_600_000, "1 h 0 min"),
            (7_500_000, "2 h 5 min"),
            (90_000_000, "1 d 1 h"),
            (u64::MAX, "213503982334 d 14 h"),
        ] {
            assert_eq!(duration(ms), words, "{ms}");
        }
    }

    #[test]
    fn a_question_that_ran_out_says_so() {
        assert!(index(&view(vec![pending("r-1", 99_000)], vec![])).contains(">no time left<"));
    }

    #[test]
    fn sign_in_shows_a_fault_only_when_there_is_one() {
        assert!(sign_in(None).contains("role=\"alert\" hidden></p>"));
        assert!(sign_in(Some("wrong key")).contains("role=\"alert\">wrong key</p>"));
    }
}
