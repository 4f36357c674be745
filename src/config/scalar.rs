//! What a plain scalar is: a string, a number, a boolean or nothing.

/// Whether a plain scalar is a string by the core schema of YAML 1.2 (section 10.3.2).
pub(super) fn is_string(text: &str) -> bool {
    !is_nothing(text) && !is_boolean(text) && !is_number(text)
}

pub(super) fn is_nothing(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

pub(super) fn is_boolean(text: &str) -> bool {
    matches!(text, "true" | "True" | "TRUE" | "false" | "False" | "FALSE")
}

/// The core schema's integers and floats: `[-+]?[0-9]+`, `0o[0-7]+`, `0x[0-9a-fA-F]+`,
/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, infinities and `.nan`.
pub(super) fn is_number(text: &str) -> bool {
    let digits = |text: &str, radix| !text.is_empty() && text.chars().all(|c| c.is_digit(radix));
    if let Some(rest) = text.strip_prefix("0o") {
        return digits(rest, 8);
    }
    if let Some(rest) = text.strip_prefix("0x") {
        return digits(rest, 16);
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let exponent =
        exponent.is_none_or(|text| digits(text.strip_prefix(['-', '+']).unwrap_or(text), 10));
    let mantissa = match mantissa.split_once('.') {
        Some(("", fraction)) => digits(fraction, 10),
        Some((whole, fraction)) => {
            digits(whole, 10) && (fraction.is_empty() || digits(fraction, 10))
        }
        None => digits(mantissa, 10),
    };
    mantissa && exponent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        for text in [
            "0", "-1", "+5", "007", "1.", ".5", "1.5e-3", "1E9", "0x1F", "0o17", ".inf", "-.INF",
            ".nan",
        ] {
            assert!(is_number(text), "{text}");
        }
        for text in [
            "1_000",
            "1 000",
            "0x",
            "0o8",
            "0xG",
            "-0x1",
            "e5",
            "1e",
            "1e+",
            ".",
            "-",
            "+",
            "1.2.3",
            "12:30",
            "nan",
            "2030-01-31",
            "127.0.0.1",
            "1a",
            "١",
            "yes",
            "no",
            "on",
            "off",
            "y",
            "n",
            "tRue",
            "nULL",
            "$",
            "-a",
        ] {
            assert!(is_string(text), "{text}");
        }
        for text in ["true", "True", "TRUE", "false", "False", "FALSE"] {
            assert!(is_boolean(text) && !is_string(text), "{text}");
        }
        for text in ["", "~", "null", "Null", "NULL"] {
            assert!(is_nothing(text) && !is_string(text), "{text:?}");
        }
    }
}
