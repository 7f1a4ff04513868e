//! What was measured of one query, and how it is shown.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use indicatif::{HumanBytes, HumanCount};
use serde_json::{Value, json};

use crate::engine::meter::{Look, Tick};
use crate::error::Result;

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    pub query: String,
    /// The rows that came, and how long the engine worked on them.
    pub rows: u64,
    pub seconds: f64,
    /// How long a tick (or a transaction, where there are some) took.
    pub latency: Latency,
    /// The most memory that the process held at any time, where the system says.
    pub peak_bytes: Option<u64>,
    pub state_rows: u64,
    pub state_bytes: u64,
    /// What was kept in the course of the run.
    pub looks: Vec<Look>,
}

/// Milliseconds: half of them took no longer, 99 of 100, all.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Latency {
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

impl Latency {
    /// By nearest rank: the least of the times that so large a share of them does not exceed.
    pub fn of(times: impl IntoIterator<Item = Duration>) -> Self {
        let mut times: Vec<Duration> = times.into_iter().collect();
        times.sort();
        let rank = |percent: usize| {
            let index = (times.len() * percent).div_ceil(100).saturating_sub(1);
            times.get(index).map_or(0.0, |time| time.as_secs_f64() * 1e3)
        };
        Latency { p50: rank(50), p99: rank(99), max: rank(100) }
    }
}

impl Figures {
    /// Rows a second.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.rows as f64 / self.seconds } else { 0.0 }
    }

    /// How long the engine worked on all ticks.
    pub fn seconds(ticks: &[Tick]) -> f64 {
        ticks.iter().map(|tick| tick.took).sum::<Duration>().as_secs_f64()
    }

    /// One line, for who waits for the rest.
    pub fn line(&self) -> String {
        let Figures { query, rows, seconds, latency, state_rows, state_bytes, .. } = self;
        let (rate, state) = (HumanCount(self.rate() as u64), HumanBytes(*state_bytes));
        let (rows, state_rows) = (HumanCount(*rows), HumanCount(*state_rows));
        format!("{query}: {rows} rows in {seconds:.2} s, {rate} rows/s; p99 {:.1} ms; state {state_rows} rows, {state}", latency.p99)
    }

    pub fn to_json(&self) -> Value {
        let looks: Vec<Value> = self.looks.iter().map(|look| json!([look.rows, look.at, look.state_rows, look.state_bytes])).collect();
        let Latency { p50, p99, max } = self.latency;
        json!({
            "query": self.query, "rows": self.rows, "seconds": self.seconds, "latency": [p50, p99, max], "peak_bytes": self.peak_bytes,
            "state_rows": self.state_rows, "state_bytes": self.state_bytes, "looks": looks,
        })
    }

    pub fn from_json(said: &Value) -> Option<Self> {
        let look = |look: &Value| {
            let number = |index: usize| look[index].as_u64();
            Some(Look { rows: number(0)?, at: look[1].as_i64()?, state_rows: number(2)?, state_bytes: number(3)? })
        };
        let latency = |index: usize| said["latency"][index].as_f64();
        Some(Figures {
            query: said["query"].as_str()?.to_owned(),
            rows: said["rows"].as_u64()?,
            seconds: said["seconds"].as_f64()?,
            latency: Latency { p50: latency(0)?, p99: latency(1)?, max: latency(2)? },
            peak_bytes: said["peak_bytes"].as_u64(),
            state_rows: said["state_rows"].as_u64()?,
            state_bytes: said["state_bytes"].as_u64()?,
            looks: said["looks"].as_array()?.iter().map(look).collect::<Option<_>>()?,
        })
    }
}

const MIB: f64 = 1_048_576.0;

/// All figures, a row a query.
pub fn table(all: &[Figures], workers: usize) -> Result<RecordBatch> {
    let whole = |of: &dyn Fn(&Figures) -> f64| Arc::new(all.iter().map(|f| Some(of(f).round() as i64)).collect::<Int64Array>()) as ArrayRef;
    let hundredths = |of: &dyn Fn(&Figures) -> Option<f64>| {
        Arc::new(all.iter().map(|f| of(f).map(|value| (value * 100.0).round() / 100.0)).collect::<Float64Array>()) as ArrayRef
    };
    // Where there was nothing to wait for, nothing is said.
    let said = |ms: f64| Some(ms).filter(|ms| *ms > 0.0);
    Ok(RecordBatch::try_from_iter_with_nullable([
        ("query", Arc::new(all.iter().map(|f| Some(f.query.as_str())).collect::<StringArray>()) as ArrayRef, false),
        ("rows", whole(&|f| f.rows as f64), false),
        ("rows_per_s", whole(&Figures::rate), false),
        ("per_core", whole(&|f| f.rate() / workers as f64), false),
        ("p50_ms", hundredths(&|f| said(f.latency.p50)), true),
        ("p99_ms", hundredths(&|f| said(f.latency.p99)), true),
        ("max_ms", hundredths(&|f| said(f.latency.max)), true),
        ("peak_mib", hundredths(&|f| f.peak_bytes.map(|bytes| bytes as f64 / MIB)), true),
        ("state_rows", whole(&|f| f.state_rows as f64), false),
        ("state_mib", hundredths(&|f| Some(f.state_bytes as f64 / MIB)), false),
    ])?)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Figures of a query that never ran.
    pub fn some(query: &str) -> Figures {
        let look = |rows| Look { rows, at: rows as i64 * 86_400_000, state_rows: rows / 2, state_bytes: rows * 24 };
        Figures {
            query: query.into(),
            rows: 3_000,
            seconds: 1.5,
            latency: Latency { p50: 1.25, p99: 7.0, max: 9.5 },
            peak_bytes: Some(50 << 20),
            state_rows: 1_500,
            state_bytes: 72_000,
            looks: [1_000, 2_000, 3_000].map(look).into(),
        }
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let times = (1..=200).rev().map(Duration::from_millis);
        assert_eq!(Latency::of(times), Latency { p50: 100.0, p99: 198.0, max: 200.0 });
        assert_eq!(Latency::of([Duration::from_millis(3)]), Latency { p50: 3.0, p99: 3.0, max: 3.0 });
        assert_eq!(Latency::of([]), Latency::default());
    }

    #[test]
    fn figures_come_through_json_as_they_were() {
        for figures in [some("q0"), Figures { peak_bytes: None, looks: vec![], ..some("q1") }] {
            assert_eq!(Figures::from_json(&figures.to_json()), Some(figures));
        }
    }

    #[test]
    fn rates_are_rows_over_seconds_in_all_and_a_core() {
        let rows = table(&[some("q0")], 2).unwrap();
        let line = crate::text::line(&rows, 0);
        assert_eq!(line, ["q0", "3000", "2000", "1000", "1.25", "7.0", "9.5", "50.0", "1500", "0.07"]);
    }
}
