//! What Tab completes in the shell: SQL words, and the names of tables and views.

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use crate::engine::{Engine, Outcome};
use crate::text::cell;

const WORDS: &[&str] = &[
    "ADVANCE BY",
    "ADVANCE TO TIMESTAMP",
    "ALTER VIEW",
    "AND",
    "AS",
    "ASC",
    "BEGIN",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "COMMIT",
    "COUNT",
    "CREATE",
    "CROSS JOIN",
    "CUBE",
    "CURRENT ROW",
    "DELETE FROM",
    "DESC",
    "DISTINCT",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXECUTE STATEMENT SET",
    "EXISTS",
    "EXPLAIN",
    "FILTER",
    "FROM",
    "FULL JOIN",
    "GROUP BY",
    "GROUPING SETS",
    "HAVING",
    "INNER JOIN",
    "INSERT INTO",
    "INTERSECT",
    "INTERVAL",
    "JOIN",
    "LATERAL",
    "LEFT JOIN",
    "LIMIT",
    "MATERIALIZED VIEW",
    "NOT",
    "NULL",
    "OFFSET",
    "ORDER BY",
    "OVER",
    "PARTITION BY",
    "PRIMARY KEY",
    "RESET",
    "RIGHT JOIN",
    "ROLLUP",
    "SELECT",
    "SET",
    "SHOW COLUMNS FROM",
    "SHOW CREATE",
    "SHOW JOBS",
    "SHOW TABLES",
    "SHOW VIEWS",
    "SUBSCRIBE",
    "TABLE",
    "THEN",
    "TIMESTAMP",
    "UNION",
    "UPDATE",
    "VALUES",
    "VIEW",
    "WATERMARK FOR",
    "WHEN",
    "WHERE",
    "WITH",
];

/// Completes the word before the cursor.
pub struct Names {
    engine: Engine,
}

impl Names {
    pub fn of(engine: &Engine) -> Self {
        Names { engine: engine.clone() }
    }

    /// Every table and view. What cannot be listed cannot be completed, and is no error.
    fn names(&self) -> Vec<String> {
        let listed = self.engine.execute("SHOW TABLES; SHOW VIEWS").unwrap_or_default();
        let mut names = Vec::new();
        for outcome in listed {
            if let Outcome::Rows(rows) = outcome
                && rows.num_columns() > 0
            {
                names.extend((0..rows.num_rows()).map(|row| cell(rows.column(0), row)));
            }
        }
        names
    }
}

impl Completer for Names {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let (start, word) = word_before(line, pos);
        Ok((start, if word.is_empty() { Vec::new() } else { candidates(word, self.names()) }))
    }
}

impl Helper for Names {}
impl Hinter for Names {
    type Hint = String;
}
impl Highlighter for Names {}
impl Validator for Names {}

/// The word that ends at the cursor, and where it begins.
fn word_before(line: &str, pos: usize) -> (usize, &str) {
    let head = &line[..pos];
    let start =
        head.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |i| i + head[i..].chars().next().map_or(0, char::len_utf8));
    (start, &head[start..])
}

/// Names first, then words of SQL, in the case of what has been typed.
fn candidates(word: &str, names: Vec<String>) -> Vec<String> {
    let begins = |candidate: &str| candidate.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word));
    let lower = word.chars().all(|c| !c.is_uppercase());
    let words = WORDS.iter().map(|candidate| if lower { candidate.to_lowercase() } else { (*candidate).to_owned() });
    names.into_iter().chain(words).filter(|candidate| begins(candidate)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_before_the_cursor_begins_after_the_last_sign() {
        assert_eq!(word_before("SELECT * FROM cli", 17), (14, "cli"));
        assert_eq!(word_before("SELECT sum(cli", 14), (11, "cli"));
        assert_eq!(word_before("sel", 3), (0, "sel"));
        assert_eq!(word_before("é→cl", 7), (5, "cl"));
        assert_eq!(word_before("SELECT ", 7), (7, ""));
    }

    #[test]
    fn words_are_completed_in_the_case_of_what_was_typed() {
        assert_eq!(candidates("sel", vec![]), ["select"]);
        assert_eq!(candidates("SEL", vec![]), ["SELECT"]);
    }

    #[test]
    fn names_come_before_words() {
        assert_eq!(candidates("wi", vec!["wide".into(), "other".into()]), ["wide", "with"]);
    }
}
