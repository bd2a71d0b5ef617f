//! The HTML page: throughput over time and latency by percentile for each step.

use plotters::prelude::*;

use crate::Fallible;
use crate::kept::Kept;
use crate::measure::SLICE;
use crate::outcome::Outcome;
use crate::stores::Kind;

const SIZE: (u32, u32) = (640, 300);

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A curve with its name.
type Curve = (Kind, Vec<(f64, f64)>);

fn chart(title: &str, x: &str, y: &str, curves: &[Curve], logarithmic: bool) -> Fallible<String> {
    let mut svg = String::new();
    let points = || curves.iter().flat_map(|(_, points)| points.iter());
    let right = points().map(|point| point.0).fold(f64::MIN_POSITIVE, f64::max);
    let top = points().map(|point| point.1).fold(f64::MIN_POSITIVE, f64::max);
    let low = points().map(|point| point.1).fold(top, f64::min).max(top / 1e9);
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let mut builder = ChartBuilder::on(&area);
        builder.caption(title, ("sans-serif", 15)).margin(8).x_label_area_size(34).y_label_area_size(64);
        macro_rules! draw {
            ($chart:expr) => {{
                let mut chart = $chart;
                chart.configure_mesh().x_desc(x).y_desc(y).light_line_style(WHITE).draw()?;
                for (place, (kind, points)) in curves.iter().enumerate() {
                    let colour = Palette99::pick(place).to_rgba();
                    chart
                        .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?
                        .label(kind.to_string())
                        .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
                }
                chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
            }};
        }
        if logarithmic {
            draw!(builder.build_cartesian_2d(0.0..right, (low..top * 1.1).log_scale())?);
        } else {
            draw!(builder.build_cartesian_2d(0.0..right, 0.0..top * 1.1)?);
        }
        area.present()?;
    }
    Ok(svg)
}

/// Operations a second over time, in slices put together so that a curve has at most 300 points.
fn throughput(outcome: &Outcome) -> Vec<(f64, f64)> {
    let slices = &outcome.timeline.slices;
    let width = slices.len().div_ceil(300).max(1);
    let seconds = SLICE.as_secs_f64() * width as f64;
    let sum = |chunk: &[u64]| chunk.iter().sum::<u64>() as f64 / (SLICE.as_secs_f64() * chunk.len() as f64);
    slices.chunks(width).enumerate().map(|(place, chunk)| ((place + 1) as f64 * seconds, sum(chunk))).collect()
}

/// Microseconds against the number of nines.
fn latency(outcome: &Outcome) -> Vec<(f64, f64)> {
    let nines = |quantile: f64| -(1.0 - quantile).log10();
    outcome.curve.iter().map(|&(quantile, nanos)| (nines(quantile), (nanos as f64 / 1e3).max(0.01))).collect()
}

/// The page: two plots a step, of the last round, the trees at the end, and the tables as they are in Markdown.
pub fn page(markdown: &str, kept: &[Kept]) -> Fallible<String> {
    let mut html = String::from("<!doctype html><meta charset=\"utf-8\"><title>compare</title>");
    html += "<style>body{font:14px sans-serif;margin:2em}pre{font-size:12px}</style><h1>The race</h1>";
    for (kept, line) in kept.iter().flat_map(|kept| kept.lines.iter().map(move |line| (kept, line))) {
        html += &format!("<h2>{}: {}</h2>", escape(&kept.scenario), escape(&line.step));
        let curves = |points: &dyn Fn(&Outcome) -> Vec<(f64, f64)>| -> Vec<Curve> {
            let last = line.outcomes.iter().filter_map(|(kind, outcomes)| Some((*kind, points(outcomes.last()?))));
            last.filter(|(_, points)| points.iter().any(|point| point.1 > 0.0)).collect()
        };
        let over_time = curves(&throughput);
        if !over_time.is_empty() {
            html += &chart("throughput over time", "seconds", "operations a second", &over_time, false)?;
        }
        let tails = curves(&latency);
        if !tails.is_empty() {
            html += &chart("latency by percentile", "nines (1: 90 %, 2: 99 %, …)", "microseconds", &tails, true)?;
        }
        for (kind, outcomes) in &line.outcomes {
            if let Some(last) = outcomes.last().filter(|last| !last.shape.is_empty()) {
                html += &format!("<h3>{kind} at the end</h3><pre>{}</pre>", escape(&last.shape));
            }
        }
    }
    html += &format!("<h2>All figures</h2><pre>{}</pre>", escape(markdown));
    Ok(html)
}
