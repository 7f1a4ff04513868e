//! Whether what has been typed so far is whole statements: what a shell asks after each line.

use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use crate::sql::dialect::{WeirDialect, is_word};

/// Whether every statement begun in the text is ended by a `;` outside quotes and comments; for a statement set, by the
/// one after its END. Text without a statement is complete, and so is text that more text cannot mend.
pub fn is_complete(text: &str) -> bool {
    let mut tokens = Vec::new();
    if let Err(error) = Tokenizer::new(&WeirDialect, text).tokenize_with_location_into_buf(&mut tokens) {
        return !is_unterminated(&error.message);
    }
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    let mut in_set = false;
    let mut rest = tokens.as_slice();
    while let Some(end) = rest.iter().position(|token| token.token == Token::SemiColon) {
        let piece = &rest[..end];
        in_set = if in_set { !starts_with(piece, &["END"]) } else { opens_set(piece) };
        rest = &rest[end + 1..];
    }
    rest.is_empty() && !in_set
}

/// Whether a piece of text up to its first `;` begins a statement set (that has its END in a later piece).
fn opens_set(piece: &[TokenWithSpan]) -> bool {
    starts_with(piece, &["EXECUTE", "STATEMENT", "SET", "BEGIN"]) || starts_with(piece, &["BEGIN", "STATEMENT", "SET"])
}

fn starts_with(piece: &[TokenWithSpan], words: &[&str]) -> bool {
    piece.len() >= words.len() && piece.iter().zip(words).all(|(token, word)| is_word(token, word))
}

/// Whether the tokenizer met the end of the text inside quotes or a comment.
fn is_unterminated(message: &str) -> bool {
    ["Unterminated", "Unexpected EOF", "before EOF"].iter().any(|sign| message.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_complete_at_its_semicolon_and_not_before() {
        assert!(is_complete("SELECT 1;"));
        assert!(is_complete("SELECT 1; SELECT 2; -- done"));
        assert!(!is_complete("SELECT 1"));
        assert!(!is_complete("SELECT 1; SELECT 2"));
    }

    #[test]
    fn a_semicolon_in_quotes_or_comments_ends_nothing() {
        for text in ["SELECT ';", "SELECT ';'", "SELECT `;", "SELECT \";", "SELECT /* ;", "SELECT /* ; */ 1", "SELECT 1 -- ;"] {
            assert!(!is_complete(text), "{text}");
        }
        assert!(is_complete("SELECT ';' /* ; */;"));
    }

    #[test]
    fn no_statement_is_nothing_to_wait_for() {
        for text in ["", "  \n", "-- note", "/* note */", ";;;"] {
            assert!(is_complete(text), "{text}");
        }
    }

    #[test]
    fn a_statement_set_is_complete_after_its_end() {
        for head in ["EXECUTE STATEMENT SET BEGIN", "begin statement set;"] {
            let inserts = format!("{head} INSERT INTO a SELECT CASE WHEN x THEN 1 END; INSERT INTO b SELECT 2;");
            assert!(!is_complete(&inserts), "{inserts}");
            assert!(!is_complete(&format!("{inserts} END")), "{inserts}");
            assert!(is_complete(&format!("{inserts} END;")), "{inserts}");
        }
        assert!(is_complete("BEGIN;"));
    }
}
