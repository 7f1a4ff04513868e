//! The SQL that queries are written in: what DataFusion's planner understands, with Flink's quoting.
//!
//! The base is `sqlparser`'s generic dialect, with two differences. Backticks quote identifiers beside double quotes, and
//! what the planner would drop without a word (PREWHERE, SETTINGS, CONNECT BY, WITH FILL and the like) is not in the
//! grammar at all: here it is a syntax error, where it stands.

use std::any::TypeId;

use sqlparser::ast::Expr;
use sqlparser::dialect::{Dialect, GenericDialect};
use sqlparser::keywords::{Keyword, RESERVED_FOR_COLUMN_ALIAS, RESERVED_FOR_TABLE_ALIAS};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// How many operators may follow one another (`a OR b OR ...`). A tree of twice that depth cannot be cloned on a stack of
/// 2 MiB by a build without optimisation.
const CHAIN: usize = 200;

/// Weir's SQL.
#[derive(Debug, Clone, Copy, Default)]
pub struct WeirDialect;

/// Methods of [`Dialect`] that say yes.
macro_rules! supports {
    ($($feature:ident),+ $(,)?) => {
        $(fn $feature(&self) -> bool {
            true
        })+
    };
}

impl Dialect for WeirDialect {
    /// `sqlparser` asks for the generic dialect by its type where it parses UNNEST in FROM and a few operators.
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '"' || ch == '`'
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || ch == '_' || ch == '$'
    }

    /// An alias without AS is never the first word of EMIT ON WINDOW CLOSE.
    fn is_select_item_alias(&self, explicit: bool, keyword: &Keyword, parser: &mut Parser) -> bool {
        explicit || !(RESERVED_FOR_COLUMN_ALIAS.contains(keyword) || at_emit(parser))
    }

    fn is_table_factor_alias(&self, explicit: bool, keyword: &Keyword, parser: &mut Parser) -> bool {
        explicit || !(RESERVED_FOR_TABLE_ALIAS.contains(keyword) || at_emit(parser))
    }

    /// Operators in a row nest to the left without bound, and everything after the parser walks trees by recursion: a chain
    /// that would exhaust a stack ends here, as an error.
    fn parse_infix(&self, parser: &mut Parser, left: &Expr, precedence: u8) -> Option<Result<Expr, ParserError>> {
        let too_long =
            || format!("more than {CHAIN} operators in a row; use IN (...) or parentheses{}", parser.get_current_token().span.start);
        if left_depth(left) >= CHAIN {
            return Some(Err(ParserError::ParserError(too_long())));
        }
        distinct_from(parser).map(|negated| {
            let right = Box::new(parser.parse_subexpr(precedence)?);
            let left = Box::new(left.clone());
            Ok(if negated { Expr::IsNotDistinctFrom(left, right) } else { Expr::IsDistinctFrom(left, right) })
        })
    }

    supports! {
        // Literals and expressions.
        supports_unicode_string_literal,
        supports_string_escape_constant,
        supports_struct_literal,
        supports_dictionary_syntax,
        support_map_literal_syntax,
        supports_bitwise_shift_operators,
        supports_try_convert,
        supports_comma_separated_trim,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_extract_comma_syntax,
        // Types.
        supports_array_typedef_with_brackets,
        supports_map_literal_with_angle_brackets,
        supports_interval_options,
        // Aggregates and windows.
        supports_filter_during_aggregation,
        supports_group_by_expr,
        supports_group_by_with_modifier,
        supports_window_clause_named_window_reference,
        supports_window_function_null_treatment_arg,
        // FROM.
        supports_left_associative_joins_without_parens,
        supports_match_recognize,
        supports_table_versioning,
        supports_parens_around_table_factor,
        supports_values_as_table_factor,
        supports_named_fn_args_with_assignment_operator,
        // SELECT lists and the rest.
        supports_select_wildcard_except,
        supports_select_wildcard_exclude,
        supports_select_wildcard_replace,
        supports_limit_comma,
        supports_pipe_operator,
        supports_nested_comments,
    }
}

/// Reads IS [NOT] DISTINCT FROM, if that is what comes next, and says whether NOT was in it. The stock parser takes
/// everything behind it for its right side, `a IS DISTINCT FROM b AND c` for `a IS DISTINCT FROM (b AND c)`.
fn distinct_from(parser: &mut Parser) -> Option<bool> {
    if parser.parse_keywords(&[Keyword::IS, Keyword::DISTINCT, Keyword::FROM]) {
        return Some(false);
    }
    parser.parse_keywords(&[Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM]).then_some(true)
}

/// How deep an expression nests to the left, by the operators that can follow one another.
fn left_depth(expr: &Expr) -> usize {
    std::iter::successors(Some(expr), |expr| match expr {
        Expr::BinaryOp { left, .. } | Expr::AnyOp { left, .. } | Expr::AllOp { left, .. } => Some(left),
        Expr::IsNull(expr) | Expr::IsNotNull(expr) | Expr::IsTrue(expr) | Expr::IsNotTrue(expr) => Some(expr),
        Expr::IsFalse(expr) | Expr::IsNotFalse(expr) | Expr::IsUnknown(expr) | Expr::IsNotUnknown(expr) => Some(expr),
        Expr::IsDistinctFrom(left, _) | Expr::IsNotDistinctFrom(left, _) => Some(left),
        Expr::Cast { expr, .. } | Expr::Between { expr, .. } | Expr::InList { expr, .. } | Expr::InSubquery { expr, .. } => Some(expr),
        Expr::Like { expr, .. } | Expr::ILike { expr, .. } | Expr::SimilarTo { expr, .. } | Expr::RLike { expr, .. } => Some(expr),
        Expr::AtTimeZone { timestamp, .. } => Some(timestamp),
        Expr::IsNormalized { expr, .. } | Expr::InUnnest { expr, .. } => Some(expr),
        _ => None,
    })
    .count()
}

/// Whether the token the parser has just read begins EMIT ON WINDOW CLOSE.
fn at_emit(parser: &Parser) -> bool {
    is_word(parser.get_current_token(), "EMIT")
        && is_word(parser.peek_nth_token_ref(0), "ON")
        && is_word(parser.peek_nth_token_ref(1), "WINDOW")
}

/// Whether a token is this word, in any case and not quoted.
pub(super) fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    matches!(&token.token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}
