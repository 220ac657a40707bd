//! Masks texts that must not be shown: values of Secrets, decrypted texts, and what substitution derives
//! from them.
//!
//! Each status, event, log and preview passes its quotes through them. A quote is searched as it is and
//! unescaped, also for base64. Only hashes of the beginnings of texts are kept, so a search is linear in the
//! quote.

mod views;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::ops::Range;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use equate_manifest::yaml;
use serde_json::Value;

use self::views::{VIEWS_MAX, views};

/// The replacement for a value of a Secret.
const MASK: &str = "*****";
/// The most bytes of a hash: more than all certificates have in common.
const WINDOW_MAX: usize = 64;
/// Shorter pieces would mask ordinary words.
const PIECE_CHARS_MIN: usize = 6;
/// A value is not hidden because it contains a shorter text.
const HIDDEN_BYTES_MIN: usize = 4;
/// Longer than any status or event.
const QUOTE_BYTES_MAX: usize = 64 << 10;
/// The comparisons of one search: some fifty milliseconds. The text is cut until they suffice.
const COMPARISONS_MAX: usize = 8 << 20;
/// A text without its last bytes has no beginning of a hidden text that was cut off: an escape of one byte
/// has at most twelve.
const CUT_BYTES: usize = 12 * WINDOW_MAX;
const SCALAR_BYTES_MAX: usize = 4 << 10;
/// The most forms that stay in memory after an apply.
const KEPT_FORMS_MAX: usize = 4096;

/// Texts that must not be shown. `Debug` shows their number.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Masks {
    texts: HashSet<u64>,
    /// By the length of the hashed beginning.
    forms: BTreeMap<usize, Forms>,
}

#[derive(Clone, PartialEq, Eq, Default)]
struct Forms {
    first: [u64; 4],
    by_hash: HashMap<u64, Form>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Form {
    bytes: usize,
    whole: u64,
    of_bytes: usize,
}

impl fmt::Debug for Masks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} texts", self.texts.len())
    }
}

impl Masks {
    pub(crate) fn add(&mut self, text: &str) {
        if text.is_empty() || !self.texts.insert(hash(text.as_bytes())) {
            return;
        }
        self.add_forms(text.as_bytes());
        for scalar in scalars(text) {
            if is_recognizable(&scalar, text) && self.texts.insert(hash(scalar.as_bytes())) {
                self.add_forms(scalar.as_bytes());
            }
        }
    }

    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.add(text),
            Err(_) => self.add_base64(bytes),
        }
    }

    /// Adds a text that an expression made, but no short piece.
    pub(crate) fn add_derived(&mut self, text: &str, from: &str) {
        if is_recognizable(text, from) {
            self.add(text);
        }
    }

    pub(crate) fn extend(&mut self, other: &Masks) {
        self.texts.extend(&other.texts);
        for (length, theirs) in &other.forms {
            let own = self.forms.entry(*length).or_default();
            for (own, theirs) in own.first.iter_mut().zip(theirs.first) {
                *own |= theirs;
            }
            for (hash, form) in &theirs.by_hash {
                insert(&mut own.by_hash, *hash, *form);
            }
        }
    }

    pub(crate) fn contains(&self, text: &str) -> bool {
        self.texts.contains(&hash(text.as_bytes()))
    }

    pub(crate) fn is_small(&self) -> bool {
        self.forms
            .values()
            .map(|forms| forms.by_hash.len())
            .sum::<usize>()
            <= KEPT_FORMS_MAX
    }

    /// Whether a value contains one of them.
    pub(crate) fn hides(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self.contains(text) || !self.found(text, HIDDEN_BYTES_MIN).is_empty(),
            Value::Number(number) => self.contains(&number.to_string()),
            Value::Array(items) => items.iter().any(|item| self.hides(item)),
            Value::Object(map) => map.values().any(|value| self.hides(value)),
            Value::Null | Value::Bool(_) => false,
        }
    }

    /// Replaces them in a text, also in their escaped and encoded forms.
    pub(crate) fn mask(&self, text: &str) -> String {
        let searched = self.searched(text);
        let (shown, cut) = match searched.len() < text.len() {
            false => (searched.len(), ""),
            true => {
                let end = searched.len().saturating_sub(CUT_BYTES);
                (searched.floor_char_boundary(end), " (cut)")
            }
        };
        let (mut masked, mut from) = (String::new(), 0);
        for range in self.found(searched, 0) {
            if range.start >= shown {
                break;
            }
            masked.push_str(&text[from..range.start]);
            masked.push_str(MASK);
            from = range.end;
        }
        masked.push_str(text.get(from..shown).unwrap_or_default());
        masked + cut
    }

    /// The beginning of a text that is searched with a bounded number of comparisons.
    fn searched<'t>(&self, text: &'t str) -> &'t str {
        let text = &text[..text.floor_char_boundary(QUOTE_BYTES_MAX)];
        let lengths = self.forms.len().max(1);
        if text.len().saturating_mul(lengths * VIEWS_MAX) <= COMPARISONS_MAX {
            return text;
        }
        let bytes: usize = views(text).iter().map(|view| view.bytes().len()).sum();
        match bytes.saturating_mul(lengths) <= COMPARISONS_MAX {
            true => text,
            false => &text[..text.floor_char_boundary(COMPARISONS_MAX / (lengths * VIEWS_MAX))],
        }
    }

    /// The parts to mask, in order.
    fn found(&self, text: &str, of_bytes_min: usize) -> Vec<Range<usize>> {
        if self.forms.is_empty() {
            return Vec::new();
        }
        let mut found = Vec::new();
        for view in views(text) {
            let bytes = view.bytes();
            let hashes = Hashes::of(bytes);
            for (length, forms) in self.forms.range(..=bytes.len()) {
                let (power, mut until) = (power(*length), HashMap::new());
                for start in 0..=bytes.len() - length {
                    if !forms.may_begin_with(bytes[start]) {
                        continue;
                    }
                    let hash = hashes.window(start, *length, power);
                    let form = forms.by_hash.get(&hash);
                    let Some(form) = form.filter(|form| form.of_bytes >= of_bytes_min) else {
                        continue;
                    };
                    // inside of a whole one, it is the same one
                    if until.get(&hash).is_some_and(|until| start < *until) {
                        continue;
                    }
                    let end = start.saturating_add(form.bytes).min(bytes.len());
                    if hashes.window(start, end - start, self::power(end - start)) == form.whole {
                        until.insert(hash, end);
                    }
                    found.push(view.range(start..end));
                }
            }
        }
        merged(text, found)
    }

    fn add_forms(&mut self, text: &[u8]) {
        self.add_form(text, text.len(), text.len());
        self.add_base64(text);
    }

    /// Encoded data may begin before the bytes, so they have three forms.
    fn add_base64(&mut self, bytes: &[u8]) {
        for (offset, skipped) in [(0, 0), (1, 2), (2, 3)] {
            let encoded = STANDARD.encode([&[0; 2][..offset], bytes].concat());
            // characters with no bit of other bytes
            let complete = (offset + bytes.len()) * 8 / 6;
            let own = match offset {
                0 => Some(&*encoded),
                _ => encoded.get(skipped..complete),
            };
            let window = complete.saturating_sub(skipped);
            if let Some(own) = own
                && (window >= PIECE_CHARS_MIN || (offset == 0 && bytes.len() >= 3))
            {
                self.add_form(own.as_bytes(), window, bytes.len());
            }
        }
    }

    /// Adds a form that this many bytes identify.
    fn add_form(&mut self, form: &[u8], window: usize, of_bytes: usize) {
        let window = &form[..window.min(WINDOW_MAX)];
        let Some(first) = window.first() else {
            return;
        };
        let forms = self.forms.entry(window.len()).or_default();
        forms.first[usize::from(first / 64)] |= 1 << (first % 64);
        let form = Form {
            bytes: form.len(),
            whole: hash(form),
            of_bytes,
        };
        insert(&mut forms.by_hash, hash(window), form);
    }
}

impl Forms {
    fn may_begin_with(&self, byte: u8) -> bool {
        self.first[usize::from(byte / 64)] & (1 << (byte % 64)) != 0
    }
}

fn insert(forms: &mut HashMap<u64, Form>, hash: u64, form: Form) {
    let kept = forms.entry(hash).or_insert(form);
    if form.bytes > kept.bytes {
        *kept = form;
    }
}

fn is_recognizable(piece: &str, of: &str) -> bool {
    !piece.is_empty() && (piece.len() >= of.len() || piece.chars().count() >= PIECE_CHARS_MIN)
}

/// The values of a text as a scalar of YAML: plain and in quotes.
fn scalars(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let is_itself = text.bytes().all(|byte| byte.is_ascii_alphabetic());
    if is_itself || text.len() > SCALAR_BYTES_MAX {
        return found;
    }
    for quote in ["", "\"", "'"] {
        let document = format!("v: {quote}{text}{quote}\n");
        let loaded = yaml::load(&document, &yaml::Options::default());
        let values = loaded.iter().flatten().map(|document| document.value.get("v"));
        found.extend(values.flatten().filter_map(|value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }));
    }
    found
}

fn merged(text: &str, mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut merged: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        let range = text.floor_char_boundary(range.start)..text.ceil_char_boundary(range.end);
        match merged.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

const PRIME: u64 = (1 << 61) - 1;

/// Random, so that nobody can make two texts with one hash.
fn base() -> u64 {
    static BASE: OnceLock<u64> = OnceLock::new();
    *BASE.get_or_init(|| RandomState::new().build_hasher().finish() % (PRIME - 1024) + 512)
}

fn times(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    let folded = (product & u128::from(PRIME)) + (product >> 61);
    let folded = u64::try_from(folded).unwrap_or_default();
    if folded >= PRIME { folded - PRIME } else { folded }
}

fn plus(one: u64, other: u64) -> u64 {
    let sum = one + other;
    if sum >= PRIME { sum - PRIME } else { sum }
}

fn next(hash: u64, byte: u8) -> u64 {
    plus(times(hash, base()), u64::from(byte) + 1)
}

fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |hash, byte| next(hash, *byte))
}

fn power(mut exponent: usize) -> u64 {
    let (mut power, mut square) = (1, base());
    while exponent > 0 {
        if exponent % 2 == 1 {
            power = times(power, square);
        }
        square = times(square, square);
        exponent /= 2;
    }
    power
}

struct Hashes(Vec<u64>);

impl Hashes {
    fn of(bytes: &[u8]) -> Hashes {
        let mut all = Vec::with_capacity(bytes.len() + 1);
        let mut hash = 0;
        all.push(hash);
        for byte in bytes {
            hash = next(hash, *byte);
            all.push(hash);
        }
        Hashes(all)
    }

    /// `power` is that of the length.
    fn window(&self, start: usize, length: usize, power: u64) -> u64 {
        let before = times(self.0[start], power);
        plus(self.0[start + length], PRIME - before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks(secrets: &[&str]) -> Masks {
        let mut masks = Masks::default();
        secrets.iter().for_each(|&secret| masks.add(secret));
        masks
    }

    fn check(secrets: &[&str], text: &str, expected: &str) {
        assert_eq!(masks(secrets).mask(text), expected, "{secrets:?}");
    }

    #[test]
    fn secrets_are_masked_also_when_quoted() {
        check(&[], "all of it", "all of it");
        check(
            &["hunter2"],
            r#"Invalid value: "hunter2": no"#,
            r#"Invalid value: "*****": no"#,
        );
        check(&["hunter22", "hunter2"], "hunter22 hunter2", "***** *****");
        check(&["a\"b"], r#"value "a\"b""#, r#"value "*****""#);
        check(&["abcdef", "defghi"], "xabcdefghix", "x*****x");
        check(&["naïve"], "a naïve text, ïn all", "a ***** text, ïn all");
    }

    #[test]
    fn secrets_are_masked_in_every_escaped_form() {
        let secret = "p\"w\\d <é>&'x y+1/é";
        for quoted in [
            format!("{secret:?}"),
            r#"p\"w\\d \u003c\u00e9\u003e\u0026'x y+1/\u00e9"#.to_owned(),
            r#"p\"w\\d \x3c\xc3\xa9>&'x y+1/\u{e9}"#.to_owned(),
            serde_json::to_string(&serde_json::to_string(secret).unwrap()).unwrap(),
            secret.replace('\'', "''"),
            "p%22w%5Cd%20%3C%C3%A9%3E%26%27x%20y%2B1%2F%C3%A9".to_owned(),
            "p%22w%5cd+%3c%c3%a9%3e%26'x+y%2b1/%c3%a9".to_owned(),
        ] {
            let masked = masks(&[secret]).mask(&format!("before {quoted} after"));
            let inner = masked.trim_start_matches("before ").trim_end_matches(" after");
            assert_eq!(inner.trim_matches(['"', '\\']), MASK, "{quoted}: {masked}");
        }
        check(&["ab\\x63def"], "is \"abcdef\"", "is \"*****\"");
        check(&["it''s mine"], "is it's mine", "is *****");
        check(&["  padded  "], "is \"padded\"", "is \"*****\"");
        check(
            &["0x1e240"],
            "cannot unmarshal number 123456",
            "cannot unmarshal number *****",
        );
    }

    #[test]
    fn secrets_are_masked_in_base64() {
        let url_safe = base64::engine::general_purpose::URL_SAFE_NO_PAD;
        let long = format!("{}?>~", "0123456789".repeat(20));
        for secret in ["hunter2", "hunter22", "hunter222", "subjects?>~\u{ff}", &long] {
            let whole = STANDARD.encode(secret);
            check(&[secret], &format!("data: {whole}"), "data: *****");
            for prefix in ["", "a", "ab", "abc"] {
                let text = format!("{prefix}{secret}~~~~~~");
                let standard = STANDARD.encode(&text);
                for encoded in [&standard, &url_safe.encode(&text)] {
                    let masked = masks(&[secret]).mask(encoded);
                    let (before, after) = masked.split_once(MASK).expect("masked");
                    assert!(before.len() <= 4, "{secret} {prefix}: {masked}");
                    let after = after.replace('-', "+").replace('_', "/");
                    assert!(
                        standard
                            .trim_end_matches('=')
                            .ends_with(after.trim_end_matches('='))
                    );
                    assert!(after.len() <= 12, "{secret} {prefix}: {masked}");
                }
            }
        }
    }

    #[test]
    fn derived_texts_are_masked_but_no_short_pieces() {
        let derived = |secret: &str, made: &str, text: &str, expected: &str| {
            let mut masks = masks(&[secret]);
            masks.add_derived(made, secret);
            assert_eq!(masks.mask(text), expected, "{made}");
        };
        derived("hunter2", "HUNTER2", "is HUNTER2", "is *****");
        derived("hunter2", "hunter", "is hunter", "is *****");
        derived("hunter2", "hunt", "we hunt", "we hunt");
        derived("abc", "ABC", "is ABC", "is *****");
        derived("abc", "", "is ABC", "is ABC");
    }

    #[test]
    fn long_texts_are_found_by_their_beginning_and_masked_whole() {
        let long = "0123456789abcdef".repeat(1000);
        check(&[&long], &format!("<{long}>"), "<*****>");
        check(
            &[&long],
            &format!("<{}>", &long[..63]),
            &format!("<{}>", &long[..63]),
        );
        let text = "x".repeat(QUOTE_BYTES_MAX + 1);
        assert_eq!(
            masks(&["hunter2"]).mask(&text).len(),
            QUOTE_BYTES_MAX - CUT_BYTES + " (cut)".len()
        );
    }

    #[test]
    fn the_work_of_a_search_is_bounded() {
        let secrets: Vec<String> = (1..=2 * WINDOW_MAX).map(|length| "a".repeat(length)).collect();
        let secrets: Vec<&str> = secrets.iter().map(String::as_str).collect();
        let masks = masks(&secrets);
        // each view differs
        let text = "aaaa\\\\x61%61+%2b-''".repeat(100_000);
        let searched = masks.searched(&text);
        let bytes: usize = views(searched).iter().map(|view| view.bytes().len()).sum();
        assert!(bytes * masks.forms.len() <= COMPARISONS_MAX, "{bytes} bytes");
        assert!(searched.len() > CUT_BYTES, "{} bytes", searched.len());
        assert!(masks.mask(&text).ends_with(" (cut)"));
        // ordinary texts are not cut
        let text = "x".repeat(QUOTE_BYTES_MAX);
        assert_eq!(masks.mask(&text), text);
    }

    #[test]
    fn a_cut_shows_no_beginning_of_a_secret() {
        let (secret, masks) = ("0123456789abcdef", masks(&["0123456789abcdef"]));
        for offset in (0..2 * CUT_BYTES).step_by(7) {
            let before = "x".repeat(QUOTE_BYTES_MAX - 2 * CUT_BYTES + offset);
            let masked = masks.mask(&format!("{before}{secret}{}", "y".repeat(2 * CUT_BYTES)));
            assert!(!masked.contains("0123"), "{offset}");
        }
    }

    #[test]
    fn a_value_that_holds_a_secret_is_hidden() {
        let check = |value: Value, hidden: bool| {
            let masks = masks(&["hunter2", "54321", "80"]);
            assert_eq!(masks.hides(&value), hidden, "{value}");
        };
        check(serde_json::json!("postgres://hunter2@db"), true);
        check(serde_json::json!({ "a": [1, "hunter2"] }), true);
        check(serde_json::json!(54321), true);
        check(serde_json::json!(543_210), false);
        check(serde_json::json!({ "hunter2": null }), false);
        check(serde_json::json!("80"), true);
        check(serde_json::json!("8080"), false);
        check(serde_json::json!("cG9zdGdyZXM6Ly9odW50ZXIyQGRi"), true);
    }
}
