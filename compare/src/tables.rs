//! What reports are made of: medians, ratios, numbers in few digits and Markdown tables.

use std::fmt::Write;

/// The median of figures; the mean of the middle two of an even number.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[count / 2],
        count => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
    }
}

/// A ratio of medians, and the lowest and highest ratio of a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Ratio {
    /// Of figures by round.
    pub fn of(ours: &[f64], theirs: &[f64]) -> Self {
        let each: Vec<f64> = ours.iter().zip(theirs).map(|(one, other)| one / other).collect();
        Self {
            median: median(ours) / median(theirs),
            low: each.iter().copied().fold(f64::INFINITY, f64::min),
            high: each.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = out.precision().unwrap_or(2);
        write!(out, "{:.digits$} ({:.digits$}–{:.digits$})", self.median, self.low, self.high)
    }
}

/// A number of operations or bytes in few digits.
pub fn short(number: f64) -> String {
    match number.abs() {
        size if size >= 1e9 => format!("{:.2}G", number / 1e9),
        size if size >= 1e6 => format!("{:.2}M", number / 1e6),
        size if size >= 1e4 => format!("{:.0}k", number / 1e3),
        size if size >= 1e3 => format!("{:.1}k", number / 1e3),
        _ => format!("{number:.1}"),
    }
}

/// The median of figures in few digits, with the lowest and the highest; empty without figures.
pub fn spread(figures: &[f64], show: impl Fn(f64) -> String) -> String {
    let low = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let high = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match figures.len() {
        0 => String::new(),
        1 => show(low),
        _ => format!("{} ({}–{})", show(median(figures)), show(low), show(high)),
    }
}

/// A Markdown table: its first columns are text, the others numbers.
pub struct Table {
    text: String,
}

impl Table {
    /// A table with these columns.
    pub fn new<T: AsRef<str>>(texts: &[T], numbers: &[T]) -> Self {
        let mut text = String::from("|");
        for name in texts.iter().chain(numbers) {
            let _ = write!(text, " {} |", name.as_ref());
        }
        let _ = write!(text, "\n|{}{}\n", " --- |".repeat(texts.len()), " ---: |".repeat(numbers.len()));
        Self { text }
    }

    /// Adds a row.
    pub fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.text.push('|');
        for cell in cells {
            let _ = write!(self.text, " {} |", cell.as_ref());
        }
        self.text.push('\n');
    }

    /// The table and an empty line.
    pub fn end(self) -> String {
        self.text + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_medians_and_ranges_of_rounds() {
        let ratio = Ratio::of(&[2.0, 4.0, 9.0], &[1.0, 4.0, 3.0]);
        assert_eq!(ratio, Ratio { median: 4.0 / 3.0, low: 1.0, high: 3.0 });
        assert_eq!(ratio.to_string(), "1.33 (1.00–3.00)");
        assert_eq!(format!("{ratio:.3}"), "1.333 (1.000–3.000)");
    }

    #[test]
    fn tables_are_markdown() {
        let mut table = Table::new(&["step"], &["figure"]);
        table.row(["fill", &spread(&[1500.0, 2_500_000.0, 3.0], short)]);
        assert_eq!(table.end(), "| step | figure |\n| --- | ---: |\n| fill | 1.5k (3.0–2.50M) |\n\n");
    }
}
