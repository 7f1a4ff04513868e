//! Plots as SVG.

use plotters::coord::ranged1d::SegmentValue;
use plotters::prelude::*;

use crate::error::{Error, Result};

const SIZE: (u32, u32) = (960, 420);

/// One line of a plot.
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

fn drawn<E: std::fmt::Display>(error: E) -> Error {
    Error::Invalid(format!("a plot cannot be drawn: {error}"))
}

/// The colour of the n-th of several things.
fn colour(index: usize, of: usize) -> HSLColor {
    HSLColor(index as f64 / of.max(1) as f64 * 0.85 + 0.58, 0.55, 0.45)
}

/// A number as a label: 1500000 is 1.5M.
fn short(value: &f64) -> String {
    let (value, unit) = match value.abs() {
        large if large >= 1e9 => (value / 1e9, "G"),
        large if large >= 1e6 => (value / 1e6, "M"),
        large if large >= 1e3 => (value / 1e3, "k"),
        _ => (*value, ""),
    };
    let text = format!("{value:.2}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Room above the largest of some values, which may all be zero.
fn above(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max).max(f64::MIN_POSITIVE * 1e3) * 1.08
}

/// What is at a place on the axis of names.
fn name_at(names: &[String], place: &SegmentValue<usize>) -> String {
    match place {
        SegmentValue::CenterOf(index) => names.get(*index).cloned().unwrap_or_default(),
        _ => String::new(),
    }
}

/// A bar for each name.
pub fn bars(unit: &str, names: &[String], values: &[f64]) -> Result<String> {
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    let top = above(values.iter().copied());
    let mut chart = ChartBuilder::on(&root)
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(70)
        .build_cartesian_2d((0..names.len().saturating_sub(1)).into_segmented(), 0.0..top)
        .map_err(drawn)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(names.len())
        .x_label_formatter(&|place| name_at(names, place))
        .y_label_formatter(&short)
        .y_desc(unit)
        .draw()
        .map_err(drawn)?;
    let bar = |(index, value): (usize, &f64)| {
        let corners = [(SegmentValue::Exact(index), 0.0), (SegmentValue::Exact(index + 1), *value)];
        let mut bar = Rectangle::new(corners, colour(0, 1).filled());
        bar.set_margin(0, 0, 4, 4);
        bar
    };
    chart.draw_series(values.iter().enumerate().map(bar)).map_err(drawn)?;
    root.present().map_err(drawn)?;
    drop(chart);
    drop(root);
    Ok(svg)
}

/// Several marks for each name, one of each kind, on a logarithmic axis: `values[kind][name]`.
pub fn marks(unit: &str, names: &[String], kinds: &[&str], values: &[Vec<f64>]) -> Result<String> {
    const LEAST: f64 = 0.001;
    let all = || values.iter().flatten().map(|value| value.max(LEAST));
    let (low, high) = (all().fold(f64::INFINITY, f64::min).min(1.0) / 2.0, above(all()).max(2.0 * LEAST) * 2.0);
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&root)
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(70)
        .build_cartesian_2d((0..names.len().saturating_sub(1)).into_segmented(), (low..high).log_scale())
        .map_err(drawn)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(names.len())
        .x_label_formatter(&|place| name_at(names, place))
        .y_label_formatter(&short)
        .y_desc(unit)
        .draw()
        .map_err(drawn)?;
    for (kind, (name, values)) in kinds.iter().zip(values).enumerate() {
        let style = colour(kind, kinds.len()).filled();
        let mark = |(index, value): (usize, &f64)| Circle::new((SegmentValue::CenterOf(index), value.max(LEAST)), 5, style);
        let drawn_marks = chart.draw_series(values.iter().enumerate().map(mark)).map_err(drawn)?;
        drawn_marks.label(*name).legend(move |(x, y)| Circle::new((x + 8, y), 5, style));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).draw().map_err(drawn)?;
    root.present().map_err(drawn)?;
    drop(chart);
    drop(root);
    Ok(svg)
}

/// Lines over a common axis.
pub fn lines(across: &str, up: &str, all: &[Line]) -> Result<String> {
    let points = || all.iter().flat_map(|line| &line.points);
    let (right, top) = (above(points().map(|(x, _)| *x)), above(points().map(|(_, y)| *y)));
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&root)
        .margin(10)
        .x_label_area_size(45)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..right, 0.0..top)
        .map_err(drawn)?;
    chart.configure_mesh().x_desc(across).y_desc(up).x_label_formatter(&short).y_label_formatter(&short).draw().map_err(drawn)?;
    for (index, line) in all.iter().enumerate() {
        let colour = colour(index, all.len());
        let series = LineSeries::new(line.points.iter().copied(), colour.stroke_width(2));
        chart
            .draw_series(series)
            .map_err(drawn)?
            .label(line.name.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()
        .map_err(drawn)?;
    root.present().map_err(drawn)?;
    drop(chart);
    drop(root);
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_labelled_with_its_unit_and_no_idle_zeros() {
        let labels: Vec<String> = [0.0, 950.0, 1_500.0, 2e6, 3.25e9].iter().map(short).collect();
        assert_eq!(labels, ["0", "950", "1.5k", "2M", "3.25G"]);
    }

    #[test]
    fn plots_are_drawn_of_nothing_of_zeros_and_of_one() {
        for names in [vec![], vec!["q0".to_owned()]] {
            let values: Vec<f64> = names.iter().map(|_| 0.0).collect();
            assert!(bars("rows/s", &names, &values).unwrap().starts_with("<svg"));
            assert!(marks("ms", &names, &["p50"], std::slice::from_ref(&values)).unwrap().starts_with("<svg"));
            let line = Line { name: "q0".into(), points: values.iter().map(|y| (0.0, *y)).collect() };
            assert!(lines("rows", "bytes", &[line]).unwrap().starts_with("<svg"));
        }
    }
}
