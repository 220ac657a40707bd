//! The proleptic Gregorian calendar, for texts that may be dates.

/// The days of a month from 1 to 12; 31 for other numbers.
#[must_use]
pub fn days_in_month(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn february_is_longer_in_leap_years() {
        for (year, month, days) in [
            (2023, 2, 28),
            (2024, 2, 29),
            (1900, 2, 28),
            (2000, 2, 29),
            (2024, 4, 30),
            (2024, 12, 31),
        ] {
            assert_eq!(days_in_month(year, month), days, "{year}-{month}");
        }
    }
}
