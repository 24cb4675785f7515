//! The numbers in a text of CUDA C++, and how each is changed.

use std::ops::Range;

/// A number as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Literal {
    /// Where it is in the text.
    pub(crate) at: Range<usize>,
    /// Its line, from 1.
    pub(crate) line: usize,
}

/// Every number of a text, except in comments, quotes and `#include` lines.
pub(crate) fn literals(text: &str) -> Vec<Literal> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let length = if rest.starts_with("//") || rest.starts_with("#include") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with(['"', '\'']) {
            quoted(rest)
        } else if rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len())
        } else if bytes[at].is_ascii_digit()
            || bytes[at] == b'.' && bytes.get(at + 1).is_some_and(u8::is_ascii_digit)
        {
            let length = number(rest);
            let line = 1 + text[..at].matches('\n').count();
            found.push(Literal { at: at..at + length, line });
            length
        } else {
            rest.chars().next().map_or(1, char::len_utf8)
        };
        at += length;
    }
    found
}

/// Another number in its place: one more, or one less where there is no more; a fraction is scaled and moved.
pub(crate) fn changed(number: &str) -> String {
    let (digits, hex) = match number.strip_prefix("0x").or(number.strip_prefix("0X")) {
        Some(digits) => (digits, true),
        None => (number, false),
    };
    let exponents: &[char] = if hex { &['.', 'p', 'P'] } else { &['.', 'e', 'E', 'f', 'F'] };
    if digits.contains(exponents) {
        let end = digits.trim_end_matches(['f', 'F', 'l', 'L']).len();
        let value =
            if hex { hex_fraction(&digits[..end]) } else { digits[..end].parse().unwrap_or(f64::NAN) };
        return format!("{:?}{}", value * 1.01 + 0.01, &digits[end..]);
    }
    let end = digits.trim_end_matches(['u', 'U', 'l', 'L']).len();
    let value = u64::from_str_radix(&digits[..end], if hex { 16 } else { 10 }).unwrap_or(0);
    let other = if value == u64::from(u32::MAX) || value == u64::MAX { value - 1 } else { value + 1 };
    let suffix = &digits[end..];
    if hex { format!("0x{other:x}{suffix}") } else { format!("{other}{suffix}") }
}

/// How long a quoted text is, quotes included.
fn quoted(rest: &str) -> usize {
    let quote = rest.as_bytes()[0];
    let mut bytes = rest.bytes().enumerate().skip(1);
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            _ if byte == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// How long a number is, suffix included. A sign belongs to it behind the letter of its exponent.
fn number(rest: &str) -> usize {
    let hex = rest.starts_with("0x") || rest.starts_with("0X");
    let bytes = rest.as_bytes();
    let signed = |at: usize| {
        let exponent: &[u8] = if hex { b"pP" } else { b"eE" };
        matches!(bytes[at], b'+' | b'-') && exponent.contains(&bytes[at - 1])
    };
    let within =
        |at: usize| bytes[at].is_ascii_alphanumeric() || matches!(bytes[at], b'.' | b'_') || signed(at);
    (1..bytes.len()).find(|at| !within(*at)).unwrap_or(bytes.len())
}

/// The value of `1.8p+3`, without its prefix.
fn hex_fraction(digits: &str) -> f64 {
    let (mantissa, exponent) = digits.split_once(['p', 'P']).unwrap_or((digits, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let value = u64::from_str_radix(&format!("{whole}{fraction}"), 16).unwrap_or(0);
    let exponent = exponent.parse::<i32>().unwrap_or(0) - 4 * fraction.len() as i32;
    value as f64 * 2.0_f64.powi(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_and_names_comments_and_quotes_are_not() {
        let text = "#include \"a1.h\"\n#define N1 16 // 17\n/* 18\n19 */ float x = 1.5e-3f + y2[0x1fu] - 2;\n\
                    char c = '3'; double d = 0x1.8p+3, e = .5;\n";
        let found: Vec<_> = literals(text).into_iter().map(|l| (text[l.at].to_owned(), l.line)).collect();
        let found: Vec<_> = found.iter().map(|(number, line)| (number.as_str(), *line)).collect();
        assert_eq!(found, [("16", 2), ("1.5e-3f", 4), ("0x1fu", 4), ("2", 4), ("0x1.8p+3", 5), (".5", 5)]);
    }

    #[test]
    fn each_kind_is_changed_to_its_own_kind() {
        for (number, other) in [
            ("0", "1"),
            ("16", "17"),
            ("7u", "8u"),
            ("0xffu", "0x100u"),
            ("0xffffffffu", "0xfffffffeu"),
            ("0.0f", "0.01f"),
            ("2.0", "2.03"),
            ("1e2f", "101.01f"),
            ("0x1.8p+3", "12.13"),
        ] {
            assert_eq!(changed(number), other, "{number}");
        }
    }
}
