//! The first rows of each group.

use super::groups::{Answer, GroupLogic, Live};
use crate::plan::{Column, Rank};
use crate::row::prefix_len;

/// The rows of a group from the `offset`th on, `limit` of them, read from the arrangement in order: what is behind the
/// limit is never looked at.
pub struct TopK {
    pub offset: u64,
    pub limit: Option<u64>,
    pub rank: Rank,
    /// Whether a row's rank is a column of the output.
    pub expose: bool,
    /// The value columns of the arrangement.
    pub values: Vec<Column>,
}

/// Counts ranks along a group's rows.
#[derive(Default)]
struct Ranks {
    rows: u64,
    rank: u64,
    dense: u64,
    peers: Vec<u8>,
}

impl Ranks {
    /// The rank of the next `count` rows, which are equal. For ROW_NUMBER that of the first of them.
    fn next(&mut self, rank: Rank, columns: &[Column], value: &[u8], count: u64) -> Result<u64, String> {
        let first = self.rows + 1;
        self.rows += count;
        let (Rank::Rank { order } | Rank::DenseRank { order }) = rank else { return Ok(first) };
        let len = prefix_len(columns, order, value).map_err(|error| error.to_string())?;
        if first == 1 || self.peers != value[..len] {
            self.peers = value[..len].to_vec();
            self.rank = first;
            self.dense += 1;
        }
        Ok(if matches!(rank, Rank::Rank { .. }) { self.rank } else { self.dense })
    }
}

impl GroupLogic for TopK {
    fn answer(&mut self, _key: &[u8], rows: &mut dyn Live) -> Answer {
        let mut answer = Answer::default();
        let mut ranks = Ranks::default();
        let end = self.limit.map_or(u64::MAX, |limit| self.offset.saturating_add(limit));
        let mut row = Vec::new();
        while let Some((value, count)) = rows.next() {
            let rank = match ranks.next(self.rank, &self.values, value, count as u64) {
                Ok(rank) => rank,
                Err(error) => return Answer { error: Some(error), ..Answer::default() },
            };
            if rank > end {
                break;
            }
            // The ranks that copies of the row take: one each under ROW_NUMBER, else the same for all.
            let copies = if self.rank == Rank::RowNumber { (count as u64).min(end - rank + 1) } else { 1 };
            let skip = if self.rank == Rank::RowNumber { (self.offset + 1).saturating_sub(rank).min(copies) } else { 0 };
            let times = if self.rank == Rank::RowNumber { 1 } else { count };
            if !self.expose && self.rank == Rank::RowNumber {
                if copies > skip {
                    answer.push(value, (copies - skip) as i64);
                }
            } else if rank + copies > self.offset {
                for copy in rank + skip..rank + copies {
                    row.clear();
                    row.extend_from_slice(value);
                    if self.expose {
                        // A non-NULL unsigned integer: a sentinel byte and big-endian bytes.
                        row.push(1);
                        row.extend_from_slice(&copy.to_be_bytes());
                    }
                    if copy > self.offset {
                        answer.push(&row, times);
                    }
                }
            }
        }
        answer
    }
}
