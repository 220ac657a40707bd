//! Go's time layouts: formatting and parsing by the example of 2006-01-02 15:04:05.

use super::duration::{MONTHS, WEEKDAYS};
use equate_manifest::go::quote_time as quote;
use jiff::Zoned;
use jiff::civil::Date;

/// The parts of a layout, longer ones before their prefixes.
const PARTS: [&str; 33] = [
    "January",
    "Jan",
    "Monday",
    "Mon",
    "MST",
    "2006",
    "-07:00:00",
    "-070000",
    "-07:00",
    "-0700",
    "-07",
    "Z07:00:00",
    "Z070000",
    "Z07:00",
    "Z0700",
    "Z07",
    "002",
    "__2",
    "01",
    "02",
    "03",
    "04",
    "05",
    "06",
    "15",
    "PM",
    "pm",
    "_2",
    "1",
    "2",
    "3",
    "4",
    "5",
];

#[derive(Clone, Copy)]
enum Piece<'a> {
    Part(&'static str),
    /// A point or comma and zeros or nines.
    Fraction(&'a str),
}

impl<'a> Piece<'a> {
    fn text(self) -> &'a str {
        match self {
            Self::Part(text) => text,
            Self::Fraction(text) => text,
        }
    }
}

/// The text before the next element, the element, and the rest.
fn next(layout: &str) -> (&str, Option<Piece<'_>>, &str) {
    const FIRST: &[u8] = b".,JM20_-Z1Pp345";
    for (at, byte) in layout.bytes().enumerate() {
        if !FIRST.contains(&byte) {
            continue;
        }
        let rest = &layout[at..];
        let piece = fraction(rest).map(Piece::Fraction).or_else(|| {
            let part = PARTS
                .iter()
                .find(|part| rest.starts_with(**part) && fits(rest, part));
            part.map(|part| Piece::Part(part))
        });
        if let Some(piece) = piece {
            return (&layout[..at], Some(piece), &rest[piece.text().len()..]);
        }
    }
    (layout, None, "")
}

fn fraction(rest: &str) -> Option<&str> {
    let digits = rest.strip_prefix(['.', ','])?;
    let digit = digits.chars().next().filter(|digit| matches!(digit, '0' | '9'))?;
    let length = digits.len() - digits.trim_start_matches(digit).len();
    let ends = !digits[length..].starts_with(|c: char| c.is_ascii_digit());
    ends.then_some(&rest[..=length])
}

/// `Jan` is not a part before a lower-case letter, and `_2006` is a year after an underscore.
fn fits(rest: &str, part: &str) -> bool {
    match part {
        "Jan" | "Mon" => !rest[part.len()..].starts_with(|c: char| c.is_ascii_lowercase()),
        "_2" => !rest.starts_with("_2006"),
        _ => true,
    }
}

/// Formats a time. `zone` is the name of an unknown zone.
pub(super) fn format(at: &Zoned, zone: Option<&str>, layout: &str) -> String {
    let mut out = String::new();
    let mut rest = layout;
    loop {
        let (text, piece, after) = next(rest);
        out.push_str(text);
        match piece {
            None => return out,
            Some(Piece::Fraction(piece)) => {
                let digits = format!("{:09}", at.subsec_nanosecond());
                let kept = &digits[..(piece.len() - 1).min(9)];
                let kept = if piece.ends_with('9') {
                    kept.trim_end_matches('0')
                } else {
                    kept
                };
                if !kept.is_empty() {
                    out.push_str(&piece[..1]);
                    out.push_str(kept);
                }
            }
            Some(Piece::Part("MST")) => match zone {
                Some(name) => out.push_str(name),
                None => out.push_str(&zone_name(at)),
            },
            Some(Piece::Part(part)) => out.push_str(&value(at, part)),
        }
        rest = after;
    }
}

/// The name of a zone, or its offset if it has none.
fn zone_name(at: &Zoned) -> String {
    let name = at.strftime("%Z").to_string();
    if name.starts_with(['+', '-']) {
        return value(at, "-0700");
    }
    name
}

fn value(at: &Zoned, part: &str) -> String {
    let month = MONTHS[(at.month() as usize + 11) % 12];
    let day = WEEKDAYS[at.weekday().to_sunday_zero_offset() as usize % 7];
    let hour12 = (at.hour() + 11) % 12 + 1;
    match part {
        "January" => month.into(),
        "Jan" => month[..3].into(),
        "Monday" => day.into(),
        "Mon" => day[..3].into(),
        "2006" => format!("{:04}", at.year()),
        "06" => format!("{:02}", at.year().rem_euclid(100)),
        "01" => format!("{:02}", at.month()),
        "1" => at.month().to_string(),
        "02" => format!("{:02}", at.day()),
        "_2" => format!("{:2}", at.day()),
        "2" => at.day().to_string(),
        "002" => format!("{:03}", at.day_of_year()),
        "__2" => format!("{:3}", at.day_of_year()),
        "15" => format!("{:02}", at.hour()),
        "03" => format!("{hour12:02}"),
        "3" => hour12.to_string(),
        "04" => format!("{:02}", at.minute()),
        "4" => at.minute().to_string(),
        "05" => format!("{:02}", at.second()),
        "5" => at.second().to_string(),
        "PM" => if at.hour() < 12 { "AM" } else { "PM" }.into(),
        "pm" => if at.hour() < 12 { "am" } else { "pm" }.into(),
        offset => {
            let seconds = at.offset().seconds();
            if offset.starts_with('Z') && seconds == 0 {
                return "Z".into();
            }
            let (sign, size) = (if seconds < 0 { '-' } else { '+' }, seconds.abs());
            let (hours, minutes, rest) = (size / 3_600, size / 60 % 60, size % 60);
            match &offset[1..] {
                "07" => format!("{sign}{hours:02}"),
                "0700" => format!("{sign}{hours:02}{minutes:02}"),
                "07:00" => format!("{sign}{hours:02}:{minutes:02}"),
                "070000" => format!("{sign}{hours:02}{minutes:02}{rest:02}"),
                _ => format!("{sign}{hours:02}:{minutes:02}:{rest:02}"),
            }
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ParsedTime {
    pub(super) year: i16,
    pub(super) month: i8,
    pub(super) day: i8,
    pub(super) hour: i8,
    pub(super) minute: i8,
    pub(super) second: i8,
    pub(super) nanosecond: i32,
    pub(super) is_utc: bool,
    /// East of UTC, in seconds.
    pub(super) offset: Option<i32>,
    /// An abbreviation, which may be ambiguous.
    pub(super) zone: Option<String>,
}

enum ParseFault {
    Form,
    Range(&'static str),
}

type ParseStep<'a, T> = Result<(T, &'a str), ParseFault>;

#[derive(Default)]
struct Reader {
    read: ParsedTime,
    pm: Option<bool>,
    year_day: Option<i16>,
}

/// Checks that a text is a time in a layout of Go's; the error is Go's.
pub fn parse_time(layout: &str, text: &str) -> Result<(), String> {
    parse(layout, text).map(|_| ())
}

/// Parses a time by a layout; the error is Go's.
pub(super) fn parse(layout: &str, text: &str) -> Result<ParsedTime, String> {
    let shown = format!("parsing time {}", quote(text));
    let form = |rest: &str, asked: &str| {
        let (layout, rest, asked) = (quote(layout), quote(rest), quote(asked));
        format!("{shown} as {layout}: cannot parse {rest} as {asked}")
    };
    let (mut layout_rest, mut rest) = (layout, text);
    let mut reader = Reader::default();
    loop {
        let (before, piece, after) = next(layout_rest);
        rest = skip(rest, before).map_err(|rest| form(rest, before))?;
        let Some(piece) = piece else {
            if !rest.is_empty() {
                return Err(format!("{shown}: extra text: {}", quote(rest)));
            }
            break;
        };
        layout_rest = after;
        rest = match reader.take(piece, rest, after) {
            Ok(rest) => rest,
            Err(ParseFault::Form) => return Err(form(rest, piece.text())),
            Err(ParseFault::Range(what)) => return Err(format!("{shown}: {what} out of range")),
        };
    }
    reader.finish().map_err(|reason| format!("{shown}: {reason}"))
}

/// Skips literal text; runs of spaces match each other. The error is the unmatched rest.
fn skip<'a>(text: &'a str, literal: &str) -> Result<&'a str, &'a str> {
    let (mut text, mut literal) = (text, literal);
    while let Some(character) = literal.chars().next() {
        if character == ' ' {
            if !text.is_empty() && !text.starts_with(' ') {
                return Err(text);
            }
            literal = literal.trim_start_matches(' ');
            text = text.trim_start_matches(' ');
            continue;
        }
        text = text.strip_prefix(character).ok_or(text)?;
        literal = &literal[character.len_utf8()..];
    }
    Ok(text)
}

/// Parses one or two digits, exactly two if `fixed`.
fn number(text: &str, fixed: bool) -> ParseStep<'_, i8> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).filter(|byte| byte.is_ascii_digit());
    match (digit(0), digit(1)) {
        (Some(tens), Some(ones)) => Ok(((tens - b'0') as i8 * 10 + (ones - b'0') as i8, &text[2..])),
        (Some(ones), None) if !fixed => Ok(((ones - b'0') as i8, &text[1..])),
        _ => Err(ParseFault::Form),
    }
}

fn within<'a>((number, rest): (i8, &'a str), most: i8, what: &'static str) -> ParseStep<'a, i8> {
    if number > most {
        return Err(ParseFault::Range(what));
    }
    Ok((number, rest))
}

/// The index of a name in a list, ignoring case.
fn named<'a>(text: &'a str, names: &[&str], length: Option<usize>) -> ParseStep<'a, usize> {
    let found = names.iter().enumerate().find_map(|(index, name)| {
        let name = &name[..length.unwrap_or(name.len())];
        let head = text.get(..name.len())?;
        head.eq_ignore_ascii_case(name)
            .then(|| (index, &text[name.len()..]))
    });
    found.ok_or(ParseFault::Form)
}

fn nanoseconds(digits: &str) -> i32 {
    let kept = &digits[..digits.len().min(9)];
    format!("{kept:0<9}").parse().unwrap_or_default()
}

fn leading_digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

impl Reader {
    fn take<'a>(&mut self, piece: Piece<'_>, text: &'a str, after: &str) -> Result<&'a str, ParseFault> {
        match piece {
            Piece::Fraction(piece) => self.fraction(piece, text),
            Piece::Part(part) => self.part(part, text, after),
        }
    }

    fn part<'a>(&mut self, part: &'static str, text: &'a str, after: &str) -> Result<&'a str, ParseFault> {
        let read = &mut self.read;
        let rest;
        match part {
            "2006" => {
                let digits = text.get(..4).ok_or(ParseFault::Form)?;
                if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    return Err(ParseFault::Form);
                }
                read.year = digits.parse().map_err(|_| ParseFault::Form)?;
                rest = &text[4..];
            }
            "06" => {
                let year: i16;
                (year, rest) = number(text, true).map(|(year, rest)| (year.into(), rest))?;
                read.year = if year >= 69 { year + 1900 } else { year + 2000 };
            }
            "January" | "Jan" => {
                let length = (part == "Jan").then_some(3);
                let index;
                (index, rest) = named(text, &MONTHS, length)?;
                read.month = index as i8 + 1;
            }
            "1" | "01" => {
                (read.month, rest) = within(number(text, part == "01")?, 12, "month")?;
                if read.month == 0 {
                    return Err(ParseFault::Range("month"));
                }
            }
            "Monday" | "Mon" => (_, rest) = named(text, &WEEKDAYS, (part == "Mon").then_some(3))?,
            "2" | "_2" | "02" => {
                let text = match text.strip_prefix(' ') {
                    Some(text) if part == "_2" => text,
                    _ => text,
                };
                (read.day, rest) = number(text, part == "02")?;
                if read.day == 0 {
                    // -1 means no day, as 0 is a day in the text
                    read.day = -1;
                }
            }
            "002" | "__2" => (self.year_day, rest) = year_day(text, part)?,
            "15" => (read.hour, rest) = within(number(text, false)?, 23, "hour")?,
            "3" | "03" => (read.hour, rest) = within(number(text, part == "03")?, 12, "hour")?,
            "4" | "04" => (read.minute, rest) = within(number(text, part == "04")?, 59, "minute")?,
            "5" | "05" => {
                let text_rest;
                (read.second, text_rest) = within(number(text, part == "05")?, 59, "second")?;
                rest = self.unasked_fraction(text_rest, after);
            }
            "PM" | "pm" => {
                let (am, pm) = if part == "PM" { ("AM", "PM") } else { ("am", "pm") };
                let half = text.get(..2).filter(|half| *half == am || *half == pm);
                self.pm = Some(half.ok_or(ParseFault::Form)? == pm);
                rest = &text[2..];
            }
            "MST" => rest = self.abbreviation(text)?,
            offset => rest = self.offset(offset, text)?,
        }
        Ok(rest)
    }

    fn fraction<'a>(&mut self, piece: &str, text: &'a str) -> Result<&'a str, ParseFault> {
        let digits = text.strip_prefix(['.', ',']);
        let found = digits.map_or(0, leading_digits);
        let wanted = piece.len() - 1;
        let taken = match digits {
            // nines accept any number of digits
            _ if piece.ends_with('9') => found,
            Some(_) if found >= wanted => wanted,
            _ => return Err(ParseFault::Form),
        };
        let (Some(digits), 1..) = (digits, taken) else {
            return Ok(text);
        };
        self.read.nanosecond = nanoseconds(&digits[..taken]);
        Ok(&digits[taken..])
    }

    /// Parses a fraction after the seconds that the layout does not mention.
    fn unasked_fraction<'a>(&mut self, text: &'a str, after: &str) -> &'a str {
        let is_asked = matches!(
            next(after),
            ("", Some(Piece::Fraction(_)), _) | (_, Some(Piece::Fraction(_)), _)
        );
        match text.strip_prefix(['.', ',']) {
            Some(digits) if !is_asked && leading_digits(digits) > 0 => {
                let count = leading_digits(digits);
                self.read.nanosecond = nanoseconds(&digits[..count]);
                &digits[count..]
            }
            _ => text,
        }
    }

    fn offset<'a>(&mut self, part: &str, text: &'a str) -> Result<&'a str, ParseFault> {
        if part.starts_with('Z')
            && let Some(rest) = text.strip_prefix('Z')
        {
            self.read.is_utc = true;
            return Ok(rest);
        }
        let head = text.get(..part.len()).ok_or(ParseFault::Form)?;
        let colons = part
            .bytes()
            .zip(head.bytes())
            .all(|(want, got)| want != b':' || got == b':');
        if !colons {
            return Err(ParseFault::Form);
        }
        let digits = head
            .get(1..)
            .unwrap_or_default()
            .replace(|c| c == ':' && part.contains(':'), "");
        let mut fields = [0; 3];
        let mut is_form = head.starts_with(['+', '-']);
        for (field, two) in fields.iter_mut().zip(digits.as_bytes().chunks(2)) {
            match two {
                [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => {
                    *field = i32::from((tens - b'0') * 10 + ones - b'0');
                }
                _ => {
                    is_form = false;
                    break;
                }
            }
        }
        let [hours, minutes, seconds] = fields;
        // Go checks the range first
        for (value, most, what) in [
            (hours, 24, "time zone offset hour"),
            (minutes, 60, "time zone offset minute"),
            (seconds, 60, "time zone offset second"),
        ] {
            if value > most {
                return Err(ParseFault::Range(what));
            }
        }
        if !is_form {
            return Err(ParseFault::Form);
        }
        let sign = if head.starts_with('-') { -1 } else { 1 };
        self.read.offset = Some(sign * (hours * 3_600 + minutes * 60 + seconds));
        Ok(&text[part.len()..])
    }

    fn abbreviation<'a>(&mut self, text: &'a str) -> Result<&'a str, ParseFault> {
        if let Some(rest) = text.strip_prefix("UTC") {
            self.read.is_utc = true;
            return Ok(rest);
        }
        let length = abbreviation_length(text).ok_or(ParseFault::Form)?;
        self.read.zone = Some(text[..length].to_owned());
        Ok(&text[length..])
    }

    fn finish(self) -> Result<ParsedTime, String> {
        let mut read = self.read;
        match self.pm {
            Some(true) if read.hour < 12 => read.hour += 12,
            Some(false) if read.hour == 12 => read.hour = 0,
            _ => {}
        }
        if let Some(day) = self.year_day {
            let january = Date::new(read.year, 1, 1).map_err(|error| error.to_string())?;
            if day < 1 || day > january.days_in_year() {
                return Err("day-of-year out of range".into());
            }
            let date = january + jiff::Span::new().days(day - 1);
            if read.month > 0 && read.month != date.month() || read.day != 0 && read.day != date.day() {
                return Err("day-of-year does not match month or day".into());
            }
            (read.month, read.day) = (date.month(), date.day());
        }
        read.month = read.month.max(1);
        read.day = if read.day == 0 { 1 } else { read.day };
        if Date::new(read.year, read.month, read.day).is_err() {
            return Err("day out of range".into());
        }
        Ok(read)
    }
}

fn year_day<'a>(text: &'a str, part: &str) -> ParseStep<'a, Option<i16>> {
    let spaces = match part {
        "__2" => text.len() - text.trim_start_matches(' ').len(),
        _ => 0,
    };
    let spaces = spaces.min(2);
    let digits = &text[spaces..];
    let wanted = if part == "002" { 3..=3 } else { 1..=3 };
    let count = leading_digits(digits).min(3 - spaces);
    if !wanted.contains(&count) {
        return Err(ParseFault::Form);
    }
    Ok((digits[..count].parse().ok(), &digits[count..]))
}

/// The length of a zone abbreviation in the forms Go knows.
fn abbreviation_length(text: &str) -> Option<usize> {
    if text.len() < 3 {
        return None;
    }
    if text.starts_with("ChST") || text.starts_with("MeST") {
        return Some(4);
    }
    if let Some(rest) = text.strip_prefix("GMT") {
        return Some(3 + signed_hours(rest));
    }
    if text.starts_with(['+', '-']) {
        let length = signed_hours(text);
        return (length > 0).then_some(length);
    }
    let capitals = text.bytes().take(6).take_while(u8::is_ascii_uppercase).count();
    let ends = |with: &str| text[..capitals].ends_with(with);
    match capitals {
        3 => Some(3),
        4 if ends("T") || text.starts_with("WITA") => Some(4),
        5 if ends("T") => Some(5),
        _ => None,
    }
}

/// The length of a sign with hours from 1 to 23.
fn signed_hours(text: &str) -> usize {
    let Some(digits) = text.strip_prefix(['+', '-']) else {
        return 0;
    };
    let count = leading_digits(digits);
    match digits[..count].parse::<u64>() {
        Ok(0..=23) => 1 + count,
        _ => 0,
    }
}
