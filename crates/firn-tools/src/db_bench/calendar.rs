//! Dates as the tools print them. In: seconds since 1970. Out: civil date and time in UTC.

/// A moment as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CivilTime {
    /// Year, month 1..12, day 1..31.
    pub date: (i64, usize, u32),
    /// Hour, minute, second.
    pub time: (u64, u64, u64),
    /// 0 is Sunday.
    pub weekday: usize,
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

impl CivilTime {
    /// The moment `seconds` after 1970-01-01 00:00:00 UTC.
    pub fn from_unix(seconds: u64) -> Self {
        let days = seconds / 86_400;
        let rest = seconds % 86_400;
        // Eras of 400 years that begin on the first of March, so that the leap day ends a year.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = (era * 400 + year_of_era) as i64 + i64::from(month <= 2);
        Self {
            date: (year, month as usize, day as u32),
            time: (rest / 3600, rest / 60 % 60, rest % 60),
            weekday: ((days + 4) % 7) as usize,
        }
    }

    /// The form of C's `ctime`, without the newline: `Sat Nov 21 18:46:14 2026`.
    pub fn ctime(&self) -> String {
        let ((year, month, day), (hour, minute, second)) = (self.date, self.time);
        let (weekday, month) = (WEEKDAYS[self.weekday % 7], MONTHS[(month + 11) % 12]);
        format!("{weekday} {month} {day:2} {hour:02}:{minute:02}:{second:02} {year}")
    }

    /// The form of progress lines: `2026/11/21-18:46:16`.
    pub fn stamp(&self) -> String {
        let ((year, month, day), (hour, minute, second)) = (self.date, self.time);
        format!("{year}/{month:02}/{day:02}-{hour:02}:{minute:02}:{second:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        assert_eq!(CivilTime::from_unix(0).ctime(), "Thu Jan  1 00:00:00 1970");
        assert_eq!(CivilTime::from_unix(951_782_400).ctime(), "Tue Feb 29 00:00:00 2000");
        assert_eq!(CivilTime::from_unix(1_795_286_774).stamp(), "2026/11/21-18:46:14");
        assert_eq!(CivilTime::from_unix(1_795_286_774).ctime(), "Sat Nov 21 18:46:14 2026");
    }
}
