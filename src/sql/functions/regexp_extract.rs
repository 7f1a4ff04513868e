//! REGEXP_EXTRACT, as Flink has it: `REGEXP_EXTRACT('id=7&', 'id=([0-9]*)', 1)` is `7`.
//!
//! The result is what the group matched in the first match, or the whole match for group 0, which is the default. It is
//! NULL where nothing matches, where the group took no part in the match, and where the pattern has no such group. Patterns
//! are those of the other regular expressions here, without look-around; one that cannot be read is an error.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::{Result, exec_datafusion_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature, Volatility};
use datafusion_functions::utils::make_scalar_function;
use regex::Regex;

/// REGEXP_EXTRACT(text, pattern [, group]).
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct RegexpExtract {
    signature: Signature,
}

impl RegexpExtract {
    pub fn new() -> Self {
        let two = vec![DataType::Utf8, DataType::Utf8];
        let three = vec![DataType::Utf8, DataType::Utf8, DataType::Int64];
        RegexpExtract { signature: Signature::one_of(vec![TypeSignature::Exact(two), TypeSignature::Exact(three)], Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for RegexpExtract {
    fn name(&self) -> &str {
        "regexp_extract"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(extracts, vec![])(&args.args)
    }
}

fn extracts(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let (texts, patterns) = (columns[0].as_string::<i32>(), columns[1].as_string::<i32>());
    let groups = columns.get(2).map(|groups| groups.as_primitive::<Int64Type>());
    let mut extracts = StringBuilder::new();
    // A pattern is nearly always a constant, so the last one read is the next one.
    let mut read: Option<Regex> = None;
    for row in 0..texts.len() {
        let group = groups.map_or(Some(0), |groups| groups.is_valid(row).then(|| groups.value(row)));
        let (true, true, Some(group)) = (texts.is_valid(row), patterns.is_valid(row), group) else {
            extracts.append_null();
            continue;
        };
        let pattern = patterns.value(row);
        let regex = match read.take().filter(|regex| regex.as_str() == pattern) {
            Some(regex) => regex,
            None => Regex::new(pattern).map_err(|e| exec_datafusion_err!("REGEXP_EXTRACT: the pattern '{pattern}': {e}"))?,
        };
        extracts.append_option(extract(&regex, texts.value(row), group));
        read = Some(regex);
    }
    Ok(Arc::new(extracts.finish()))
}

fn extract<'a>(regex: &Regex, text: &'a str, group: i64) -> Option<&'a str> {
    let group = usize::try_from(group).ok()?;
    Some(regex.captures(text)?.get(group)?.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_that_of_the_first_match() {
        let regex = Regex::new("(&|^)id=([^&]*)(;)?").unwrap();
        let text = "q=1&id=23&id=4";
        let extracts: Vec<_> = (-1..5).map(|group| extract(&regex, text, group)).collect();
        assert_eq!(extracts, [None, Some("&id=23"), Some("&"), Some("23"), None, None]);
        assert_eq!(extract(&regex, "q=1&ids=3", 2), None);
    }
}
