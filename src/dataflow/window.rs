//! OVER windows: functions of a whole partition, recomputed when it changes.

use differential_dataflow::trace::Cursor;
use differential_dataflow::trace::implementations::BatchContainer;

use super::groups::{Answer, Group, GroupLogic};
use crate::error::Result;
use crate::eval;
use crate::plan::WindowFunction;
use crate::row::{ByteRows, Codec, Time};

/// The rows of a partition, each with the values of window functions.
pub struct Window {
    pub functions: Vec<WindowFunction>,
    /// Rows of the arrangement.
    pub rows: Codec,
    /// Rows of nothing but the functions' values.
    pub outputs: Codec,
}

impl Window {
    fn compute(&self, key: &[u8], group: &mut Group<'_>, until: Time) -> Result<Answer> {
        let (mut whole, mut values, mut row) = (ByteRows::default(), ByteRows::default(), Vec::new());
        while let Some(value) = group.cursor.get_val(group.storage) {
            for _ in 0..group.count(until) {
                row.clear();
                row.extend_from_slice(key);
                row.extend_from_slice(value.0);
                whole.push(&row);
                values.push(value.0);
            }
            group.cursor.step_val(group.storage);
        }
        let mut answer = Answer::default();
        if whole.is_empty() {
            return Ok(answer);
        }
        let decoded = self.rows.decode((0..whole.len()).map(|index| whole.get(index)))?;
        let outputs = self.outputs.encode_values(&eval::window(&self.functions, &decoded)?)?;
        for index in 0..whole.len() {
            row.clear();
            row.extend_from_slice(values.get(index));
            if let Some(outputs) = &outputs {
                row.extend_from_slice(outputs.row(index).data());
            }
            answer.push(&row, 1);
        }
        Ok(answer)
    }
}

impl GroupLogic for Window {
    fn answer(&mut self, key: &[u8], group: &mut Group<'_>, until: Time) -> Answer {
        self.compute(key, group, until).unwrap_or_else(|error| Answer { error: Some(error.to_string()), ..Answer::default() })
    }
}
