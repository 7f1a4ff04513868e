//! The report's page: the table and its plots.

use std::fmt::Write as _;

use super::figures::{Figures, table};
use super::plots::{Line, bars, lines, marks};
use super::workload::Workload;
use crate::error::Result;
use crate::text::line;

const STYLE: &str = "body { font: 15px/1.5 sans-serif; max-width: 980px; margin: 2em auto; padding: 0 1em; color: #222; background: #fff }
table { border-collapse: collapse; font-variant-numeric: tabular-nums } th, td { padding: .2em .8em; text-align: right; border-bottom: 1px solid #ddd }
th:first-child, td:first-child { text-align: left } svg { max-width: 100%; height: auto } h2 { margin-top: 2em }";

/// The page, of one HTML element and what is inside it.
pub fn page(workload: Workload, workers: usize, described: &str, all: &[Figures]) -> Result<String> {
    let title = format!("weir bench {}", workload.name());
    let (names, rates): (Vec<String>, Vec<f64>) = all.iter().map(|figures| (figures.query.clone(), figures.rate())).unzip();
    let latencies = [|f: &Figures| f.latency.p50, |f: &Figures| f.latency.p99, |f: &Figures| f.latency.max];
    let latencies = latencies.map(|of| all.iter().map(of).collect::<Vec<f64>>());
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{title}</title><style>{STYLE}</style></head>\n<body>\n"
    );
    let _ = writeln!(page, "<h1>{title}</h1>\n<p>{described}</p>\n{}", html_table(all, workers)?);
    let mut plot = |heading: &str, svg: String| {
        let _ = writeln!(page, "<h2>{heading}</h2>\n{svg}");
    };
    plot("Throughput", bars("rows/s", &names, &rates)?);
    plot(
        if workload == Workload::Tpch { "Latency of a transaction" } else { "Latency of a tick" },
        marks("ms", &names, &["p50", "p99", "max"], &latencies)?,
    );
    plot("State", lines(across(workload), "MiB", &states(workload, all))?);
    page.push_str("</body>\n</html>\n");
    Ok(page)
}

/// What the state is plotted over.
fn across(workload: Workload) -> &'static str {
    match workload {
        Workload::Dau => "days",
        Workload::Nexmark | Workload::Clicks | Workload::Tpch => "rows read",
    }
}

/// What each query kept in the course of its run.
fn states(workload: Workload, all: &[Figures]) -> Vec<Line> {
    const DAY: f64 = 86_400_000.0;
    let line = |figures: &Figures| {
        let first = figures.looks.first().map_or(0, |look| look.at);
        let x = |rows: u64, at: i64| if workload == Workload::Dau { (at - first) as f64 / DAY } else { rows as f64 };
        let points = figures.looks.iter().map(|look| (x(look.rows, look.at), look.state_bytes as f64 / 1_048_576.0)).collect();
        Line { name: figures.query.clone(), points }
    };
    all.iter().map(line).collect()
}

fn html_table(all: &[Figures], workers: usize) -> Result<String> {
    let rows = table(all, workers)?;
    let cells = |tag: &str, cells: Vec<String>| cells.iter().map(|cell| format!("<{tag}>{cell}</{tag}>")).collect::<String>();
    let head = rows.schema().fields().iter().map(|field| field.name().clone()).collect();
    let body: String = (0..rows.num_rows()).map(|row| format!("<tr>{}</tr>\n", cells("td", line(&rows, row)))).collect();
    Ok(format!("<table>\n<tr>{}</tr>\n{body}</table>", cells("th", head)))
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::some;
    use super::*;

    #[test]
    fn a_page_has_every_query_three_plots_and_nothing_from_elsewhere() {
        for workload in [Workload::Nexmark, Workload::Dau, Workload::Clicks, Workload::Tpch] {
            let page = page(workload, 1, "1 worker", &[some("one"), some("two")]).unwrap();
            assert!(page.contains("<td>one</td>") && page.contains("<td>two</td>"));
            assert_eq!(page.matches("<svg").count(), 3);
            assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
            let outside = ["src=", "href=", "url(", "@import"].iter().find(|what| page.contains(*what));
            assert_eq!(outside, None);
        }
    }
}
