//! Text from outside as a person may safely read it.
//!
//! A prompt is a few lines of ours with values between quotes. Whoever wrote a value must not be
//! able to end its quotes, begin a line, turn the reading direction, or hide something in it, not
//! even where the reader's page collapses newlines and spaces. So each character that could is
//! replaced by a visible mark, and all others stay: what is read is what will be sent, or shows
//! where it is not.
//!
//! A letter of one script that looks like another's (`а` and `a`) is not replaced: both are
//! letters, and most languages need theirs. Nor are right-to-left letters, which may make a browser
//! place the signs next to them differently: a page shows each value in an element of its own with
//! its direction isolated.

mod marks;

use crate::secret;

/// Stands for a line break of any kind: LF, CR, CR LF, VT, FF, NEL, U+2028, U+2029.
pub const LINE_BREAK: char = '\u{23ce}';

/// Stands for a space that would not be seen as one: a tab, a space of unusual width, and each
/// further space after a space, which a page collapses and which could push text out of sight.
pub const ODD_SPACE: char = '\u{2423}';

/// Stands for a double quotation mark of any kind, and for each further apostrophe after an
/// apostrophe, since two of them look like one. It is not the apostrophe: in a command line that
/// would show an expansion as a literal.
pub const QUOTE: char = '\u{235e}';

/// Stands for every other character that could disguise a text.
pub const REPLACED: char = '\u{fffd}';

/// How many combining marks one character may carry. Four are met in pointed Hebrew and in Tibetan;
/// more only where somebody draws over the lines above and below.
pub const MAX_MARKS: usize = 4;

/// How many characters of a long body are shown. A person reads about that much; the rest is named
/// by its length and digest.
pub const EXCERPT_CHARACTERS: usize = 2_000;

/// The text with every disguising character replaced: see [`LINE_BREAK`], [`ODD_SPACE`], [`QUOTE`]
/// and [`REPLACED`]. Showing what was shown changes nothing more.
pub fn shown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut before = Before::Nothing;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let (put, now) = match kind(character) {
            Kind::LineBreak => {
                if character == '\r' {
                    // CR LF is one line break.
                    characters.next_if_eq(&'\n');
                }
                (LINE_BREAK, Before::Nothing)
            }
            Kind::Space if before != Before::Space => (' ', Before::Space),
            Kind::Space | Kind::OddSpace => (ODD_SPACE, Before::Space),
            Kind::Apostrophe if before != Before::Apostrophe => (character, Before::Apostrophe),
            Kind::Apostrophe | Kind::Quote => (QUOTE, Before::Apostrophe),
            Kind::Mark => match before {
                // Without a letter to stand on it would change the look of what stands before.
                Before::Letter(marks) if marks < MAX_MARKS => {
                    (character, Before::Letter(marks + 1))
                }
                _ => (REPLACED, Before::Nothing),
            },
            Kind::Disguise => (REPLACED, Before::Nothing),
            Kind::Plain => (character, Before::Letter(0)),
        };
        out.push(put);
        before = now;
    }
    out
}

/// The text with only what a terminal or a page would obey replaced: control characters, line breaks, and what is
/// invisible or reorders its neighbours. Quotes stay. For a whole line that has no labels to imitate.
pub fn printable(text: &str) -> String {
    let replaced = |character| match kind(character) {
        Kind::LineBreak => LINE_BREAK,
        Kind::Disguise => REPLACED,
        _ => character,
    };
    text.chars().map(replaced).collect()
}

/// The text as [`shown`], between double quotes that it cannot close.
pub fn quoted(text: &str) -> String {
    format!("\"{}\"", shown(text))
}

/// A body as a person is asked about it: [`quoted`], and where it is longer than
/// [`EXCERPT_CHARACTERS`], only its beginning, followed by its length and its SHA-256.
pub fn excerpt(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(EXCERPT_CHARACTERS) else {
        return quoted(text);
    };
    let beginning = text.get(..end).unwrap_or_default();
    format!(
        "{} (the first {EXCERPT_CHARACTERS} of {} characters; {} bytes; SHA-256 {})",
        quoted(beginning),
        text.chars().count(),
        text.len(),
        secret::hex(&secret::sha256(text.as_bytes()))
    )
}

/// What was put last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Nothing that a combining mark may stand on, and none of the others.
    Nothing,
    /// A space or a mark for one.
    Space,
    /// An apostrophe, or a mark for a quote.
    Apostrophe,
    /// A plain character with so many combining marks on it.
    Letter(usize),
}

/// What a character could do to a prompt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Looks like an apostrophe; two look like a double quote.
    Apostrophe,
    /// Invisible, or changes how its neighbours look or in which order they stand, or has no agreed
    /// look.
    Disguise,
    /// Ends a line.
    LineBreak,
    /// Stands on the character before it.
    Mark,
    /// A space other than U+0020.
    OddSpace,
    /// Anything else.
    Plain,
    /// Looks like a double quote.
    Quote,
    /// U+0020.
    Space,
}

fn kind(character: char) -> Kind {
    match character {
        ' ' => Kind::Space,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => Kind::LineBreak,
        '\t'
        | '\u{a0}'
        | '\u{1680}'
        | '\u{2000}'..='\u{200a}'
        | '\u{202f}'
        | '\u{205f}'
        | '\u{3000}' => Kind::OddSpace,
        _ if is_disguise(character) => Kind::Disguise,
        _ if is_quote(character) => Kind::Quote,
        _ if is_apostrophe(character) => Kind::Apostrophe,
        _ if marks::is_mark(character) => Kind::Mark,
        _ => Kind::Plain,
    }
}

fn is_disguise(character: char) -> bool {
    match character {
        // C0 and C1 controls; line breaks and the tab were taken before.
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true,
        // Soft hyphen, combining grapheme joiner, Arabic letter mark, Syriac abbreviation.
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{70f}' => true,
        // Marks that strike through or enclose: a word could be shown as deleted.
        '\u{334}'..='\u{338}'
        | '\u{488}'..='\u{489}'
        | '\u{1abe}'
        | '\u{20d2}'..='\u{20d3}'
        | '\u{20d8}'..='\u{20da}'
        | '\u{20dd}'..='\u{20e0}'
        | '\u{20e2}'..='\u{20e6}'
        | '\u{20ea}'..='\u{20eb}'
        | '\u{a670}'..='\u{a672}'
        | '\u{1d167}'..='\u{1d169}' => true,
        // Letters that are blank: Hangul fillers, Khmer inherent vowels, Braille without dots, the
        // musical null notehead.
        '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{2800}'
        | '\u{3164}'
        | '\u{ffa0}'
        | '\u{1d159}' => true,
        // Mongolian selectors and vowel separator.
        '\u{180b}'..='\u{180f}' => true,
        // Zero-width characters and marks, embeddings and overrides, invisible operators, isolates.
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        // Variation selectors, and the byte order mark.
        '\u{fe00}'..='\u{fe0f}' | '\u{feff}' => true,
        // Interlinear annotation, object replacement, and unassigned ones set apart as invisible.
        '\u{fff0}'..='\u{fffc}' => true,
        // Format controls of Egyptian hieroglyphs, shorthand and music.
        '\u{13430}'..='\u{1345f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' => true,
        // Plane 14 to its reserved end: tags (a second, unseen ASCII) and variation selectors.
        '\u{e0000}'..='\u{e0fff}' => true,
        // Private use: everyone's own look.
        '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{ffffd}' | '\u{100000}'..='\u{10fffd}' => true,
        // Noncharacters.
        '\u{fdd0}'..='\u{fdef}' => true,
        _ => u32::from(character) & 0xfffe == 0xfffe,
    }
}

/// Double quotation marks and what a reader could take for one.
fn is_quote(character: char) -> bool {
    matches!(
        character,
        '"' | '\u{a8}' // diaeresis
        | '\u{ab}' | '\u{bb}' // guillemets
        | '\u{2ba}' // modifier letter double prime
        | '\u{2dd}' // double acute accent
        | '\u{2ee}' // modifier letter double apostrophe
        | '\u{2f5}'..='\u{2f6}' // modifier letters middle double grave and acute
        | '\u{5f4}' // gershayim
        | '\u{1cd3}' // Vedic sign nihshvasa
        | '\u{201c}'..='\u{201f}' // typographic double quotes
        | '\u{2033}'..='\u{2034}' // double and triple prime
        | '\u{2036}'..='\u{2037}' // the same reversed
        | '\u{2057}' // quadruple prime
        | '\u{275d}'..='\u{275e}' // heavy double comma ornaments
        | '\u{2760}' // heavy low double comma ornament
        | '\u{276e}'..='\u{276f}' // heavy angle quotation ornaments
        | '\u{2e42}' // double low reversed-9 quotation mark
        | '\u{3003}' // ditto mark
        | '\u{301d}'..='\u{301f}' // double prime quotation marks
        | '\u{ff02}' // full-width quotation mark
        | '\u{1f676}'..='\u{1f678}' // heavy double quotation mark ornaments
    )
}

/// Apostrophes, single quotation marks, primes and accents that stand alone.
fn is_apostrophe(character: char) -> bool {
    matches!(
        character,
        '\'' | '`'
        | '\u{b4}' // acute accent
        | '\u{2b9}' | '\u{2bb}'..='\u{2bf}' // modifier letters prime, commas, half rings
        | '\u{2c8}' | '\u{2ca}'..='\u{2cb}' // modifier letters vertical line, acute, grave
        | '\u{2f4}' // modifier letter middle grave
        | '\u{374}' | '\u{384}' // Greek numeral sign and tonos
        | '\u{55a}' | '\u{55d}' // Armenian apostrophe and comma
        | '\u{5f3}' // geresh
        | '\u{7f4}'..='\u{7f5}' // Nko apostrophes
        | '\u{1fbd}' | '\u{1fbf}' | '\u{1fef}' | '\u{1ffd}'..='\u{1ffe}' // Greek accents
        | '\u{2018}'..='\u{201b}' // typographic single quotes
        | '\u{2032}' | '\u{2035}' // prime and reversed prime
        | '\u{275b}'..='\u{275c}' | '\u{275f}' // heavy single comma ornaments
        | '\u{a78b}'..='\u{a78c}' // saltillo
        | '\u{ff07}' | '\u{ff40}' // full-width apostrophe and grave accent
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::json::arbitrary::{self, Random};

    #[test]
    fn ordinary_text_stays_as_it_is() {
        for text in [
            "",
            "Send the report to anna@example.com, please (it's due).",
            "C:\\Users\\x /home/x -- --flag=1 $HOME #1 {a: [1]} <b>&amp;</b>",
            "Größe naïve Łódź Привет Γειά σου 你好 こんにちは 안녕하세요 חיים 《书》 مرحبا สวัสดี नमस्ते",
            "e\u{301}\u{323}\u{308}\u{30a} stacked four high",
            "\u{1f602} \u{1f44d}\u{1f3fd} \u{2192} \u{20ac}",
            "\u{2026} \u{2013} \u{2014} \u{2022} \u{2264}",
            "\u{fffd} \u{23ce} \u{2423} \u{235e}",
        ] {
            assert_eq!(shown(text), text);
            assert_eq!(quoted(text), format!("\"{text}\""));
        }
    }

    #[test]
    fn each_disguise_shows() {
        for (text, expected) in [
            // Lines.
            ("a\nTo: b", "a⏎To: b"),
            ("a\r\nb\rc\n\nd\n\re", "a⏎b⏎c⏎⏎d⏎⏎e"),
            ("a\u{b}b\u{c}c\u{85}d\u{2028}e\u{2029}f", "a⏎b⏎c⏎d⏎e⏎f"),
            // Spaces.
            ("a b  c   d", "a b ␣c ␣␣d"),
            ("a\tb\u{a0}c\u{3000}d \u{2003} e", "a␣b␣c␣d ␣␣e"),
            ("\n  x", "⏎ ␣x"),
            // Quotes.
            ("a\" To: \"b", "a⍞ To: ⍞b"),
            (
                "\u{201c}a\u{201d} \u{ab}b\u{bb} \u{ff02}c\u{2033}",
                "⍞a⍞ ⍞b⍞ ⍞c⍞",
            ),
            ("it's `x` ''y'' '''z", "it's `x` '⍞y'⍞ '⍞⍞z"),
            ("\u{2019}\u{2019} '\u{2032} \"' '\"", "\u{2019}⍞ '⍞ ⍞⍞ '⍞"),
            // Invisible and direction.
            ("pay\u{202e}001\u{202c}", "pay�001�"),
            (
                "a\u{200b}b\u{200d}c\u{ad}d\u{2060}e\u{feff}f\u{61c}g",
                "a�b�c�d�e�f�g",
            ),
            ("\u{0}\u{7}\u{1b}[2Ja\u{7f}\u{9b}", "���[2Ja��"),
            ("x\u{e0041}\u{e007f}\u{fe0f}\u{e0100}", "x����"),
            (
                "a\u{3164}b\u{2800}c\u{e000}d\u{ffff}e\u{10ffff}",
                "a�b�c�d�e�",
            ),
            // Marks.
            (
                "e\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}x",
                "e\u{301}\u{301}\u{301}\u{301}��x",
            ),
            ("\u{301}x \u{301}y'\u{301}\n\u{301}", "�x �y'�⏎�"),
            ("d\u{336}e\u{336} =\u{338} a\u{20dd}", "d�e� =� a�"),
        ] {
            assert_eq!(shown(text), expected, "{text:?}");
        }
    }

    /// The ranges that `cases/approvals.md` I1 and the design name, character by character.
    #[test]
    fn no_named_character_is_left() {
        let ranges = [
            '\u{0}'..='\u{1f}',
            '\u{7f}'..='\u{a0}',
            '\u{ad}'..='\u{ad}',
            '\u{34f}'..='\u{34f}',
            '\u{61c}'..='\u{61c}',
            '\u{115f}'..='\u{1160}',
            '\u{17b4}'..='\u{17b5}',
            '\u{180b}'..='\u{180f}',
            '\u{2000}'..='\u{200f}',
            '\u{201c}'..='\u{201f}',
            '\u{2028}'..='\u{202f}',
            '\u{205f}'..='\u{206f}',
            '\u{3000}'..='\u{3000}',
            '\u{3164}'..='\u{3164}',
            '\u{e000}'..='\u{f8ff}',
            '\u{fdd0}'..='\u{fdef}',
            '\u{fe00}'..='\u{fe0f}',
            '\u{feff}'..='\u{feff}',
            '\u{ffa0}'..='\u{ffa0}',
            '\u{fff0}'..='\u{fffc}',
            '\u{fffe}'..='\u{ffff}',
            '\u{1fffe}'..='\u{1ffff}',
            '\u{e0000}'..='\u{e01ef}',
            '\u{efffe}'..='\u{10ffff}',
            '"'..='"',
        ];
        for character in ranges.into_iter().flatten() {
            let out = shown(&format!("a{character}b"));
            let middle: Vec<char> = out.chars().skip(1).take(out.chars().count() - 2).collect();
            assert!(
                matches!(middle[..], [LINE_BREAK | ODD_SPACE | QUOTE | REPLACED]),
                "{character:?} {out:?}"
            );
        }
    }

    /// Whatever the text: one line, no quote, nothing that disguises, nothing lost in silence.
    #[test]
    fn no_text_gets_out_of_its_quotes() {
        const LIKELY: &[char] = &[
            '"',
            '\'',
            '\u{2019}',
            ' ',
            '\t',
            '\n',
            '\r',
            '\u{301}',
            '\u{336}',
            '\u{202e}',
            '\u{200d}',
            '\u{fe0f}',
            '\u{2033}',
            'a',
            '\u{e9}',
            '\u{5d0}',
            '\u{1f602}',
        ];
        let mut random = Random::new(6);
        for _ in 0..20_000 {
            let length = random.below(40);
            let text: String = (0..length)
                .map(|_| match random.below(3) {
                    0 => arbitrary::character(&mut random),
                    _ => LIKELY[random.below(LIKELY.len())],
                })
                .collect();
            let out = shown(&text);
            assert_eq!(shown(&out), out, "{text:?}");
            let pairs = text.matches("\r\n").count();
            assert_eq!(
                out.chars().count() + pairs,
                text.chars().count(),
                "{text:?}"
            );
            let mut marks = 0;
            let mut before = '"';
            for character in out.chars() {
                let kind = kind(character);
                assert!(
                    matches!(
                        kind,
                        Kind::Plain | Kind::Space | Kind::Apostrophe | Kind::Mark
                    ),
                    "{text:?} {character:?}"
                );
                let twice = [Kind::Space, Kind::Apostrophe].contains(&kind);
                assert!(!twice || super::kind(before) != kind, "{text:?}");
                marks = if kind == Kind::Mark { marks + 1 } else { 0 };
                assert!(marks <= MAX_MARKS, "{text:?}");
                before = character;
            }
        }
    }

    #[test]
    fn a_long_body_shows_its_beginning_its_length_and_its_digest() {
        let most = "é".repeat(EXCERPT_CHARACTERS);
        assert_eq!(excerpt(&most), quoted(&most));
        assert_eq!(excerpt("a\nb"), "\"a⏎b\"");
        let over = format!("{most}\"hidden");
        let digest = secret::hex(&secret::sha256(over.as_bytes()));
        assert_eq!(
            excerpt(&over),
            format!("\"{most}\" (the first 2000 of 2007 characters; 4007 bytes; SHA-256 {digest})")
        );
    }

    #[test]
    fn a_printable_line_keeps_its_quotes_and_obeys_nothing() {
        assert_eq!(printable("a \"b\" 'c'  d\te"), "a \"b\" 'c'  d\te");
        assert_eq!(
            printable("\u{1b}[2J\u{202e}x\ny"),
            "\u{fffd}[2J\u{fffd}x\u{23ce}y"
        );
    }
}
