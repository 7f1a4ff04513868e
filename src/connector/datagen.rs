//! Made-up rows, with the options of Flink's connector of that name.
//!
//! Every value follows from the seed, its column and its row number and from nothing else: not from batching, not from
//! speed. The generator is SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014),
//! which can be asked for its n-th number.

use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::*;

use super::format::parse;
use super::options::Options;
use super::pace::{BATCH, Pace};
use super::{Position, Read, Source, SourceBatch};
use crate::error::{Error, Result};
use crate::text::{a_type_name, days_from_civil, per_second, type_name, write_hex};

/// How long a random text may be: a batch of them stays within what an Arrow array of text can hold.
const LONGEST: usize = 65_536;

/// Makes up rows.
#[derive(Debug)]
pub(super) struct Datagen {
    schema: SchemaRef,
    fields: Vec<Generator>,
    rows: Option<u64>,
    done: u64,
    /// How many rows a batch has at most.
    batch: usize,
    pace: Pace,
}

/// How one column's values are made.
#[derive(Debug)]
struct Generator {
    data_type: DataType,
    seed: u64,
    null_rate: f64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Whole numbers (also what times, dates and decimals are stored as), from the first to the last one, evenly.
    Whole(i128, i128),
    /// Doubles from the first to the last one, evenly.
    Float(f64, f64),
    /// So many hexadecimal digits, or bytes.
    Length(usize),
    Boolean,
    /// The first number and those after it, in steps of `unit`.
    Sequence {
        start: i128,
        unit: i128,
    },
}

impl Datagen {
    pub fn new(options: &Options) -> Result<Self> {
        let spec = options.spec;
        let mut sequences = Vec::new();
        let seed: u64 = options.number("seed", "a whole number")?.unwrap_or_default();
        let mut fields = Vec::with_capacity(spec.schema.fields().len());
        for (position, field) in spec.schema.fields().iter().enumerate() {
            let column = Field { options, name: field.name(), data_type: field.data_type() };
            let null_rate = column.null_rate(field.is_nullable())?;
            let kind = if options.choice(&column.option("kind"), &["random", "sequence"])? == 1 {
                let sequence = column.sequence()?;
                let start = sequence.start;
                sequences.push(sequence);
                Kind::Sequence { start, unit: column.unit() }
            } else {
                column.random()?
            };
            let seed = mix(seed.wrapping_add(mix(position as u64 + 1)));
            fields.push(Generator { data_type: field.data_type().clone(), seed, null_rate, kind });
        }
        let rows = number_of_rows(options, &sequences)?;
        let rate = options.number("rows-per-second", "a number of rows")?.unwrap_or_default();
        Ok(Datagen { schema: spec.schema.clone(), fields, rows, done: 0, batch: BATCH, pace: Pace::new(rate) })
    }

    /// The rows behind the first `done`, in batches of at most so many.
    pub fn behind(self, done: u64, batch: usize) -> Self {
        Datagen { done, batch, ..self }
    }
}

impl Source for Datagen {
    fn read(&mut self) -> Result<Read> {
        let left = self.rows.map_or(u64::MAX, |rows| rows.saturating_sub(self.done));
        if left == 0 {
            return Ok(Read::End);
        }
        let count = self.pace.due(self.done).min(left).min(self.batch as u64);
        if count == 0 {
            return Ok(Read::Idle);
        }
        let columns = self.fields.iter().map(|field| field.values(self.done, count)).collect();
        self.done += count;
        let options = RecordBatchOptions::new().with_row_count(Some(count as usize));
        let rows = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        Ok(Read::Batch(SourceBatch { rows, ops: None, errors: Vec::new() }))
    }

    fn position(&self) -> Position {
        Position::Made(self.done)
    }

    fn is_bounded(&self) -> bool {
        self.rows.is_some()
    }
}

/// What a column's options say of its sequence.
struct Sequence {
    column: String,
    /// The first number, as stored.
    start: i128,
    /// How many numbers there are: up to the end that was given, else to the greatest of the type.
    count: u64,
    ends: bool,
}

/// How many rows there are: as many as asked for, and none beyond a sequence's end. Something has to end a sequence,
/// and a type that ends too early is refused.
fn number_of_rows(options: &Options, sequences: &[Sequence]) -> Result<Option<u64>> {
    let asked: Option<u64> = options.number("number-of-rows", "a number of rows")?;
    let ended = sequences.iter().filter(|sequence| sequence.ends).map(|sequence| sequence.count).chain(asked).min();
    let Some(open) = sequences.iter().filter(|sequence| !sequence.ends).min_by_key(|sequence| sequence.count) else { return Ok(ended) };
    let table = &options.spec.name;
    match ended {
        None => Err(Error::invalid(format!("table '{table}': a sequence needs 'fields.{}.end' or 'number-of-rows'", open.column))),
        Some(rows) if rows <= open.count => Ok(Some(rows)),
        Some(rows) => Err(Error::invalid(format!(
            "table '{table}': the sequence of column '{}' is at the end of its type after {} rows, and there are to be {rows}",
            open.column, open.count
        ))),
    }
}

/// The options of one column.
struct Field<'a> {
    options: &'a Options<'a>,
    name: &'a str,
    data_type: &'a DataType,
}

impl Field<'_> {
    fn option(&self, name: &str) -> String {
        format!("fields.{}.{name}", self.name)
    }

    fn null_rate(&self, nullable: bool) -> Result<f64> {
        let name = self.option("null-rate");
        let rate: f64 = self.options.number(&name, "a number from 0 to 1")?.unwrap_or_default();
        if !(0.0..=1.0).contains(&rate) {
            return Err(self.options.wrong(&name, "a number from 0 to 1"));
        }
        if rate > 0.0 && !nullable {
            return Err(self.options.wrong(&name, "0 for a NOT NULL column"));
        }
        Ok(rate)
    }

    /// The numbers of a sequence; without an end, up to the greatest of its type.
    fn sequence(&self) -> Result<Sequence> {
        let text = matches!(self.data_type, DataType::Utf8 | DataType::Float32 | DataType::Float64);
        if !text && !self.data_type.is_integer() && !matches!(self.data_type, DataType::Decimal128(..)) {
            let name = type_name(self.data_type);
            return Err(Error::unsupported(format!("datagen's sequences of type {name}, for column '{}'", self.name)));
        }
        let of_type = if text { &DataType::Int64 } else { self.data_type };
        let read = |name: &str, value: &str| whole(of_type, value).ok_or_else(|| self.options.wrong(name, a_type_name(of_type)));
        let (first, end) = (self.option("start"), self.option("end"));
        let start = read(&first, self.options.require(&first)?)?;
        let given = self.options.get(&end).map(|value| read(&end, value)).transpose()?;
        let last = given.or_else(|| extent(of_type).map(|(_, greatest)| greatest)).unwrap_or(i128::MAX);
        if last < start {
            return Err(self.options.wrong(&self.option("end"), "no less than the start"));
        }
        let count = u64::try_from(last.abs_diff(start) / self.unit().unsigned_abs() + 1).unwrap_or(u64::MAX);
        Ok(Sequence { column: self.name.to_owned(), start, count, ends: given.is_some() })
    }

    /// What is stored for the number one.
    fn unit(&self) -> i128 {
        match self.data_type {
            DataType::Decimal128(_, scale @ 1..) => 10i128.pow(u32::from(scale.unsigned_abs())),
            _ => 1,
        }
    }

    fn random(&self) -> Result<Kind> {
        Ok(match self.data_type {
            DataType::Boolean => Kind::Boolean,
            DataType::Utf8 | DataType::Binary => {
                let (name, what) = (self.option("length"), format!("a number up to {LONGEST}"));
                match self.options.number(&name, &what)?.unwrap_or_default() {
                    length @ 0..=LONGEST => Kind::Length(length),
                    _ => return Err(self.options.wrong(&name, what)),
                }
            }
            DataType::Float32 => {
                let (min, max) = self.range(f64::from(f32::MIN), f64::from(f32::MAX), |text| text.parse::<f32>().ok().map(f64::from))?;
                Kind::Float(min, max)
            }
            DataType::Float64 => {
                let (min, max) = self.range(f64::MIN, f64::MAX, |text| text.parse().ok())?;
                Kind::Float(min, max)
            }
            data_type => {
                let (least, greatest) = extent(data_type).ok_or_else(|| {
                    Error::unsupported(format!("datagen's values of type {}, for column '{}'", type_name(data_type), self.name))
                })?;
                let (min, max) = self.range(least, greatest, |text| whole(data_type, text))?;
                Kind::Whole(min, max)
            }
        })
    }

    fn range<T: PartialOrd>(&self, least: T, greatest: T, parse: impl Fn(&str) -> Option<T>) -> Result<(T, T)> {
        let end = |name: &str, default: T| {
            let name = self.option(name);
            match self.options.get(&name) {
                None => Ok(default),
                Some(text) => parse(text.trim()).ok_or_else(|| self.options.wrong(&name, a_type_name(self.data_type))),
            }
        };
        let (min, max) = (end("min", least)?, end("max", greatest)?);
        // Written so that NaN is refused too.
        if min <= max { Ok((min, max)) } else { Err(self.options.wrong(&self.option("min"), "no greater than the max")) }
    }
}

/// The least and the greatest number that a type is stored as; of times, those of 1970 to 2037.
fn extent(data_type: &DataType) -> Option<(i128, i128)> {
    let days = i128::from(days_from_civil(2038, 1, 1));
    let seconds = |count: i128, unit: &TimeUnit| (0, count * i128::from(per_second(*unit)) - 1);
    Some(match data_type {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        DataType::UInt64 => (0, u64::MAX.into()),
        DataType::Decimal128(precision, _) => {
            let greatest = 10i128.checked_pow(u32::from(*precision))? - 1;
            (-greatest, greatest)
        }
        DataType::Date32 => (0, days - 1),
        DataType::Time32(unit) | DataType::Time64(unit) => seconds(86_400, unit),
        DataType::Timestamp(unit, _) => seconds(days * 86_400, unit),
        _ => return None,
    })
}

/// The number that a value of a type is stored as.
fn whole(data_type: &DataType, text: &str) -> Option<i128> {
    match data_type {
        DataType::Decimal128(precision, scale) => parse::decimal(text, *precision, *scale),
        DataType::Date32 => parse::date(text).map(i128::from),
        DataType::Time32(unit) | DataType::Time64(unit) => parse::time(text, *unit).map(i128::from),
        DataType::Timestamp(unit, _) => parse::timestamp(text, *unit).map(i128::from),
        _ => {
            let (least, greatest) = extent(data_type)?;
            text.parse().ok().filter(|value| (least..=greatest).contains(value))
        }
    }
}

/// The finaliser of SplitMix64.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The numbers that the values of one row and column are made of.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A double from 0 to just below 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A whole number from `min` to `max`. A span of 64 bits or less is hit evenly to one part in 2^64.
    fn whole(&mut self, min: i128, max: i128) -> i128 {
        let span = max.abs_diff(min);
        let offset = match u64::try_from(span) {
            Ok(span) => (u128::from(self.next()) * (u128::from(span) + 1)) >> 64,
            Err(_) => (u128::from(self.next()) << 64 | u128::from(self.next())) % (span + 1),
        };
        min.wrapping_add_unsigned(offset)
    }
}

impl Generator {
    /// The values of `count` rows from the row `first` on.
    fn values(&self, first: u64, count: u64) -> ArrayRef {
        use TimeUnit::*;
        match &self.data_type {
            DataType::Boolean => Arc::new(self.rows(first, count).map(|draws| Some(draws?.1.next() >> 63 == 1)).collect::<BooleanArray>()),
            DataType::Utf8 => {
                Arc::new(self.rows(first, count).map(|draws| draws.map(|(row, draws)| self.text(row, draws))).collect::<StringArray>())
            }
            DataType::Binary => {
                Arc::new(self.rows(first, count).map(|draws| draws.map(|(_, mut draws)| self.bytes(&mut draws))).collect::<BinaryArray>())
            }
            DataType::Float32 => {
                Arc::new(self.rows(first, count).map(|d| d.map(|(row, d)| self.float(row, d) as f32)).collect::<Float32Array>())
            }
            DataType::Float64 => Arc::new(self.rows(first, count).map(|d| d.map(|(row, d)| self.float(row, d))).collect::<Float64Array>()),
            DataType::Int8 => self.numbers::<Int8Type>(first, count),
            DataType::Int16 => self.numbers::<Int16Type>(first, count),
            DataType::Int32 => self.numbers::<Int32Type>(first, count),
            DataType::UInt8 => self.numbers::<UInt8Type>(first, count),
            DataType::UInt16 => self.numbers::<UInt16Type>(first, count),
            DataType::UInt32 => self.numbers::<UInt32Type>(first, count),
            DataType::UInt64 => self.numbers::<UInt64Type>(first, count),
            DataType::Decimal128(..) => self.numbers::<Decimal128Type>(first, count),
            DataType::Date32 => self.numbers::<Date32Type>(first, count),
            DataType::Time32(Second) => self.numbers::<Time32SecondType>(first, count),
            DataType::Time32(_) => self.numbers::<Time32MillisecondType>(first, count),
            DataType::Time64(Nanosecond) => self.numbers::<Time64NanosecondType>(first, count),
            DataType::Time64(_) => self.numbers::<Time64MicrosecondType>(first, count),
            DataType::Timestamp(Second, _) => self.numbers::<TimestampSecondType>(first, count),
            DataType::Timestamp(Millisecond, _) => self.numbers::<TimestampMillisecondType>(first, count),
            DataType::Timestamp(Microsecond, _) => self.numbers::<TimestampMicrosecondType>(first, count),
            DataType::Timestamp(Nanosecond, _) => self.numbers::<TimestampNanosecondType>(first, count),
            // Every other type was refused when the table was made.
            _ => self.numbers::<Int64Type>(first, count),
        }
    }

    /// Every row's number and draws, or None where the value is NULL.
    fn rows(&self, first: u64, count: u64) -> impl Iterator<Item = Option<(u64, Draws)>> {
        (first..first + count).map(move |row| {
            let mut draws = Draws(self.seed ^ mix(row.wrapping_add(1)));
            (self.null_rate == 0.0 || draws.fraction() >= self.null_rate).then_some((row, draws))
        })
    }

    fn numbers<T: ArrowPrimitiveType>(&self, first: u64, count: u64) -> ArrayRef
    where
        T::Native: TryFrom<i128>,
    {
        let values = self.rows(first, count).map(|draws| draws.and_then(|(row, draws)| T::Native::try_from(self.number(row, draws)).ok()));
        Arc::new(values.collect::<PrimitiveArray<T>>().with_data_type(self.data_type.clone()))
    }

    fn number(&self, row: u64, mut draws: Draws) -> i128 {
        match self.kind {
            Kind::Whole(min, max) => draws.whole(min, max),
            Kind::Sequence { start, unit } => start + i128::from(row) * unit,
            Kind::Float(..) | Kind::Length(_) | Kind::Boolean => 0,
        }
    }

    fn float(&self, row: u64, mut draws: Draws) -> f64 {
        match self.kind {
            Kind::Float(min, max) => {
                let share = draws.fraction();
                // Not `min + share * (max - min)`, which overflows over the whole range.
                (min * (1.0 - share) + max * share).clamp(min, max)
            }
            _ => self.number(row, draws) as f64,
        }
    }

    fn text(&self, row: u64, mut draws: Draws) -> String {
        let Kind::Length(length) = self.kind else { return self.number(row, draws).to_string() };
        let mut text = String::with_capacity(length + 1);
        write_hex(&mut text, &random_bytes(&mut draws, length.div_ceil(2)));
        text.truncate(length);
        text
    }

    fn bytes(&self, draws: &mut Draws) -> Vec<u8> {
        let Kind::Length(length) = self.kind else { return Vec::new() };
        random_bytes(draws, length)
    }
}

fn random_bytes(draws: &mut Draws, length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| draws.next().to_le_bytes()).collect();
    bytes.truncate(length);
    bytes
}
