//! How reports write numbers: counts, bytes and durations for people.

pub(super) const MB: f64 = (1u64 << 20) as f64;
pub(super) const GB: f64 = (1u64 << 30) as f64;

/// A count with `K`, `M` or `G` from ten thousand on.
pub fn count_text(count: i64) -> String {
    match count.unsigned_abs() {
        0..10_000 => count.to_string(),
        10_000..10_000_000 => format!("{}K", count / 1000),
        10_000_000..10_000_000_000 => format!("{}M", count / 1_000_000),
        _ => format!("{}G", count / 1_000_000_000),
    }
}

/// Bytes in `KB`, `MB`, `GB` or `TB` with two decimals.
pub fn bytes_text(bytes: u64) -> String {
    let mut value = bytes as f64 / 1024.0;
    let mut units = ["KB", "MB", "GB", "TB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    while value >= 1024.0 {
        let Some(next) = units.next() else { break };
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.2} {unit}")
}

/// Bytes in the largest unit of which there are ten.
pub fn short_bytes_text(bytes: u64) -> String {
    for (shift, unit) in [(40, "TB"), (30, "GB"), (20, "MB"), (10, "KB")] {
        if bytes >= 10 << shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    format!("{bytes}B")
}

/// A duration as `HH:MM:S.sss H:M:S`.
pub fn fixed_duration_text(micros: u64) -> String {
    let (hours, rest) = (micros / 3_600_000_000, micros % 3_600_000_000);
    let (minutes, rest) = (rest / 60_000_000, rest % 60_000_000);
    format!("{hours:02}:{minutes:02}:{:05.3} H:M:S", rest as f64 / 1e6)
}

/// A duration in the unit that suits it.
pub fn duration_text(micros: u64) -> String {
    match micros {
        0..10_000 => format!("{micros} us"),
        10_000..10_000_000 => format!("{:.3} ms", micros as f64 / 1e3),
        10_000_000..60_000_000 => format!("{:.3} sec", micros as f64 / 1e6),
        60_000_000..3_600_000_000 => {
            format!("{:02}:{:05.3} M:S", micros / 60_000_000, (micros % 60_000_000) as f64 / 1e6)
        }
        _ => fixed_duration_text(micros),
    }
}

/// A number with `digits` significant digits, as C++ streams print it.
pub(super) fn general_text(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".into() } else { format!("{value}").to_lowercase() };
    }
    let digits = digits.max(1);
    let scientific = format!("{value:.*e}", digits - 1);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| {
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text.to_owned() }
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    let decimals = usize::try_from(digits as i32 - 1 - exponent).unwrap_or(0);
    trimmed(&format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_numbers_as_rocksdb_does() {
        assert_eq!([9999, 10_000, 75_123, 10_000_000, -20_000].map(count_text), ["9999", "10K", "75K", "10M", "-20K"]);
        assert_eq!([0, 27_177, 1 << 20, 5 << 40].map(bytes_text), ["0.00 KB", "26.54 KB", "1.00 MB", "5.00 TB"]);
        assert_eq!([10_239, 10_240, 10 << 30].map(short_bytes_text), ["10239B", "10KB", "10GB"]);
        assert_eq!(fixed_duration_text(557_000), "00:00:0.557 H:M:S");
        assert_eq!(fixed_duration_text(3_723_500_000), "01:02:3.500 H:M:S");
        assert_eq!([5, 20_000, 12_345_000].map(duration_text), ["5 us", "20.000 ms", "12.345 sec"]);
        assert_eq!(duration_text(61_000_000), "01:1.000 M:S");
        assert_eq!(
            [0.25, -1.0, 28.076_171_875, 1e-7, 1.5e9].map(|value| general_text(value, 6)),
            ["0.25", "-1", "28.0762", "1e-07", "1.5e+09"]
        );
    }
}
