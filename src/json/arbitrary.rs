//! Random JSON for tests, from a seed.

/// SplitMix64: small, and the same numbers everywhere.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(crate) fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

/// A sound text: no duplicate, at most five levels, with whitespace and escapes of all kinds.
pub(crate) fn text(random: &mut Random) -> String {
    let mut out = String::new();
    value(random, 5, &mut out);
    out
}

/// Breaks a text, or only moves it about, in one to three places.
pub(crate) fn damage(random: &mut Random, bytes: &mut Vec<u8>) {
    const LIKELY: &[u8] = b"{}[]\",:\\0-9.eEtfnu \n\x00\x7f\xc3\xed\xff";
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len().max(1)).min(bytes.len());
        match random.below(4) {
            0 => bytes.insert(at, LIKELY[random.below(LIKELY.len())]),
            1 if at < bytes.len() => {
                bytes.remove(at);
            }
            2 if at < bytes.len() => bytes[at] = LIKELY[random.below(LIKELY.len())],
            _ => bytes.truncate(at.max(1)),
        }
    }
}

/// Any character, often one that matters.
pub(crate) fn character(random: &mut Random) -> char {
    const MATTERS: &[char] = &[
        '"',
        '\\',
        '/',
        '\n',
        '\r',
        '\t',
        '\u{0}',
        '\u{8}',
        '\u{c}',
        '\u{1f}',
        '\u{7f}',
        '\u{85}',
        '\u{2028}',
        '\u{d7ff}',
        '\u{e000}',
        '\u{ffff}',
        '\u{10000}',
        '\u{10ffff}',
        '\u{e9}',
        'a',
    ];
    match random.below(3) {
        0 => MATTERS[random.below(MATTERS.len())],
        1 => char::from(32 + random.below(95) as u8),
        _ => char::from_u32(random.below(0x11_0000) as u32).unwrap_or('x'),
    }
}

fn value(random: &mut Random, levels: usize, out: &mut String) {
    space(random, out);
    match random.below(if levels == 0 { 5 } else { 8 }) {
        0 => out.push_str(random.pick(&["null", "true", "false"])),
        1 | 2 => number(random, out),
        3 | 4 => {
            let length = random.below(8);
            let content: String = (0..length).map(|_| character(random)).collect();
            string(random, &content, out);
        }
        5 => {
            out.push('[');
            for index in 0..random.below(5) {
                if index > 0 {
                    out.push(',');
                }
                value(random, levels - 1, out);
            }
            space(random, out);
            out.push(']');
        }
        _ => {
            out.push('{');
            for index in 0..random.below(5) {
                if index > 0 {
                    out.push(',');
                }
                space(random, out);
                // The index first: no name twice.
                let name = format!("{}{index}", character(random));
                let name = if random.below(2) == 0 {
                    format!("{index}{name}")
                } else {
                    format!("{name}{index}x")
                };
                string(random, &name, out);
                space(random, out);
                out.push(':');
                value(random, levels - 1, out);
            }
            space(random, out);
            out.push('}');
        }
    }
    space(random, out);
}

fn space(random: &mut Random, out: &mut String) {
    out.push_str(random.pick(&["", "", "", " ", "\n", "\t", "\r\n  "]));
}

fn number(random: &mut Random, out: &mut String) {
    let digits = random.next();
    let number = match random.below(8) {
        0 => "-0".to_owned(),
        1 => "0".to_owned(),
        2 => format!("{digits}"),
        3 => format!("-{}", digits >> 1),
        4 => format!("{digits}{digits}"),
        5 => format!("{}.{:03}", digits >> 40, digits % 1000),
        6 => format!("-{}e{}", digits >> 50, digits % 200),
        _ => format!("{}.50E-{:02}", digits >> 50, digits % 200),
    };
    out.push_str(&number);
}

/// The content as a JSON string, each character plain or escaped by chance.
fn string(random: &mut Random, content: &str, out: &mut String) {
    out.push('"');
    for character in content.chars() {
        let must = character < ' ' || character == '"' || character == '\\';
        if must || random.below(4) == 0 {
            for unit in character.encode_utf16(&mut [0; 2]) {
                if random.below(2) == 0 {
                    out.push_str(&format!("\\u{unit:04x}"));
                } else {
                    out.push_str(&format!("\\u{unit:04X}"));
                }
            }
        } else {
            out.push(character);
        }
    }
    out.push('"');
}
