//! When a scope expires that is written.

use super::scopes::NEVER;
use crate::plan::{Closes, Column, Refresh, Retention, RowType};
use crate::row::{milliseconds, prefix_len};

/// The deadlines of the scopes of an arrangement: so long after a write, or at an instant that the scope's bytes say.
#[derive(Clone)]
pub struct Deadlines {
    retention: Retention,
    /// The columns before the one with the time, and that.
    before: Vec<Column>,
    time: Option<Column>,
}

impl Deadlines {
    /// Those that `retention` says of rows like `row`.
    pub fn new(retention: Retention, row: &RowType) -> Self {
        let column = retention.closes.map_or(0, |closes| closes.column);
        Deadlines { retention, before: row.columns.iter().take(column).cloned().collect(), time: row.columns.get(column).cloned() }
    }

    pub fn retention(&self) -> &Retention {
        &self.retention
    }

    /// Other figures of the same kind.
    pub fn retune(&mut self, retention: Retention) {
        self.retention = retention;
    }

    /// The deadline of a scope of which a row is written at an instant, or comes to be then.
    pub fn armed(&self, row: &[u8], now: u64) -> u64 {
        match self.retention.closes {
            None => now.saturating_add(self.retention.ttl_max.or(self.retention.ttl).unwrap_or(NEVER)),
            // What comes when it is over already (a reading that catches up) is there for as long as that instant.
            Some(closes) => self.close(closes, row).map_or(NEVER, |close| close.max(now.saturating_add(1))),
        }
    }

    /// The deadline of a live scope of which another row is written.
    pub fn touched(&self, due: u64, row: &[u8], now: u64) -> u64 {
        match self.retention {
            Retention { refresh: Refresh::Create, .. } => due,
            Retention { closes: Some(closes), .. } => self.close(closes, row).map_or(due, |close| close.max(due)),
            // Armed lazily: only where it would not live its ttl.
            Retention { ttl_max: Some(_), ttl, .. } if now.saturating_add(ttl.unwrap_or(NEVER)) <= due => due,
            _ => self.armed(row, now),
        }
    }

    /// When a row is over; None where its time is NULL.
    fn close(&self, closes: Closes, row: &[u8]) -> Option<u64> {
        let start = prefix_len(&self.before, self.before.len(), row).ok()?;
        let time = milliseconds(self.time.as_ref()?, &row[start..])?;
        Some(u64::try_from(time.saturating_add(closes.after)).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, TimeUnit};

    use super::*;
    use crate::plan::Scope;
    use crate::row::instant_bytes;

    #[test]
    fn a_scope_that_closes_is_due_at_the_time_in_its_bytes_however_often_it_is_written() {
        let column = |data_type| Column::new("c", data_type, true);
        let row = RowType::new([column(DataType::Int32), column(DataType::Timestamp(TimeUnit::Microsecond, None))]);
        let closes = Some(Closes { column: 1, after: 500 });
        let retention = Retention { scope: Scope::Group, ttl: None, ttl_max: None, refresh: Refresh::Create, closes, history: 0 };
        let deadlines = Deadlines::new(retention, &row);
        let scope = [&[1, 0x80, 0, 0, 7][..], &instant_bytes(2_000_999)].concat();
        assert_eq!(deadlines.armed(&scope, 10), 2_500);
        assert_eq!(deadlines.touched(2_500, &scope, 2_499), 2_500);
        assert_eq!(deadlines.armed(&scope, 2_500), 2_501, "what comes afterwards is there for an instant");
        let null = [&[1, 0x80, 0, 0, 7][..], &[0; 9]].concat();
        assert_eq!(deadlines.armed(&null, 10), NEVER);
        let mut descending = row.columns.to_vec();
        descending[1].sort.descending = true;
        let inverted: Vec<u8> = scope.iter().enumerate().map(|(at, byte)| if at > 5 { !byte } else { *byte }).collect();
        assert_eq!(Deadlines::new(retention, &RowType::new(descending)).armed(&inverted, 10), 2_500);
    }

    #[test]
    fn a_group_of_rows_with_times_is_due_after_the_last_of_them_in_whatever_order_they_are_written() {
        let column = |data_type| Column::new("c", data_type, true);
        let row = RowType::new([column(DataType::Int32), column(DataType::Timestamp(TimeUnit::Millisecond, None))]);
        let closes = Some(Closes { column: 1, after: 100 });
        let retention = Retention { scope: Scope::Group, ttl: None, ttl_max: None, refresh: Refresh::Write, closes, history: 0 };
        let deadlines = Deadlines::new(retention, &row);
        let of = |time: i64| [&[1, 0x80, 0, 0, 7][..], &instant_bytes(time)].concat();
        assert_eq!(deadlines.armed(&of(500), 10), 600);
        assert_eq!(deadlines.touched(600, &of(550), 20), 650);
        assert_eq!(deadlines.touched(650, &of(400), 20), 650);
    }

    #[test]
    fn a_day_is_due_as_the_midnight_with_which_it_begins() {
        let row = RowType::new([Column::new("c", DataType::Date32, true)]);
        let closes = Some(Closes { column: 0, after: 86_400_000 });
        let retention = Retention { scope: Scope::Group, ttl: None, ttl_max: None, refresh: Refresh::Create, closes, history: 0 };
        assert_eq!(Deadlines::new(retention, &row).armed(&[1, 0x80, 0, 0, 3], 10), 4 * 86_400_000);
    }
}
