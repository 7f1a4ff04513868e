//! SPLIT_INDEX, as Flink has it: `SPLIT_INDEX('a/b/c', '/', 1)` is `b`.
//!
//! Pieces are counted from 0. There is no piece, and the result is NULL, behind the last one, at a number below 0, and of
//! text without a character. An empty separator separates nothing: the text is its own piece 0.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::Result;
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use datafusion_functions::utils::make_scalar_function;

/// SPLIT_INDEX(text, separator, number).
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct SplitIndex {
    signature: Signature,
}

impl SplitIndex {
    pub fn new() -> Self {
        SplitIndex { signature: Signature::exact(vec![DataType::Utf8, DataType::Utf8, DataType::Int64], Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for SplitIndex {
    fn name(&self) -> &str {
        "split_index"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(|columns| Ok(pieces(columns)), vec![])(&args.args)
    }
}

fn pieces(columns: &[ArrayRef]) -> ArrayRef {
    let (texts, separators, numbers) =
        (columns[0].as_string::<i32>(), columns[1].as_string::<i32>(), columns[2].as_primitive::<Int64Type>());
    let mut pieces = StringBuilder::new();
    for row in 0..texts.len() {
        let whole = texts.is_valid(row) && separators.is_valid(row) && numbers.is_valid(row);
        pieces.append_option(if whole { piece(texts.value(row), separators.value(row), numbers.value(row)) } else { None });
    }
    Arc::new(pieces.finish())
}

fn piece<'a>(text: &'a str, separator: &str, number: i64) -> Option<&'a str> {
    let number = usize::try_from(number).ok()?;
    match separator {
        _ if text.is_empty() => None,
        "" => (number == 0).then_some(text),
        _ => text.split(separator).nth(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_counted_from_zero_and_there_is_none_behind_the_last() {
        let pieces: Vec<_> = (-1..5).map(|number| piece("https://a/b", "/", number)).collect();
        assert_eq!(pieces, [None, Some("https:"), Some(""), Some("a"), Some("b"), None]);
    }

    #[test]
    fn a_separator_may_have_several_characters_or_none() {
        assert_eq!(piece("a--b-c", "--", 1), Some("b-c"));
        assert_eq!(piece("a--b-c", "", 0), Some("a--b-c"));
        assert_eq!(piece("a--b-c", "", 1), None);
        assert_eq!(piece("", ",", 0), None);
    }
}
